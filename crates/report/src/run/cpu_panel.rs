//! CPU by process group, stacked under the number of processors.

use walwright_figures::{Series, Summary, Timeline as Plots};
use walwright_record::Record;

use super::timeline::Axis;
use crate::svg::{Ink, Marks, Panel, Point, Rule, Track, Unit};

/// Groups told apart; the smaller ones are summed.
const GROUPS: usize = 7;

pub(super) fn cpu(record: &Record, summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let of_window = |group: &str| Some(summary.cpu.as_ref()?.group(group)?.processors);
    let track = |s: &Series| axis.track_of(s, short(&s.label), Ink::Other, of_window(&s.label));
    let mut tracks: Vec<Track> = plots.cpu.iter().map(track).collect();
    // A group without a row at a moment has no process then. Only a moment at
    // which no group is known is a gap.
    let moments = tracks.iter().map(|t| t.points.len()).max()?;
    let known: Vec<bool> = (0..moments)
        .map(|i| tracks.iter().any(|t| t.points.get(i).is_some_and(|p| p.value.is_some())))
        .collect();
    for track in &mut tracks {
        for (point, known) in track.points.iter_mut().zip(&known) {
            point.value = point.value.or(known.then_some(0.0));
        }
    }
    tracks.sort_by(|a, b| b.typical.unwrap_or(0.0).total_cmp(&a.typical.unwrap_or(0.0)));
    if tracks.len() > GROUPS {
        let rest = tracks.split_off(GROUPS - 1);
        tracks.push(sum(rest));
    }
    color(&mut tracks);
    let processors = record.host.as_ref().and_then(|h| h.processors).map(f64::from);
    let end = tracks.iter().filter_map(|t| t.points.last()).map(|p| p.at).fold(0.0, f64::max);
    let rules = processors.map(|n| Rule {
        from: 0.0,
        to: end,
        value: n,
        band: None,
        name: format!("{n} processors"),
    });
    Some(Panel {
        id: "cpu",
        title: "CPU by process".to_owned(),
        about: "processors kept busy".to_owned(),
        unit: Unit::Count("processors"),
        marks: Marks::Stack,
        tracks,
        rules: rules.into_iter().collect(),
        height: 106.0,
    })
}

/// The probe stores groups as `server: ROLE`, `other: COMMAND`, `walwright` and
/// `kernel threads`.
fn short(group: &str) -> &str {
    group.strip_prefix("server: ").or(group.strip_prefix("other: ")).unwrap_or(group)
}

fn sum(of: Vec<Track>) -> Track {
    let typical = of.iter().filter_map(|t| t.typical).reduce(|a, b| a + b);
    let points = of
        .iter()
        .map(|t| t.points.clone())
        .reduce(|a, b| {
            let add = |(a, b): (&Point, &Point)| Point {
                at: a.at,
                value: a.value.zip(b.value).map(|(a, b)| a + b),
            };
            a.iter().zip(&b).map(add).collect()
        })
        .unwrap_or_default();
    let name = format!("{} others", of.len());
    Track { name, ink: Ink::Quiet, points, dashed: false, typical }
}

/// Colours that say the same as elsewhere: who computes, who flushes, who drives.
fn color(tracks: &mut [Track]) {
    let mut free = [Ink::Lock, Ink::Other, Ink::Replication, Ink::Io, Ink::Max].into_iter().cycle();
    for track in tracks.iter_mut().filter(|t| t.ink != Ink::Quiet) {
        let name = track.name.to_lowercase();
        let has = |word: &str| name.contains(word);
        track.ink = if has("client backend") {
            Ink::Cpu
        } else if has("walwright") {
            Ink::Client
        } else if has("wal") {
            Ink::Flush
        } else if has("checkpoint") {
            Ink::LwLock
        } else if has("background") || has("bgwriter") {
            Ink::FlushQueue
        } else {
            free.next().unwrap_or(Ink::Other)
        };
    }
}

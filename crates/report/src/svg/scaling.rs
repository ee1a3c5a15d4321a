//! A sweep over clients: throughput with the fitted curve, and the latency breakdown of each load.

use std::fmt::Write;

use walwright_figures::scaling::{Scaling, ScalingLoad, ScalingResource};

use super::scale::{Scale, round_top};
use super::{Ink, Unit, axis, escape, line, put, px, rect, text};
use crate::format;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 44.0;
/// Part of its place that a column fills.
const COLUMN: f64 = 0.64;
/// Smallest part of a column that has room for its figure.
const NAMED: f64 = 0.07;

/// Throughput over clients: every run, the curve and where it may lie.
pub(crate) fn throughput(of: &Scaling) -> Option<String> {
    let (first, last) = (of.loads.first()?, of.loads.last()?);
    let high = |high: Option<f64>, center: f64| high.unwrap_or(center).max(center);
    let points = of.points.iter().map(|p| high(p.throughput.high(), p.throughput.center));
    let band = of.fit.iter().flat_map(|fit| &fit.band);
    let curve = band.map(|b| high(b.interval.map(|i| i.high), b.throughput));
    let most = points.chain(curve).fold(0.0, f64::max);
    let x =
        Scale::log(f64::from(first.clients) / 1.15, f64::from(last.clients) * 1.15, LEFT, RIGHT);
    let y = Scale::linear(0.0, round_top(most * 1.04, 6, 1.0), BOTTOM, TOP);
    let mut out = open("Throughput over clients");
    axis::vertical(&mut out, &y, Unit::PerSecond, LEFT, RIGHT, 6);
    for load in &of.loads {
        let at = x.at(f64::from(load.clients));
        line(&mut out, (at, BOTTOM), (at, BOTTOM + 4.0), "base");
        text(&mut out, at, BOTTOM + 17.0, "tick centred", &load.clients.to_string());
    }
    fit(&mut out, of, &x, &y);
    for point in &of.points {
        let at = x.at(f64::from(point.clients));
        if let Some(interval) = point.throughput.interval {
            let ends = ((at, y.at(interval.low)), (at, y.at(interval.high)));
            line(&mut out, ends.0, ends.1, "marker i-main");
        }
        put!(
            out,
            r#"<circle cx="{}" cy="{}" r="4.5" class="dot i-main"><title>{}: {}, {}</title></circle>"#,
            px(at),
            px(y.at(point.throughput.center)),
            escape(&point.run.0),
            escape(&format::counted(point.clients.into(), "client")),
            escape(&format::estimate(&point.throughput, "/s"))
        );
    }
    caption(&mut out, "clients");
    Some(out)
}

/// The curve, its band, and where knee and peak lie.
fn fit(out: &mut String, of: &Scaling, x: &Scale, y: &Scale) {
    let Some(fit) = &of.fit else { return };
    let upper = fit.band.iter().filter_map(|b| Some((b.clients, b.interval?.high)));
    let lower = fit.band.iter().rev().filter_map(|b| Some((b.clients, b.interval?.low)));
    let outline: Vec<String> = upper
        .chain(lower)
        .map(|(clients, rate)| format!("{},{}", px(x.at(clients)), px(y.at(rate))))
        .collect();
    if !outline.is_empty() {
        put!(out, r#"<polygon points="{}" class="band"/>"#, outline.join(" "));
    }
    let curve: Vec<String> = fit
        .band
        .iter()
        .map(|b| format!("{},{}", px(x.at(b.clients)), px(y.at(b.throughput))))
        .collect();
    put!(out, r#"<polyline points="{}" class="line i-second"/>"#, curve.join(" "));
    let knee = fit.knee_clients.as_ref().map(|knee| ("knee", knee.center));
    let peak = of.peak.as_ref().map(|peak| ("peak", peak.center));
    for (name, clients) in knee.into_iter().chain(peak).filter(|(_, at)| x.holds(*at)) {
        let at = x.at(clients);
        line(out, (at, TOP), (at, BOTTOM), "rule");
        text(out, at, TOP - 6.0, "note centred", &format!("{name} {}", format::about(clients)));
    }
}

/// Where the latency goes at each load: one column each, of the same height.
pub(crate) fn latency_breakdown(of: &Scaling) -> Option<String> {
    let loads: Vec<&ScalingLoad> = of.loads.iter().filter(|load| !load.times.is_empty()).collect();
    if loads.is_empty() {
        return None;
    }
    let y = Scale::linear(0.0, 1.0, BOTTOM, TOP);
    let mut out = open("Where the latency of a transaction goes at each number of clients");
    axis::vertical(&mut out, &y, Unit::Share, LEFT, RIGHT, 5);
    let room = (RIGHT - LEFT) / loads.len() as f64;
    for (place, load) in loads.iter().enumerate() {
        let middle = LEFT + room * (place as f64 + 0.5);
        let (left, right) = (middle - room * COLUMN / 2.0, middle + room * COLUMN / 2.0);
        // Sampling may put parts slightly beyond the whole, and a remainder below zero.
        let whole: f64 = load.times.iter().map(|time| time.share.center.max(0.0)).sum();
        let mut below = 0.0;
        for time in &load.times {
            let share = time.share.center.max(0.0) / whole.max(1.0);
            let (from, to) = (y.at(below), y.at(below + share));
            put!(out, "<g><title>{}</title>", escape(&described(load, time)));
            rect(
                &mut out,
                (left, to),
                (right, from),
                &format!("area {}", ink(time.resource).class()),
            );
            out.push_str("</g>");
            if share >= NAMED {
                let name = format::percent(time.share.center);
                text(&mut out, middle, f64::midpoint(from, to) + 4.0, "halo centred name", &name);
            }
            below += share;
        }
        let latency = load.latency.map_or_else(String::new, format::seconds);
        text(&mut out, middle, TOP - 8.0, "tick centred", &latency);
        text(&mut out, middle, BOTTOM + 17.0, "tick centred", &load.clients.to_string());
    }
    caption(&mut out, "clients; above each column the mean latency");
    Some(out)
}

fn described(load: &ScalingLoad, time: &walwright_figures::scaling::ResourceTime) -> String {
    format!(
        "{}: {} {}, {} of the latency",
        format::counted(load.clients.into(), "client"),
        time.resource.label(),
        format::seconds(time.seconds.center),
        format::percent(time.share.center)
    )
}

/// The colour of a resource: that of its waits in every other plot.
pub(crate) fn ink(resource: ScalingResource) -> Ink {
    match resource {
        ScalingResource::Processors => Ink::Cpu,
        ScalingResource::WalFlush => Ink::Flush,
        ScalingResource::Locks => Ink::Lock,
        ScalingResource::Lwlocks => Ink::LwLock,
        ScalingResource::DataIo => Ink::Io,
        ScalingResource::Replication => Ink::Replication,
        ScalingResource::Clients | ScalingResource::Generator => Ink::Client,
        ScalingResource::Other => Ink::Other,
    }
}

fn open(name: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">"#)
}

fn caption(out: &mut String, words: &str) {
    text(out, f64::midpoint(LEFT, RIGHT), HEIGHT - 6.0, "tick centred quiet", words);
    out.push_str("</svg>");
}

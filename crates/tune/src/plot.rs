//! The course of a search as a picture: what each measurement showed, one after the other.

use std::fmt::Write;

use walwright_figures::compare::FigureUnit;
use walwright_search::{Purpose, Trial};
use walwright_store::journal::Plot;

use super::{Objective, TuneState};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 46.0;
const TOP: f64 = 12.0;

/// The picture; `None` before two measurements.
pub(super) fn course(state: &TuneState, objective: &Objective) -> Option<Plot> {
    let searcher = state.searcher.as_ref()?;
    let made: Vec<(&Trial, Option<f64>)> =
        searcher.trials().iter().zip(state.made.iter().map(|made| made.value)).collect();
    let values: Vec<f64> = made.iter().filter_map(|(_, value)| *value).collect();
    let highest = values.iter().copied().reduce(f64::max)?;
    if values.len() < 2 || highest <= 0.0 {
        return None;
    }
    let x = |index: usize| {
        LEFT + 14.0 + (WIDTH - LEFT - 28.0) * index as f64 / (made.len() - 1).max(1) as f64
    };
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / (1.05 * highest);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="The course of the search">"#
    );
    let ticks = ticks(highest);
    // As many digits as the step has.
    let digits = ticks.get(1).map_or(0.0, |step: &f64| (-step.log10().floor()).max(0.0)) as usize;
    for tick in ticks {
        let at = y(tick);
        let right = WIDTH;
        put(
            &mut out,
            format_args!(
                r#"<line x1="{LEFT}" y1="{at:.1}" x2="{right}" y2="{at:.1}" class="grid" stroke="currentColor" stroke-opacity="0.15"/><text x="{:.1}" y="{:.1}" class="tick" text-anchor="end">{tick:.digits$}</text>"#,
                LEFT - 6.0,
                at + 4.0
            ),
        );
    }
    for (index, (trial, value)) in made.iter().enumerate() {
        let (mark, title) = (mark(&trial.purpose), title(trial, *value));
        match value {
            Some(value) => put(
                &mut out,
                format_args!(
                    r#"<circle cx="{:.1}" cy="{:.1}" r="4" {mark}><title>{title}</title></circle>"#,
                    x(index),
                    y(*value)
                ),
            ),
            None => put(
                &mut out,
                format_args!(
                    r#"<text x="{:.1}" y="{BOTTOM}" text-anchor="middle" class="note">×<title>{title}</title></text>"#,
                    x(index)
                ),
            ),
        }
    }
    let unit = match objective.metric.kind().unit {
        FigureUnit::PerSecond => ", per second,",
        FigureUnit::Seconds => ", in seconds,",
        FigureUnit::Bytes => ", in bytes,",
        FigureUnit::Count | FigureUnit::Share | FigureUnit::Processors => "",
    };
    let caption = format!("{}{unit} of each measurement in order", escaped(&objective.name()));
    let marks = "hollow: the baseline; faint: start points and screening; full: search and ablation; ×: did not run";
    // Two lines: what is drawn does not wrap, and one would be wider than a page.
    for (line, baseline) in [(caption.as_str(), HEIGHT - 26.0), (marks, HEIGHT - 9.0)] {
        put(
            &mut out,
            format_args!(
                r#"<text x="{:.1}" y="{baseline:.1}" text-anchor="middle" class="tick quiet">{line}</text>"#,
                f64::midpoint(LEFT, WIDTH)
            ),
        );
    }
    out.push_str("</svg>");
    Some(Plot { title: "The course of the search".to_owned(), svg: out })
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(what);
}

/// How a measurement is drawn.
fn mark(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Baseline | Purpose::Ablate { arm: 0, .. } => {
            r#"fill="none" stroke="currentColor""#
        }
        Purpose::Start { .. } | Purpose::Screen { .. } => {
            r#"fill="currentColor" fill-opacity="0.35""#
        }
        _ => r#"fill="currentColor""#,
    }
}

fn title(trial: &Trial, value: Option<f64>) -> String {
    let value = value.map_or("did not run".to_owned(), |value| format!("{value:.6}"));
    format!("measurement {}: {value}", trial.id + 1)
}

/// A cost may hold what XML would take for its own.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Round values from zero, three to eight of them.
fn ticks(highest: f64) -> Vec<f64> {
    let rough = highest / 3.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|f| f * power <= rough).unwrap_or(1.0);
    let step = factor * power;
    (0..=(highest / step) as u32).map(|i| f64::from(i) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(7_000.0), [0.0, 2_000.0, 4_000.0, 6_000.0]);
        for highest in [0.003, 1.0, 730.0, 99_999.0] {
            let ticks = ticks(highest);
            assert!((3..=8).contains(&ticks.len()), "{highest}: {ticks:?}");
        }
    }
}

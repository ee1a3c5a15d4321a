//! The course of a search as a picture.

use std::fmt::Write;

use super::{escape, put};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 46.0;
const TOP: f64 = 12.0;

/// What the marks mean.
const KEY: &str = "hollow: the baseline; faint: start points and screening; full: search and ablation; ×: did not run";

/// Measurements in their order.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) made: Vec<Measured>,
    pub(crate) caption: String,
}

/// A measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) number: u32,
    /// `None` where it did not run.
    pub(crate) value: Option<f64>,
    pub(crate) mark: CourseMark,
}

/// How a measurement is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CourseMark {
    Hollow,
    Faint,
    Full,
}

impl CourseMark {
    fn attributes(self) -> &'static str {
        match self {
            CourseMark::Hollow => r#"fill="none" stroke="currentColor""#,
            CourseMark::Faint => r#"fill="currentColor" fill-opacity="0.35""#,
            CourseMark::Full => r#"fill="currentColor""#,
        }
    }
}

impl Course {
    /// The picture, which stands alone; `None` before two measurements have a value.
    pub(crate) fn svg(&self) -> Option<String> {
        let values: Vec<f64> = self.made.iter().filter_map(|made| made.value).collect();
        let highest = values.iter().copied().reduce(f64::max)?;
        if values.len() < 2 || highest <= 0.0 {
            return None;
        }
        let last = (self.made.len() - 1).max(1) as f64;
        let x = |index: usize| LEFT + 14.0 + (WIDTH - LEFT - 28.0) * index as f64 / last;
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / (1.05 * highest);
        let mut out = format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="The course of the search">"#
        );
        let ticks = ticks(highest);
        // As many digits as the step has.
        let digits =
            ticks.get(1).map_or(0.0, |step: &f64| (-step.log10().floor()).max(0.0)) as usize;
        for tick in ticks {
            let at = y(tick);
            put!(
                out,
                r#"<line x1="{LEFT}" y1="{at:.1}" x2="{WIDTH}" y2="{at:.1}" class="grid" stroke="currentColor" stroke-opacity="0.15"/><text x="{:.1}" y="{:.1}" class="tick" text-anchor="end">{tick:.digits$}</text>"#,
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (index, made) in self.made.iter().enumerate() {
            let (mark, at) = (made.mark.attributes(), x(index));
            let told = made.value.map_or("did not run".to_owned(), |value| format!("{value:.6}"));
            let title = format!("measurement {}: {told}", made.number);
            match made.value {
                Some(value) => put!(
                    out,
                    r#"<circle cx="{at:.1}" cy="{:.1}" r="4" {mark}><title>{title}</title></circle>"#,
                    y(value)
                ),
                None => put!(
                    out,
                    r#"<text x="{at:.1}" y="{BOTTOM}" text-anchor="middle" class="note">×<title>{title}</title></text>"#
                ),
            }
        }
        // Two lines: what is drawn does not wrap, and one would be wider than a page.
        let caption = escape(&self.caption);
        for (line, baseline) in [(caption.as_str(), HEIGHT - 26.0), (KEY, HEIGHT - 9.0)] {
            put!(
                out,
                r#"<text x="{:.1}" y="{baseline:.1}" text-anchor="middle" class="tick quiet">{line}</text>"#,
                f64::midpoint(LEFT, WIDTH)
            );
        }
        out.push_str("</svg>");
        Some(out)
    }
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

//! Effects with their intervals as a picture.

use std::fmt::Write;

use walwright_record::journal::Effect;

use super::{interval, signed};
use crate::svg::{Ink, escape};

const WIDTH: f64 = 760.0;
const ROW: f64 = 26.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = WIDTH - 200.0;

/// The effects one below the other, on one axis with a line at zero; `None` without any.
/// An effect without an interval has no bar, and says so.
pub(super) fn forest(effects: &[Effect]) -> Option<String> {
    if effects.is_empty() {
        return None;
    }
    let values = || effects.iter().flat_map(|e| e.interval.into_iter().flatten().chain([e.change]));
    let (low, high) = values().fold((0.0_f64, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let room = ((high - low) * 0.05).max(0.005);
    let (low, high) = (low - room, high + room);
    let x = |value: f64| LEFT + (value - low) / (high - low) * (RIGHT - LEFT);
    let height = ROW * effects.len() as f64 + 12.0;
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Effects with intervals">"#
    );
    let _ = write!(
        out,
        r#"<line x1="{0:.1}" y1="2" x2="{0:.1}" y2="{1:.1}" class="base"/>"#,
        x(0.0),
        height - 8.0
    );
    for (place, effect) in effects.iter().enumerate() {
        let y = ROW * (place as f64 + 0.5) + 4.0;
        let ink = if effect.verdict == "proven" { Ink::Main } else { Ink::Quiet }.class();
        let name = format!("{}, {}", effect.arm, effect.metric);
        let name = crate::svg::shortened(&name, 46);
        let _ =
            write!(out, r#"<text x="0" y="{:.1}" class="name">{}</text>"#, y + 4.0, escape(&name));
        if let Some([from, to]) = effect.interval {
            let _ = write!(
                out,
                r#"<line x1="{:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" class="line {ink}"/>"#,
                x(from),
                x(to)
            );
        }
        let _ = write!(
            out,
            r#"<circle cx="{:.1}" cy="{y:.1}" r="4" class="dot {ink}"/>"#,
            x(effect.change)
        );
        let said = format!("{} ({})", signed(effect.change), interval(effect));
        let _ = write!(
            out,
            r#"<text x="{:.1}" y="{:.1}" class="tick">{}</text>"#,
            RIGHT + 10.0,
            y + 4.0,
            escape(&said)
        );
    }
    out.push_str("</svg>");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::sample;

    #[test]
    fn an_effect_without_an_interval_has_no_bar_and_zero_is_always_there() {
        assert_eq!(forest(&[]), None);
        let mut effects = sample().effects;
        effects.push(Effect { interval: None, change: 0.3, ..effects[0].clone() });
        let svg = forest(&effects).unwrap();
        assert_eq!(svg.matches("class=\"line").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("class=\"base\"").count(), 1);
        assert!(svg.contains("no interval") && !svg.contains("<WAL>"));
    }
}

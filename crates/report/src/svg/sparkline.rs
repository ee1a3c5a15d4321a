//! A course as small as a word.

use std::fmt::Write;

use super::{put, px};

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 20.0;

/// Values in their order over a base of zero; `None` where there is nothing to be seen.
pub(crate) fn sparkline(values: &[f64]) -> Option<String> {
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    if values.len() < 2 || most <= 0.0 {
        return None;
    }
    let step = WIDTH / (values.len() - 1) as f64;
    let mut line = String::new();
    for (place, value) in values.iter().enumerate() {
        let height = if value.is_finite() { value.max(0.0) / most } else { 0.0 };
        let (x, y) = (place as f64 * step, HEIGHT - 1.0 - height * (HEIGHT - 2.0));
        put!(line, "{}{} {}", if place == 0 { 'M' } else { 'L' }, px(x), px(y));
    }
    Some(format!(
        r#"<svg class="sparkline" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true"><path class="line i-main" d="{line}"/></svg>"#
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_drawn_where_there_is_one() {
        assert_eq!(sparkline(&[1.0]), None);
        assert_eq!(sparkline(&[0.0, 0.0, f64::NAN]), None);
        let drawn = sparkline(&[0.0, 4.0, f64::NAN, 2.0]).unwrap();
        assert!(drawn.contains("M0 19L40 1L80 19L120 10"), "{drawn}");
    }
}

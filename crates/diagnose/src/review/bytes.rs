//! Bytes for a sentence.

/// Bytes for a sentence: `7.7 GB`.
pub(super) fn in_words(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 10.0 && unit > 0 && value.fract() > 0.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

//! Latency percentiles beside those by which all runs are compared.

use walwright_record::Record;

use super::{Better, FigureKind, FigureUnit, Section};
use crate::latencies;

/// What the key of a latency percentile begins with.
const PREFIX: &str = "latency_p";

/// The figure of a latency percentile by its key: `latency_p98`, `latency_p99_95`. `None`
/// for any other key, and for percentiles that are not above 0 and below 100.
pub fn latency_percentile_kind(key: &str) -> Option<FigureKind> {
    let percent = percent(key)?;
    Some(FigureKind {
        key: key.to_owned(),
        name: format!("p{percent}"),
        section: Section::Load,
        unit: FigureUnit::Seconds,
        better: Some(Better::Lower),
    })
}

/// A latency percentile of one run in seconds, of all operations that belong to its
/// window; `None` where there were none, or the key names no percentile.
pub fn latency_percentile(record: &Record, key: &str) -> Option<f64> {
    let (percent, window) = (percent(key)?, record.window()?);
    Some(latencies(record, window).percentile(percent)?.as_secs_f64())
}

fn percent(key: &str) -> Option<f64> {
    let digits = key.strip_prefix(PREFIX)?;
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '_');
    let percent: f64 = digits.replace('_', ".").parse().ok().filter(|_| plain)?;
    (percent > 0.0 && percent < 100.0).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figure_kinds;

    #[test]
    fn keys_are_read_as_the_usual_figures_have_them() {
        for usual in figure_kinds().iter().filter(|kind| kind.key.starts_with(PREFIX)) {
            assert_eq!(latency_percentile_kind(&usual.key).as_ref(), Some(usual));
        }
        assert_eq!(percent("latency_p99_95"), Some(99.95));
        for wrong in ["latency_p", "latency_p0", "latency_p100", "latency_p9_9_9", "latency_p_5"] {
            assert_eq!(percent(wrong), None, "{wrong}");
        }
        for wrong in ["latency_mean", "latency_p1e1", "latency_pinf", "p99", "latency_p+5"] {
            assert_eq!(percent(wrong), None, "{wrong}");
        }
    }
}

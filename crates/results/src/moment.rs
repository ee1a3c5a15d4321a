//! Moments as load tools write them.

use walwright_record::Timestamp;

/// A moment written as seconds, milliseconds, microseconds or nanoseconds since 1970
/// (told from its size: all of them are between 1973 and 2286), or as RFC 3339.
///
/// `whole_seconds` says whether it can be no finer than a second.
pub(crate) fn moment(text: &str) -> Option<Moment> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        let micros = match number {
            n if (1e8..1e10).contains(&n) => n * 1e6,
            n if (1e11..1e13).contains(&n) => n * 1e3,
            n if (1e14..1e16).contains(&n) => n,
            n if (1e17..1e19).contains(&n) => n / 1e3,
            _ => return None,
        };
        let whole_seconds = number < 1e10 && number.fract() == 0.0;
        return Some(Moment { at: Timestamp(micros.round() as i64), whole_seconds });
    }
    let at: jiff::Timestamp = text.parse().ok()?;
    let whole_seconds = !text.contains('.');
    Some(Moment { at: Timestamp(at.as_microsecond()), whole_seconds })
}

/// A moment and how finely it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    /// Whether it may lie anywhere in the second that begins there.
    pub(crate) whole_seconds: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_tells_the_unit() {
        for (text, micros, whole) in [
            ("1595325560", 1_595_325_560_000_000, true),
            ("1595325560.25", 1_595_325_560_250_000, false),
            ("1595325560250", 1_595_325_560_250_000, false),
            ("1595325560250123", 1_595_325_560_250_123, false),
            ("1595325560250123000", 1_595_325_560_250_123, false),
            ("2020-07-21T09:59:20Z", 1_595_325_560_000_000, true),
            ("2020-07-21T11:59:20.25+02:00", 1_595_325_560_250_000, false),
        ] {
            let moment = moment(text).unwrap();
            // A double holds nanoseconds since 1970 to a quarter of a microsecond.
            assert!((moment.at.0 - micros).abs() <= 1, "{text}");
            assert_eq!(moment.whole_seconds, whole, "{text}");
        }
        for wrong in ["", "12.5", "-1", "nan", "inf", "1e300", "yesterday", "2020-07-21"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }
}

//! Units of axes: how ticks and values of a plot are written.

use crate::format::{self, ByteUnit, TimeUnit};

/// What a plot measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Events a second.
    PerSecond,
    /// Times, kept in seconds.
    Seconds,
    /// Bytes a second.
    BytesPerSecond,
    /// A part of one, shown in percent.
    Share,
    /// A number of these: `sessions`, `processors`.
    Count(&'static str),
}

/// A unit chosen for one axis: what one of it is, and its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisUnit {
    pub(crate) size: f64,
    pub(crate) name: &'static str,
}

impl Unit {
    /// The unit for an axis up to `most`.
    pub(crate) fn axis(self, most: f64) -> AxisUnit {
        let (size, name) = match self {
            Unit::PerSecond => (1.0, "per s"),
            Unit::Seconds => {
                let unit = TimeUnit::of(most);
                (unit.seconds(), unit.name())
            }
            Unit::BytesPerSecond => {
                let unit = ByteUnit::of(most);
                let name = match unit {
                    ByteUnit::B => "B/s",
                    ByteUnit::KB => "kB/s",
                    ByteUnit::MB => "MB/s",
                    ByteUnit::GB => "GB/s",
                    ByteUnit::TB => "TB/s",
                };
                (unit.bytes(), name)
            }
            Unit::Share => (0.01, "%"),
            Unit::Count(name) => (1.0, name),
        };
        AxisUnit { size, name }
    }

    /// A value as it stands beside a line.
    pub(crate) fn value(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format::rate(value),
            Unit::Seconds => format::seconds(value),
            Unit::BytesPerSecond => format::byte_rate(value),
            Unit::Share => format::percent(value),
            Unit::Count(_) => format::about(value),
        }
    }
}

/// A tick of a linear axis, without its unit: as many decimals as the step needs.
pub(crate) fn tick(value: f64, step: f64, unit: AxisUnit) -> String {
    let (value, step) = (value / unit.size, step / unit.size);
    let decimals = if step >= 1.0 || step <= 0.0 { 0 } else { (-step.log10()).ceil() as usize };
    let decimals = match decimals {
        // A half step (0.5, 2.5) needs one more than its power of ten.
        0 if step.fract() > 1e-9 => 1,
        d => d.min(6),
    };
    if decimals == 0 { short(value) } else { format!("{value:.decimals$}") }
}

/// A whole number, shortened where a tick has no room for it.
fn short(value: f64) -> String {
    if value.abs() < 1e6 { format::whole(value) } else { format::about(value) }
}

/// A tick of a logarithmic axis of times, with its own unit: `1 ms`, `300 µs`.
pub(crate) fn log_tick(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => {
            let unit = if value < 0.999e-3 {
                TimeUnit::Micros
            } else if value < 0.999 {
                TimeUnit::Millis
            } else {
                TimeUnit::Seconds
            };
            format!("{} {}", short(value / unit.seconds()), unit.name())
        }
        other => other.value(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_read_in_one_unit() {
        let unit = Unit::Seconds.axis(0.012);
        assert_eq!((unit.name, tick(0.0025, 0.0025, unit)), ("ms", "2.5".to_owned()));
        let unit = Unit::BytesPerSecond.axis(20.0 * 1048576.0);
        assert_eq!((unit.name, tick(5.0 * 1048576.0, 5.0 * 1048576.0, unit)), ("MB/s", "5".into()));
        let unit = Unit::Count("sessions").axis(1.0);
        assert_eq!(tick(0.2, 0.2, unit), "0.2");
    }

    #[test]
    fn logarithmic_ticks_carry_their_unit() {
        assert_eq!(log_tick(300e-6, Unit::Seconds), "300 µs");
        assert_eq!(log_tick(1e-3, Unit::Seconds), "1 ms");
        assert_eq!(log_tick(10.0, Unit::Seconds), "10 s");
    }
}

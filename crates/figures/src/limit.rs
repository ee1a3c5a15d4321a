//! Limits that a run or a comparison must not pass: `p99 > 20ms`, `change(tps) < -5%`.
//!
//! ```text
//! limit  = metric comparison value
//! metric = measure | "change(" measure ")"
//! measure = "pN" | "max" | "mean" | "tps" | "failed_share" | "lag_pN"
//! comparison = ">" | ">=" | "<" | "<="
//! value  = number unit          us, ms, s, m, h for times; % for shares and changes
//! ```

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;
use walwright_record::{Record, Window};

use crate::figure_unit::FigureUnit;
use crate::{LoadSummary, lags, latencies};

/// A condition under which what was measured has failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// What is held against it.
    pub measure: Measure,
    /// Whether it is the change of that against the baseline of a comparison.
    pub of_change: bool,
    relation: Relation,
    /// In seconds, a second, or as a fraction.
    value: f64,
}

/// What a limit can be on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// A percentile of latency.
    Percentile(f64),
    /// The longest latency.
    Max,
    /// The mean latency.
    Mean,
    /// Transactions a second.
    Tps,
    /// Transactions that failed, of all.
    FailedShare,
    /// A percentile of how long after its due time a transaction of an open loop began.
    LagPercentile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const RELATIONS: [(&str, Relation); 4] = [
    // The longer ones first: `>=` begins as `>` does.
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
];

const TIMES: [(&str, f64); 5] =
    [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Why a text is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is no limit: at character {at}, {what}")]
pub struct LimitError {
    /// The text.
    pub text: String,
    /// Where it goes wrong, from 1.
    pub at: usize,
    /// What is wrong there, and what to write.
    pub what: String,
}

/// A limit held against what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedLimit {
    /// The limit.
    #[serde(serialize_with = "as_text")]
    pub limit: Limit,
    /// The group of a comparison that it was held against.
    pub group: Option<String>,
    /// What was measured, in seconds, a second, or as a fraction.
    pub value: Option<f64>,
    /// What came of it.
    pub outcome: LimitOutcome,
}

/// What came of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitOutcome {
    /// The condition does not hold.
    Passed,
    /// It holds.
    Failed,
    /// The measure is not known.
    Unknown,
    /// Only a lower bound of the measure is known, which leaves it open.
    LowerBound,
}

/// A measure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) is_lower_bound: bool,
}

impl Limit {
    /// The unit of its measure, or of the change of it.
    pub fn unit(&self) -> FigureUnit {
        match self.of_change {
            true => FigureUnit::Share,
            false => self.measure.unit(),
        }
    }

    /// Holds the limit against a run.
    pub fn judge(&self, record: &Record, load: Option<&LoadSummary>) -> JudgedLimit {
        let measured = load.zip(record.window());
        let measured = measured.and_then(|(load, window)| self.measure.of(record, window, load));
        self.judged(None, measured.filter(|_| !self.of_change))
    }

    pub(crate) fn judged(&self, group: Option<String>, measured: Option<Measured>) -> JudgedLimit {
        let measured = measured.filter(|measured| measured.value.is_finite());
        let outcome = match measured {
            None => LimitOutcome::Unknown,
            Some(Measured { value, is_lower_bound }) => {
                let (holds, longer_may_differ) = match self.relation {
                    Relation::Above => (value > self.value, value <= self.value),
                    Relation::AtLeast => (value >= self.value, value < self.value),
                    Relation::Below => (value < self.value, value < self.value),
                    Relation::AtMost => (value <= self.value, value <= self.value),
                };
                match holds {
                    _ if is_lower_bound && longer_may_differ => LimitOutcome::LowerBound,
                    true => LimitOutcome::Failed,
                    false => LimitOutcome::Passed,
                }
            }
        };
        let value = measured.map(|measured| measured.value);
        JudgedLimit { limit: self.clone(), group, value, outcome }
    }
}

impl JudgedLimit {
    /// Whether the run or comparison failed by it: a limit that cannot be judged is not kept.
    pub fn is_failed(&self) -> bool {
        self.outcome != LimitOutcome::Passed
    }
}

impl Measure {
    fn unit(self) -> FigureUnit {
        match self {
            Measure::Tps => FigureUnit::PerSecond,
            Measure::FailedShare => FigureUnit::Share,
            _ => FigureUnit::Seconds,
        }
    }

    pub(crate) fn of(
        self,
        record: &Record,
        window: Window,
        load: &LoadSummary,
    ) -> Option<Measured> {
        let latency = load.latency.as_ref();
        let lag = load.open_loop.as_ref().and_then(|open| open.lag.as_ref());
        let of_time = |time: std::time::Duration, of: &crate::Latency| Measured {
            value: time.as_secs_f64(),
            is_lower_bound: of.is_lower_bound(time),
        };
        let exact = |value: f64| Measured { value, is_lower_bound: false };
        Some(match self {
            Measure::Percentile(percent) => {
                of_time(latencies(record, window).percentile(percent)?, latency?)
            }
            Measure::LagPercentile(percent) => {
                of_time(lags(record, window).percentile(percent)?, lag?)
            }
            Measure::Max => of_time(latency?.max, latency?),
            Measure::Mean => exact(load.mean_latency?.as_secs_f64()),
            Measure::Tps => exact(load.throughput.as_ref()?.center),
            Measure::FailedShare => match load.failed + load.transactions {
                0 => return None,
                all => exact(load.failed as f64 / all as f64),
            },
        })
    }
}

impl Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Percentile(percent) => write!(f, "p{percent}"),
            Measure::Max => f.write_str("max"),
            Measure::Mean => f.write_str("mean"),
            Measure::Tps => f.write_str("tps"),
            Measure::FailedShare => f.write_str("failed_share"),
            Measure::LagPercentile(percent) => write!(f, "lag_p{percent}"),
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_change {
            true => write!(f, "change({})", self.measure)?,
            false => write!(f, "{}", self.measure)?,
        }
        let known = RELATIONS.iter().find(|(_, relation)| *relation == self.relation);
        let sign = known.map_or("", |(sign, _)| sign);
        match self.unit() {
            FigureUnit::Seconds => {
                // The largest unit that leaves a number of 1 or more.
                let fits = TIMES.iter().take(3).rev().find(|(_, seconds)| self.value >= *seconds);
                let (unit, seconds) = fits.unwrap_or(&TIMES[0]);
                write!(f, " {sign} {}{unit}", rounded(self.value / seconds))
            }
            FigureUnit::Share => write!(f, " {sign} {}%", rounded(self.value * 100.0)),
            _ => write!(f, " {sign} {}", self.value),
        }
    }
}

/// Without what multiplying left behind the twelfth digit.
fn rounded(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

fn as_text<S: serde::Serializer>(limit: &Limit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(limit)
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let mut scan = Scan { text, at: 0 };
        scan.space();
        let of_change = scan.word("change");
        if of_change {
            scan.space();
            scan.expect("(", "write change(p99)")?;
            scan.space();
        }
        let measure = scan.measure()?;
        scan.space();
        if of_change {
            scan.expect(")", "close it with ')'")?;
            scan.space();
        }
        let relation = scan.relation()?;
        scan.space();
        let value = scan.value(measure, of_change)?;
        scan.space();
        match scan.rest().is_empty() {
            true => Ok(Limit { measure, of_change, relation, value }),
            false => Err(scan.fails("nothing may follow the value; one --fail-if for each limit")),
        }
    }
}

/// A text and how far it was read.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn fails(&self, what: impl Into<String>) -> LimitError {
        let at = self.text[..self.at].chars().count() + 1;
        LimitError { text: self.text.to_owned(), at, what: what.into() }
    }

    /// As many letters as these are.
    fn take(&mut self, these: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !these(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Whether this word is next, which is then read.
    fn word(&mut self, word: &str) -> bool {
        let from = self.at;
        let found = self.take(|letter| letter.is_alphanumeric() || letter == '_') == word;
        if !found {
            self.at = from;
        }
        found
    }

    fn expect(&mut self, sign: &str, advice: &str) -> Result<(), LimitError> {
        match self.rest().starts_with(sign) {
            true => {
                self.at += sign.len();
                Ok(())
            }
            false => Err(self.fails(advice)),
        }
    }

    fn measure(&mut self) -> Result<Measure, LimitError> {
        let from = self.at;
        let name = self.take(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'));
        let percent = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let percent: f64 = digits.parse().ok().filter(|_| plain)?;
            (percent > 0.0 && percent < 100.0).then_some(percent)
        };
        let measure = match name {
            "max" => Some(Measure::Max),
            "mean" => Some(Measure::Mean),
            "tps" => Some(Measure::Tps),
            "failed_share" => Some(Measure::FailedShare),
            _ => match (name.strip_prefix("lag_p"), name.strip_prefix('p')) {
                (Some(digits), _) => percent(digits).map(Measure::LagPercentile),
                (None, Some(digits)) => percent(digits).map(Measure::Percentile),
                (None, None) => None,
            },
        };
        measure.ok_or_else(|| {
            self.at = from;
            let found = if name.is_empty() { "no metric".to_owned() } else { format!("'{name}'") };
            self.fails(format!(
                "{found}; write p50, p99, p99.9, max, mean, tps, failed_share or lag_p99"
            ))
        })
    }

    fn relation(&mut self) -> Result<Relation, LimitError> {
        let found = RELATIONS.iter().find(|(sign, _)| self.rest().starts_with(sign));
        let (sign, relation) =
            found.ok_or_else(|| self.fails("no comparison; write >, >=, < or <="))?;
        self.at += sign.len();
        Ok(*relation)
    }

    fn value(&mut self, measure: Measure, of_change: bool) -> Result<f64, LimitError> {
        let unit = if of_change { FigureUnit::Share } else { measure.unit() };
        let example = match (of_change, unit) {
            (true, _) => "a percentage, as 5%",
            (_, FigureUnit::Seconds) => "a time with its unit, as 20ms",
            (_, FigureUnit::Share) => "a percentage, as 1%",
            _ => "a number, as 5000",
        };
        let from = self.at;
        let negative = of_change && self.rest().starts_with('-');
        self.at += usize::from(negative);
        let digits = self.take(|letter| letter.is_ascii_digit() || letter == '.');
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
        let Some(number) = number else {
            self.at = from;
            return Err(self.fails(format!("no number; write {example}")));
        };
        self.space();
        let from = self.at;
        let suffix = self.take(|letter| letter.is_alphabetic() || letter == '%');
        let scale = match unit {
            FigureUnit::Seconds => {
                TIMES.iter().find(|(name, _)| *name == suffix).map(|(_, scale)| *scale)
            }
            FigureUnit::Share => (suffix == "%").then_some(0.01),
            _ => suffix.is_empty().then_some(1.0),
        };
        let Some(scale) = scale else {
            self.at = from;
            let found = if suffix.is_empty() { "no unit" } else { "a unit that does not fit" };
            return Err(self.fails(format!("{found}; write {example}")));
        };
        Ok(if negative { -number * scale } else { number * scale })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walwright_testing::Build;

    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_limit_is_a_metric_a_comparison_and_a_value() {
        for (text, read) in [
            ("p99 > 20ms", "p99 > 20ms"),
            ("p99.9>=1.5s", "p99.9 >= 1.5s"),
            ("  mean<  300us ", "mean < 300us"),
            ("max > 2m", "max > 120s"),
            ("tps < 5000", "tps < 5000"),
            ("failed_share > 0.1%", "failed_share > 0.1%"),
            ("lag_p99 <= 0ms", "lag_p99 <= 0us"),
            ("change(p99) > 5%", "change(p99) > 5%"),
            ("change( tps ) < -5 %", "change(tps) < -5%"),
        ] {
            assert_eq!(limit(text).to_string(), read, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_what_to_write() {
        for (text, at, words) in [
            ("", 1, "no metric"),
            ("p98x > 1ms", 1, "'p98x'"),
            ("p100 > 1ms", 1, "'p100'"),
            ("p99", 4, "no comparison"),
            ("p99 = 3ms", 5, "write >"),
            ("p99 >> 3ms", 6, "no number"),
            ("p99 > 20", 9, "no unit; write a time"),
            ("p99 > 20%", 9, "does not fit"),
            ("tps < 5k", 8, "write a number"),
            ("failed_share > 0.1", 19, "write a percentage"),
            ("change p99 > 5%", 8, "change(p99)"),
            ("change(p99 > 5%", 12, "')'"),
            ("p99 > -5ms", 7, "no number"),
            ("p99 > 5ms 6", 11, "nothing may follow"),
            ("größe > 5", 1, "'größe'"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.what.contains(words), "{error}");
        }
    }

    fn judged(text: &str, build: &Build) -> JudgedLimit {
        let load = crate::summary(&build.record).load;
        limit(text).judge(&build.record, load.as_ref())
    }

    #[test]
    fn a_run_fails_by_what_holds_and_by_what_is_not_known() {
        let mut build = Build::new();
        // Every transaction takes 2 ms.
        build.load(0, 30, 500).measure(0.0, 30.0);
        for (text, outcome) in [
            ("p99 > 1ms", LimitOutcome::Failed),
            ("p90 > 3ms", LimitOutcome::Passed),
            ("p90 < 3ms", LimitOutcome::Failed),
            ("max > 1s", LimitOutcome::Passed),
            ("mean >= 1ms", LimitOutcome::Failed),
            ("tps < 499", LimitOutcome::Passed),
            ("tps <= 500", LimitOutcome::Failed),
            ("failed_share > 0%", LimitOutcome::Passed),
            ("failed_share <= 0%", LimitOutcome::Failed),
            // A closed loop has no due times, and one run no baseline.
            ("lag_p99 > 1ms", LimitOutcome::Unknown),
            ("change(p99) > 1%", LimitOutcome::Unknown),
        ] {
            let judged = judged(text, &build);
            assert_eq!(judged.outcome, outcome, "{text}: {:?}", judged.value);
            assert_eq!(judged.is_failed(), outcome != LimitOutcome::Passed);
        }
        let empty = Build::new();
        assert_eq!(judged("p99 > 1ms", &empty).outcome, LimitOutcome::Unknown);
        let json = serde_json::to_value(judged("p99 > 1ms", &build)).unwrap();
        assert_eq!((&json["limit"], &json["outcome"]), (&"p99 > 1ms".into(), &"failed".into()));
    }

    #[test]
    fn a_lower_bound_settles_only_what_more_would_not_change() {
        let at_least = Some(Measured { value: 0.01, is_lower_bound: true });
        let outcome = |text: &str| limit(text).judged(None, at_least).outcome;
        assert_eq!(outcome("p99 > 5ms"), LimitOutcome::Failed);
        assert_eq!(outcome("p99 > 20ms"), LimitOutcome::LowerBound);
        assert_eq!(outcome("p99 < 20ms"), LimitOutcome::LowerBound);
        assert_eq!(outcome("p99 < 5ms"), LimitOutcome::Passed);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,40}") {
            if let Err(error) = text.parse::<Limit>() {
                prop_assert!(error.at >= 1 && error.at <= text.chars().count() + 1);
            }
        }

        #[test]
        fn what_is_nearly_a_limit_does_not_trip_it(
            text in "(change ?\\()?(p|lag_p|tps|max|p99)[0-9.]{0,9}\\)? ?[<>=]{0,3} ?-?[0-9.e]{0,400}(ms|%|µs|s)?",
        ) {
            let _ = text.parse::<Limit>();
        }

        #[test]
        fn what_is_written_reads_back(
            measure in prop::sample::select(vec!["p50", "p99.9", "max", "tps", "failed_share", "lag_p99"]),
            of_change: bool,
            sign in prop::sample::select(vec![">", ">=", "<", "<="]),
            value in 0u32..100_000,
        ) {
            let unit = match measure {
                _ if of_change => "%",
                "tps" => "",
                "failed_share" => "%",
                _ => "us",
            };
            let metric = if of_change { format!("change({measure})") } else { measure.to_owned() };
            let read = limit(&format!("{metric} {sign} {value}{unit}"));
            let again = limit(&read.to_string());
            prop_assert!((again.value - read.value).abs() <= 1e-12 * read.value.abs());
            prop_assert_eq!(Limit { value: read.value, ..again }, read);
        }
    }
}

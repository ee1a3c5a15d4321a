//! What a result looks like: centre, interval, assumption and warnings together.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// How often an interval made this way covers the truth, between 0 and 1 exclusive.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(f64);

impl Confidence {
    /// 95 %, the level used unless a caller asks otherwise.
    pub const P95: Confidence = Confidence(0.95);

    /// A confidence level; `None` unless strictly between 0 and 1.
    pub fn new(level: f64) -> Option<Self> {
        (level > 0.0 && level < 1.0).then_some(Confidence(level))
    }

    /// The level as a fraction.
    pub fn level(self) -> f64 {
        self.0
    }

    /// The accepted rate of misses, 1 − level.
    pub fn alpha(self) -> f64 {
        1.0 - self.0
    }
}

impl Default for Confidence {
    fn default() -> Self {
        Self::P95
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> f64 {
        confidence.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = String;

    fn try_from(level: f64) -> Result<Self, String> {
        Confidence::new(level)
            .ok_or_else(|| format!("a confidence level lies between 0 and 1, not at {level}"))
    }
}

/// A closed interval, `low` ≤ `high`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// An interval between two ends given in any order.
    pub fn between(a: f64, b: f64) -> Self {
        Interval { low: a.min(b), high: a.max(b) }
    }

    /// Whether `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half the distance between the ends.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Both ends passed through a monotonic function.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Interval::between(f(self.low), f(self.high))
    }
}

/// How an interval was made, and with that what it assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Student's t over independent, roughly normal observations.
    Student,
    /// Student's t with the effective sample size of a stationary, autocorrelated series.
    BatchMeans,
    /// Student's t over log-ratios of blocks, back-transformed.
    PairedLogRatio,
    /// Welch's t over the logarithms of two groups of independent runs, back-transformed.
    WelchLogRatio,
    /// Percentile bootstrap over blocks of a stationary series.
    BlockBootstrap,
    /// Bias-corrected and accelerated bootstrap over blocks of a stationary series.
    BlockBootstrapBca,
    /// Bootstrap of runs, then of blocks inside each run.
    HierarchicalBootstrap,
    /// Bootstrap of the residuals of a fitted curve.
    ResidualBootstrap,
    /// The posterior of a Gaussian process over all measurements of a search.
    GaussianProcess,
    /// No sampling at all: the ends are what a cost model allows at least and at most.
    CostModel,
}

/// A reason to trust an estimate less, with the figures a person needs to judge it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "code", rename_all = "snake_case")]
pub enum EstimateWarning {
    /// Not enough observations for an interval.
    TooFewSamples {
        /// How many there were.
        have: usize,
        /// How many an interval needs.
        need: usize,
    },
    /// The series is so autocorrelated that its interval rests on few independent observations.
    FewEffectiveSamples {
        /// Effective sample size.
        effective: f64,
        /// Observations made.
        observed: usize,
    },
    /// With so few blocks no test can reach the level asked for: good to screen, not to prove.
    ScreeningOnly {
        /// Blocks there were.
        blocks: usize,
        /// The smallest two-sided p-value they can give.
        smallest_p: f64,
    },
    /// All observations are equal, so spread and interval are not informative.
    NoSpread,
    /// Only one run: how much runs differ from each other is not in the interval.
    SingleRun,
    /// A fitted quantity lies outside the range that was measured.
    BeyondData {
        /// Largest measured abscissa.
        measured_to: f64,
    },
    /// Some resamples gave no value and were left out.
    ResamplesLost {
        /// How many of them.
        lost: usize,
        /// Out of how many.
        of: usize,
    },
}

impl fmt::Display for EstimateWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EstimateWarning::TooFewSamples { have, need } => {
                write!(f, "only {have} observations; an interval needs {need}")
            }
            EstimateWarning::FewEffectiveSamples { effective, observed } => write!(
                f,
                "{observed} autocorrelated observations are worth only {effective:.1} independent ones"
            ),
            EstimateWarning::ScreeningOnly { blocks, smallest_p } => write!(
                f,
                "screening only: {blocks} blocks cannot give a p-value below {smallest_p:.3}"
            ),
            EstimateWarning::NoSpread => f.write_str("all observations are equal"),
            EstimateWarning::SingleRun => {
                f.write_str("one run only: the interval does not hold the spread between runs")
            }
            EstimateWarning::BeyondData { measured_to } => {
                write!(f, "extrapolated: measured only up to {measured_to}")
            }
            EstimateWarning::ResamplesLost { lost, of } => {
                write!(f, "{lost} of {of} resamples gave no value")
            }
        }
    }
}

impl Serialize for EstimateWarning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EstimateWarning::serialize(self, serializer)
    }
}

/// Results written before version 0.1 call the tag `doubt`.
impl<'de> Deserialize<'de> for EstimateWarning {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        if let Some(code) = fields.remove("doubt") {
            fields.insert("code".to_owned(), code);
        }
        EstimateWarning::deserialize(Value::Object(fields)).map_err(D::Error::custom)
    }
}

/// An estimated quantity: never a bare number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Best single value, in the unit of the observations.
    pub center: f64,
    /// Where the truth may lie; `None` when the data cannot say.
    pub interval: Option<Interval>,
    /// How often intervals made this way cover the truth.
    pub confidence: Confidence,
    /// How the interval was made.
    pub method: Method,
    /// Reasons to trust it less.
    #[serde(alias = "doubts")]
    pub warnings: Vec<EstimateWarning>,
}

impl Estimate {
    /// An estimate whose interval is `center ± half_width`.
    pub fn symmetric(center: f64, half_width: f64, confidence: Confidence, method: Method) -> Self {
        let interval = (half_width.is_finite())
            .then(|| Interval::between(center - half_width, center + half_width));
        Estimate { center, interval, confidence, method, warnings: Vec::new() }
    }

    /// An estimate without an interval, and why.
    pub fn without_interval(
        center: f64,
        confidence: Confidence,
        method: Method,
        warning: EstimateWarning,
    ) -> Self {
        Estimate { center, interval: None, confidence, method, warnings: vec![warning] }
    }

    /// Lower end of the interval, if there is one.
    pub fn low(&self) -> Option<f64> {
        self.interval.map(|i| i.low)
    }

    /// Upper end of the interval, if there is one.
    pub fn high(&self) -> Option<f64> {
        self.interval.map(|i| i.high)
    }

    /// Half-width over centre; `None` without an interval or at a centre of zero.
    pub fn relative_half_width(&self) -> Option<f64> {
        let half_width = self.interval?.half_width();
        (self.center != 0.0).then(|| half_width / self.center.abs())
    }

    /// Whether the interval exists and leaves `value` out.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval.is_some_and(|i| !i.contains(value))
    }

    /// The same estimate in another unit: centre and ends through a monotonic function.
    #[must_use]
    pub fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        self.center = f(self.center);
        self.interval = self.interval.map(|i| i.map(f));
        self
    }

    /// The same estimate with one more warning.
    #[must_use]
    pub fn with_warning(mut self, warning: EstimateWarning) -> Self {
        self.warnings.push(warning);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_level_is_a_proper_fraction() {
        assert!(Confidence::new(0.0).is_none());
        assert!(Confidence::new(1.0).is_none());
        assert!(Confidence::new(f64::NAN).is_none());
        assert_eq!(Confidence::new(0.95), Some(Confidence::P95));
    }

    #[test]
    fn a_warning_of_an_earlier_version_is_read() {
        let warning = EstimateWarning::TooFewSamples { have: 1, need: 2 };
        let written = serde_json::to_string(&warning).unwrap();
        assert_eq!(serde_json::from_str::<EstimateWarning>(&written).unwrap(), warning);
        let earlier = written.replace("\"code\"", "\"doubt\"");
        assert_ne!(earlier, written);
        assert_eq!(serde_json::from_str::<EstimateWarning>(&earlier).unwrap(), warning);
    }

    #[test]
    fn a_decreasing_map_keeps_the_ends_in_order() {
        let estimate = Estimate::symmetric(4.0, 1.0, Confidence::P95, Method::Student);
        let inverse = estimate.map(|x| 1.0 / x);
        assert_eq!(inverse.interval, Some(Interval { low: 0.2, high: 1.0 / 3.0 }));
    }

    #[test]
    fn no_interval_excludes_nothing() {
        let unknown = Estimate::without_interval(
            3.0,
            Confidence::P95,
            Method::Student,
            EstimateWarning::TooFewSamples { have: 1, need: 2 },
        );
        assert!(!unknown.excludes(0.0));
        assert_eq!(unknown.low(), None);
    }
}

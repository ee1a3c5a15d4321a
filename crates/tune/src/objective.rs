//! What is to become better, and what must not become worse by it.

use std::collections::BTreeMap;

use walwright_experiment::Metric;
use walwright_figures::compare::Better;
use walwright_search::Outcome;

use super::TuneError;
use super::made::Made;

/// Share of the baseline's throughput that an objective other than throughput may cost, where
/// nobody says otherwise.
const ALLOWED_LOSS: f64 = 0.03;
/// Figures that are zero where all is well: of zero there is no ratio.
const MAY_BE_ZERO: [&str; 8] = [
    "failed",
    "rolled_back",
    "wal_fpi",
    "wal_buffers_full",
    "hot",
    "blocks_read",
    "temp_bytes",
    "deadlocks",
];

/// What a tune improves.
#[derive(Debug, Clone)]
pub struct Objective {
    /// As it was asked for.
    pub text: String,
    /// The figure or cost.
    pub metric: Metric,
    /// Transactions offered each second: an open loop. `None` is a closed loop.
    pub rate: Option<f64>,
    /// Share of the baseline's throughput that it may cost; `None` where it may cost all.
    pub allowed_loss: Option<f64>,
}

impl Objective {
    /// Reads `throughput`, `p99@5000` (a percentile at an offered rate), `wal-bytes`,
    /// the name of any figure, or a cost expression over figures.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Objective, TuneError> {
        let text = text.trim();
        let named = |name: &str| Metric::named(name, None);
        let objective = |metric, rate, allowed_loss| Objective {
            text: text.to_owned(),
            metric,
            rate,
            allowed_loss,
        };
        if let Some((percentile, rate)) = text.split_once('@') {
            let rate: f64 = rate
                .trim()
                .parse()
                .ok()
                .filter(|r: &f64| *r > 0.0 && r.is_finite())
                .ok_or_else(|| {
                    TuneError::Asked(format!(
                        "'{text}' offers no rate: write p99@5000 for 5,000 transactions a second"
                    ))
                })?;
            let metric = named(&format!("latency_{}", percentile.trim().replace('.', "_")))?;
            return Ok(objective(metric, Some(rate), None));
        }
        match text {
            "throughput" => Ok(objective(named("throughput")?, None, None)),
            "wal-bytes" | "wal_bytes" => {
                Ok(objective(named("wal_bytes")?, None, Some(ALLOWED_LOSS)))
            }
            _ if text.contains(':') => {
                Ok(objective(Metric::named("cost", Some(text))?, None, None))
            }
            // A latency without a rate is that of a closed loop, where it is throughput
            // by another name.
            _ => {
                let metric = named(&text.replace('-', "_"))?;
                let key = metric.kind().key;
                let waits = key.starts_with("time_") && key != "time_cpu";
                match waits || MAY_BE_ZERO.contains(&key.as_str()) {
                    true => Err(TuneError::Asked(format!(
                        "'{text}' may be zero, and a tune compares by ratios: make a cost of it with something that is not, such as ':{key} + :latency_mean' or ':{key} + 1'"
                    ))),
                    false => Ok(objective(metric, None, Some(ALLOWED_LOSS))),
                }
            }
        }
    }

    /// The same with another share of throughput that it may cost.
    ///
    /// # Errors
    /// Where it may cost all of it.
    pub fn allowing(self, loss: f64) -> Result<Objective, TuneError> {
        match self.allowed_loss {
            Some(_) => Ok(Objective { allowed_loss: Some(loss), ..self }),
            None => Err(TuneError::Asked(format!(
                "'{}' keeps no throughput beside it, so no loss of it can be allowed",
                self.text
            ))),
        }
    }

    /// The figure's value for a run.
    pub fn value(&self, figures: &BTreeMap<String, f64>) -> Option<f64> {
        self.metric.value(figures).filter(|value| *value > 0.0)
    }

    /// The score of a value: its logarithm, turned so that more is better.
    pub fn score(&self, value: f64) -> f64 {
        match self.metric.kind().better {
            Better::Higher => value.ln(),
            Better::Lower => -value.ln(),
        }
    }

    /// What a measurement is to the search: crashed without a value.
    pub(super) fn outcome(&self, made: &Made) -> Outcome {
        let throughput = made.throughput.filter(|throughput| *throughput > 0.0);
        match made.value {
            Some(value) => Outcome::Measured {
                score: self.score(value),
                kept: throughput.filter(|_| self.allowed_loss.is_some()).map(f64::ln),
            },
            None => Outcome::Crashed,
        }
    }

    /// Whether more of it is better.
    pub fn is_more_better(&self) -> bool {
        self.metric.kind().better == Better::Higher
    }

    /// A change of the figure for the better, as a gain of the score: where less is better, 20 %
    /// less of it are 25 % more score.
    pub fn score_gain(&self, change: f64) -> f64 {
        if self.is_more_better() { change } else { change / (1.0 - change) }
    }

    /// What it is called beside a figure.
    pub fn name(&self) -> String {
        self.metric.kind().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(throughput: f64, wal: f64) -> BTreeMap<String, f64> {
        [("throughput", throughput), ("wal_bytes", wal), ("latency_p99", 0.004)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    #[test]
    fn objectives_are_read_and_scored_in_the_right_direction() {
        let figures = figures(1_000.0, 500.0);
        let throughput = Objective::parse("throughput").unwrap();
        assert!(throughput.score(200.0) > throughput.score(100.0));
        assert_eq!(throughput.value(&figures), Some(1_000.0));
        let latency = Objective::parse("p99@2500").unwrap();
        assert_eq!((latency.rate, latency.value(&figures)), (Some(2_500.0), Some(0.004)));
        assert!(latency.score(0.002) > latency.score(0.004));
        let rare = Objective::parse("p98.7@100").unwrap();
        assert_eq!(rare.metric.percentiles(), ["latency_p98_7"]);
        assert_eq!((throughput.score_gain(0.2), latency.score_gain(0.2)), (0.2, 0.25));
        let cost = Objective::parse(":wal_bytes / :throughput").unwrap();
        assert_eq!(cost.value(&figures), Some(0.5));
        assert!(Objective::parse(":wal_fpi + 1").is_ok() && Objective::parse("time_cpu").is_ok());
        for wrong in ["p99@", "p100@100", "speed", ":wal_byte", "wal-fpi", "time_lock"] {
            assert!(Objective::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn throughput_is_kept_beside_what_is_not_throughput() {
        let made = |value, throughput| Made {
            run: None,
            value,
            throughput,
            checkpoints: None,
            crashed: None,
            seconds: 1.0,
        };
        let told = |text: &str, made: &Made| Objective::parse(text).unwrap().outcome(made);
        let measured = |score, kept| Outcome::Measured { score, kept };
        let of_wal = made(Some(100.0), Some(1_000.0));
        let (less_wal, kept) = (-100.0_f64.ln(), Some(1_000.0_f64.ln()));
        assert_eq!(told("wal-bytes", &of_wal), measured(less_wal, kept));
        assert_eq!(told("wal-bytes", &made(Some(100.0), None)), measured(less_wal, None));
        let of_throughput = made(Some(1_000.0), Some(1_000.0));
        assert_eq!(told("throughput", &of_throughput), measured(1_000.0_f64.ln(), None));
        assert_eq!(told("wal-bytes", &made(None, Some(1_000.0))), Outcome::Crashed);
        let allowing = Objective::parse("wal-bytes").unwrap().allowing(0.15).unwrap();
        assert_eq!(allowing.allowed_loss, Some(0.15));
        let refused = Objective::parse("throughput").unwrap().allowing(0.1).unwrap_err();
        assert!(refused.to_string().contains("'throughput' keeps no throughput"), "{refused}");
    }
}

//! What is to become better, and what must not become worse by it.

use std::collections::BTreeMap;

use walwright_diagnose::compare::Better;
use walwright_search::Outcome;
use walwright_search::acquisition::normal_cdf;

use super::TuneError;
use crate::experiment::Metric;

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
/// Least deviation of a throughput that the constraint is judged with.
const LEAST_DEVIATION: f64 = 0.01;

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

    /// Whether more of it is better.
    pub fn is_more_better(&self) -> bool {
        self.metric.kind().better == Better::Higher
    }

    /// What a run's figures are to the search; `None` without a value. `baseline` is
    /// throughput and relative deviation of the baseline.
    pub fn outcome(
        &self,
        figures: &BTreeMap<String, f64>,
        baseline: Option<(f64, f64)>,
    ) -> Option<Outcome> {
        let score = self.score(self.value(figures)?);
        let throughput = figures.get("throughput").copied();
        let feasible = match (self.allowed_loss, throughput, baseline) {
            (Some(loss), Some(now), Some((then, deviation))) if now > 0.0 && then > 0.0 => {
                let slack = (now / then).ln() - (-loss).ln_1p();
                normal_cdf(slack / deviation.max(LEAST_DEVIATION))
            }
            _ => 1.0,
        };
        Some(Outcome::Measured { score, feasible })
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
    fn less_wal_at_the_price_of_throughput_is_not_feasible() {
        let objective = Objective::parse("wal-bytes").unwrap();
        let at = |throughput: f64, objective: &Objective| match objective
            .outcome(&figures(throughput, 100.0), Some((1_000.0, 0.01)))
            .unwrap()
        {
            Outcome::Measured { feasible, .. } => feasible,
            Outcome::Crashed => panic!("it ran"),
        };
        assert!(at(1_000.0, &objective) > 0.95 && at(900.0, &objective) < 0.01);
        assert!(at(900.0, &objective.allowing(0.15).unwrap()) > 0.95);
        let refused = Objective::parse("throughput").unwrap().allowing(0.1).unwrap_err();
        assert!(refused.to_string().contains("'throughput' keeps no throughput"), "{refused}");
    }
}

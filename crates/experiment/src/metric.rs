//! What is measured of a run: a figure, or a cost made of figures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use walwright_figures::compare::{
    Better, FigureKind, FigureUnit, figure_kinds, latency_percentile_kind,
};
use walwright_figures::experiment::MetricKind;
use walwright_workload::script::{
    ClientStart, Command, Definition, Program, Rng, ScriptError, ScriptSource, Value, closest,
};

/// The name of a metric that is an expression.
const COST: &str = "cost";
/// Figures per transaction may be called so in full: `wal_bytes_per_transaction`.
const PER_TRANSACTION: &str = "_per_transaction";

/// A metric that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MetricError {
    /// There is none of this name.
    #[error("there is no metric '{name}'{}; the metrics are {known}, and cost with an expression", near.as_ref().map_or(String::new(), |near| format!(" (did you mean {near}?)")))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The one that may be meant.
        near: Option<String>,
        /// Those there are.
        known: String,
    },
    /// A figure of which neither way is better.
    #[error("'{0}' cannot be a metric, since neither more nor less of it is better")]
    NoDirection(String),
    /// `cost` without an expression.
    #[error("the metric cost needs an expression: cost = \":wal_bytes + 1e6 * :latency_p99\"")]
    NoExpression,
    /// The expression is wrong.
    #[error("the cost expression: {0}")]
    Expression(#[from] ScriptError),
}

/// What is measured of a run.
#[derive(Debug, Clone)]
pub enum Metric {
    /// A figure of the record.
    Figure(FigureKind),
    /// An expression over figures; less is better.
    Cost(Cost),
}

/// A cost expression in pgbench's expression language. Every figure is a variable of
/// its key, in seconds and bytes.
#[derive(Debug, Clone)]
pub struct Cost {
    text: String,
    program: Arc<Program>,
}

/// The names of the figures that can be a metric.
pub fn metric_names() -> Vec<String> {
    let kinds = figure_kinds().into_iter();
    kinds.filter(|kind| kind.better.is_some()).map(|kind| kind.key).collect()
}

impl Metric {
    /// The metric called `name`; `expression` is that of `cost`.
    ///
    /// # Errors
    /// When there is none, or the expression is wrong.
    pub fn named(name: &str, expression: Option<&str>) -> Result<Metric, MetricError> {
        if name == COST {
            return Ok(Metric::Cost(Cost::new(expression.ok_or(MetricError::NoExpression)?)?));
        }
        let short = name.strip_suffix(PER_TRANSACTION).unwrap_or(name);
        let usual = figure_kinds().into_iter().find(|kind| kind.key == short);
        match usual.or_else(|| latency_percentile_kind(short)) {
            Some(kind) if kind.better.is_none() => Err(MetricError::NoDirection(kind.key)),
            Some(kind) => Ok(Metric::Figure(kind)),
            None => {
                let names = metric_names();
                // Most slips leave the beginning or the end right.
                let near = names
                    .iter()
                    .find(|known| known.ends_with(short) || short.ends_with(known.as_str()))
                    .or_else(|| names.iter().find(|known| known.starts_with(short)))
                    .map(String::as_str)
                    .or_else(|| closest(short, names.iter().map(String::as_str)));
                Err(MetricError::Unknown {
                    name: name.to_owned(),
                    near: near.map(str::to_owned),
                    known: names.join(", "),
                })
            }
        }
    }

    /// What it is, for judging and showing.
    pub fn kind(&self) -> MetricKind {
        match self {
            Metric::Figure(kind) => MetricKind {
                key: kind.key.clone(),
                // Beside other latencies a percentile is enough of a name; alone it is not.
                name: match kind.key.strip_prefix("latency_p") {
                    Some(_) => format!("{} latency", kind.name),
                    None => kind.name.clone(),
                },
                unit: kind.unit,
                better: kind.better.unwrap_or(Better::Higher),
                expression: None,
            },
            Metric::Cost(cost) => MetricKind {
                key: COST.to_owned(),
                name: COST.to_owned(),
                unit: FigureUnit::Count,
                better: Better::Lower,
                expression: Some(cost.text.clone()),
            },
        }
    }

    /// The keys of the latency percentiles it is made of, which need not be among the
    /// usual figures of a run.
    pub fn percentiles(&self) -> Vec<String> {
        match self {
            Metric::Figure(kind) => percentiles(&kind.key),
            Metric::Cost(cost) => percentiles(&cost.text),
        }
    }

    /// The keys of the figures it is made of.
    pub(super) fn figures(&self) -> Vec<String> {
        match self {
            Metric::Figure(kind) => vec![kind.key.clone()],
            Metric::Cost(cost) => {
                let named = |key: &String| {
                    let long = format!("{key}{PER_TRANSACTION}");
                    words(&cost.text).any(|word| word == key || word == long)
                };
                let usual = figure_kinds().into_iter().map(|kind| kind.key).filter(named);
                usual.chain(percentiles(&cost.text)).collect()
            }
        }
    }

    /// Its value for a run with these figures; `None` where a figure it needs is not
    /// known, or the expression has no finite value.
    pub fn value(&self, figures: &BTreeMap<String, f64>) -> Option<f64> {
        match self {
            Metric::Figure(kind) => figures.get(&kind.key).copied(),
            Metric::Cost(cost) => cost.value(figures),
        }
        .filter(|value| value.is_finite())
    }
}

impl Cost {
    fn new(text: &str) -> Result<Cost, MetricError> {
        let one_line = text.replace(['\n', '\r'], " ");
        // Defined as NULL, so that the name is known and an unknown figure makes the
        // cost unknown.
        let usual = figure_kinds().into_iter().map(|kind| kind.key);
        let keys: BTreeSet<String> = usual.chain(percentiles(text)).collect();
        let names = keys.into_iter().flat_map(|key| {
            let long = format!("{key}{PER_TRANSACTION}");
            [key, long]
        });
        let definitions: Vec<Definition> =
            names.map(|name| Definition { name, value: "null".to_owned() }).collect();
        let source = ScriptSource {
            name: COST.to_owned(),
            text: format!("\\set cost {one_line}\n"),
            weight: 1,
        };
        let program = Program::compile(&[source], &definitions)?;
        Ok(Cost { text: text.to_owned(), program: Arc::new(program) })
    }

    fn value(&self, figures: &BTreeMap<String, f64>) -> Option<f64> {
        let start = ClientStart { client_id: 0, scale: 1, random_seed: 0, default_seed: 0 };
        let mut variables = self.program.variables(&start);
        for (key, value) in figures {
            for name in [key.clone(), format!("{key}{PER_TRANSACTION}")] {
                if let Some(slot) = self.program.slot(&name) {
                    variables.set(slot, Value::Double(*value));
                }
            }
        }
        let Some(Command::Set { expr, .. }) = self.program.scripts.first()?.commands.first() else {
            return None;
        };
        match expr.eval(&variables, &mut Rng::from_seed(0)).ok()? {
            Value::Int(value) => Some(value as f64),
            Value::Double(value) => Some(value),
            _ => None,
        }
    }
}

/// The latency percentiles that a text names, each once.
fn percentiles(text: &str) -> Vec<String> {
    let keys = words(text).filter_map(|word| Some(latency_percentile_kind(word)?.key));
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> BTreeMap<String, f64> {
        [("throughput", 5_000.0), ("latency_p99", 4e-3), ("wal_bytes", 1_200.0)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    #[test]
    fn figures_are_metrics_by_their_keys() {
        let value = |name: &str| Metric::named(name, None).unwrap().value(&figures());
        assert_eq!(value("throughput"), Some(5_000.0));
        assert_eq!(value("wal_bytes_per_transaction"), Some(1_200.0));
        assert_eq!(value("latency_p50"), None);
        assert_eq!(Metric::named("latency_p99", None).unwrap().kind().better, Better::Lower);
        let error = Metric::named("p99", None).unwrap_err().to_string();
        assert!(error.contains("did you mean latency_p99?"), "{error}");
        let slip = Metric::named("troughput", None).unwrap_err().to_string();
        assert!(slip.contains("did you mean throughput?"), "{slip}");
        assert!(matches!(Metric::named("busy", None), Err(MetricError::NoDirection(_))));
        assert!(matches!(Metric::named("cost", None), Err(MetricError::NoExpression)));
    }

    #[test]
    fn any_latency_percentile_is_a_metric_and_a_part_of_a_cost() {
        let metric = Metric::named("latency_p98_7", None).unwrap();
        assert_eq!(metric.kind().name, "p98.7 latency");
        assert_eq!(metric.percentiles(), ["latency_p98_7"]);
        let text = ":latency_p90 + :latency_p99_95 / :latency_p90 + :latency_mean";
        let cost = Metric::named("cost", Some(text)).unwrap();
        assert_eq!(cost.percentiles(), ["latency_p90", "latency_p99_95"]);
        let known = [("latency_p90", 2.0), ("latency_p99_95", 6.0), ("latency_mean", 1.0)];
        let known = known.map(|(key, value)| (key.to_owned(), value)).into();
        assert_eq!(cost.value(&known), Some(6.0));
        assert!(Metric::named("latency_p100", None).is_err());
    }

    #[test]
    fn a_cost_is_computed_from_figures_and_unknown_where_one_is() {
        let cost = |text: &str| Metric::named("cost", Some(text)).unwrap().value(&figures());
        assert_eq!(cost(":wal_bytes_per_transaction + 1e6 * :latency_p99"), Some(5_200.0));
        assert_eq!(cost("greatest(:throughput, 10000) / 2"), Some(5_000.0));
        assert_eq!(cost(":wal_bytes + :latency_p50"), None);
        assert_eq!(cost(":wal_bytes / 0.0").filter(|v| v.is_finite()), None);
        let error = Metric::named("cost", Some(":wal_byte * 2")).unwrap_err().to_string();
        assert!(error.contains("wal_byte"), "{error}");
    }
}

//! The metrics as text, in the form that is asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel as _, EncodeLabelSet, LabelSetEncoder, NoLabelSet,
};
use prometheus_client::registry::Registry;
use walwright_http::Form;

use crate::gather::{Labelled, Samples};
use crate::metric::{ALL, LOAD, Metric, MetricKind, PREFIX};

/// What all metrics are at one moment, by name.
pub type Snapshot = BTreeMap<&'static str, Samples>;

/// Metrics that are there to be asked for, whoever puts them there.
#[derive(Clone, Default)]
pub struct Exposition(Arc<Mutex<Snapshot>>);

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposition")
    }
}

impl Exposition {
    /// Puts what the metrics are now in the place of what they were.
    pub fn put(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// The metrics as text.
    ///
    /// # Errors
    /// Never, as far as is known: text takes what is written to it.
    pub fn text(&self, form: Form) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self.clone()));
        form.encode(&registry)
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for metric in ALL.iter().chain(LOAD) {
            let Some(samples) = snapshot.get(metric.name) else { continue };
            if matches!(samples, Samples::Values(values) if values.is_empty()) {
                continue;
            }
            let kind = metric.metric_type();
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            match samples {
                Samples::Histogram(of) => {
                    family.encode_histogram::<NoLabelSet>(of.sum, of.count, &of.buckets, None)?;
                }
                Samples::Values(values) => {
                    for of in values {
                        let labels = Labels { metric, of };
                        let mut one = family.encode_family(&labels)?;
                        match metric.kind {
                            MetricKind::Counter => {
                                one.encode_counter::<NoLabelSet, f64, u64>(&of.value, None)?;
                            }
                            _ => one.encode_gauge(&of.value)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The labels of one sample with their values.
#[derive(Debug)]
struct Labels<'m> {
    metric: &'m Metric,
    of: &'m Labelled,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.metric.labels.iter().zip(&self.of.labels) {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Histogram;
    use crate::metric;

    fn exposition() -> Exposition {
        let exposition = Exposition::default();
        let value = |labels: &[&str], value: f64| Labelled {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
        };
        let mut flushes = Histogram::default();
        flushes.add(10, 0.02);
        exposition.put(Snapshot::from([
            (metric::UP.name, Samples::Values(vec![value(&[], 1.0)])),
            (metric::COMMITS.name, Samples::Values(vec![value(&[], 12.0)])),
            (
                metric::STATEMENT_CALLS.name,
                Samples::Values(vec![value(&["-7", "SELECT \"a\\b\""], 3.0)]),
            ),
            (metric::WAL_FLUSH_SECONDS.name, Samples::Histogram(flushes)),
            (metric::XID_AGE.name, Samples::Values(Vec::new())),
        ]));
        exposition
    }

    #[test]
    fn both_forms_hold_what_there_is() {
        let plain = exposition().text(Form::Prometheus).unwrap();
        for line in [
            "# TYPE walwright_commits_total counter",
            "walwright_commits_total 12.0",
            "walwright_up 1.0",
            r#"walwright_statement_calls_total{statement="-7",query="SELECT \"a\\b\""} 3.0"#,
            "walwright_wal_flush_seconds_count 10",
            r#"walwright_wal_flush_seconds_bucket{le="0.0032"} 10"#,
            r#"walwright_wal_flush_seconds_bucket{le="0.0016"} 0"#,
        ] {
            assert!(plain.lines().any(|have| have == line), "{line}\n{plain}");
        }
        // Unknown is not zero.
        assert!(!plain.contains("xid_age") && !plain.contains("# EOF"));
        let open = exposition().text(Form::OpenMetrics).unwrap();
        assert!(open.contains("# TYPE walwright_commits counter\n"), "{open}");
        assert!(open.ends_with("# EOF\n"));
    }
}

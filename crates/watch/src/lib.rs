//! A server watched for days.
//!
//! [`watch()`] samples a server with the probe's samplers, at a pace at which it costs next to
//! nothing, for as long as it is let. What is seen becomes figures of stretches of ten seconds
//! ([`Slot`]), which a [`Ring`] keeps, the coarser the older they are; metrics for Prometheus
//! ([`metric`], [`Exposition`]); and every few minutes a diagnosis, whose findings are
//! followed ([`Tracker`]): one that appears or is gone is an [`Event`], told to those who want to
//! know ([`AlertTo`]).

mod alert;
mod dashboard;
mod day;
mod event;
mod exposition;
mod findings;
mod gather;
mod history;
mod load;
pub mod metric;
mod ring;
mod rules;
mod slot;
mod watch;
mod webhook;
mod window;

pub use alert::AlertTo;
pub use dashboard::{dashboard, dashboard_queries};
pub use day::{Change, Day, FigureOfDay, FoundOfDay, Unit};
pub use event::{Event, EventKind, FindingOf};
pub use exposition::{Exposition, Snapshot};
pub use findings::{Seen, Tracker};
pub use gather::{Gatherer, Histogram, Labelled, OTHER, Samples, class_name, one_line};
pub use history::History;
pub use load::LoadMetrics;
pub use ring::{Entry, Keep, Ring, RingError, RingWriter};
pub use rules::{Rule, rules, rules_yaml};
pub use slot::{Slot, StatementCounts, TableCounts, Value};
pub use walwright_probe::Rates;
pub use watch::{Listener, Told, WatchError, WatchPlan, ring_directory, rings_of, watch};
pub use webhook::Webhook;
pub use window::{Facts, Window};

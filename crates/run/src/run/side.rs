//! A query repeated on a connection of its own beside the load, such as the round
//! trip of an empty query, which tells network and scheduling from commit.

use std::time::Instant;

use tokio::task::JoinHandle;
use walwright_record::{Timestamp, Window};
use walwright_server::Stop;
use walwright_workload::workload::SideMeasurement;

use super::context::Context;
use super::statements::Statements;
use super::target::Target;

/// A side measurement under way, if the workload has one.
pub(super) struct Side {
    name: String,
    over: Stop,
    task: Option<JoinHandle<Vec<(Timestamp, f64)>>>,
}

impl Side {
    /// Begins measuring.
    pub fn begin(context: &Context, target: &Target) -> Side {
        let over = Stop::new();
        let Some(measurement) = context.workload.side.clone() else {
            return Side { name: String::new(), over, task: None };
        };
        let name = measurement.name.clone();
        let statements = target.statements().called("walwright side");
        let until = over.clone();
        let task = tokio::spawn(async move {
            let mut seen = Vec::new();
            // A server that does not answer must not hold the end of the run up.
            tokio::select! {
                () = until.requested() => {}
                () = repeat(&statements, &measurement, &mut seen) => {}
            }
            seen
        });
        Side { name, over, task: Some(task) }
    }

    /// Ends measuring and keeps the median over the measured window in the record.
    pub async fn end(self, context: &Context, window: Option<Window>) {
        self.over.request();
        let Some(task) = self.task else { return };
        let seen = task.await.unwrap_or_default();
        let inside = |at: Timestamp| window.is_some_and(|window| window.contains(at));
        let seconds: Vec<f64> =
            seen.into_iter().filter(|(at, _)| inside(*at)).map(|(_, seconds)| seconds).collect();
        if let Some(median) = walwright_stats::median(&seconds) {
            let name = self.name;
            context.notes.recorder.write(move |writer| writer.side_measure(&name, median));
        }
    }
}

/// Measures until the connection is gone. The load notices a lost server; here there is
/// then only nothing more to measure.
async fn repeat(
    statements: &Statements,
    measurement: &SideMeasurement,
    seen: &mut Vec<(Timestamp, f64)>,
) {
    let client = match statements.connect().await {
        Ok(client) => client,
        Err(error) => {
            tracing::warn!(%error, "the side measurement could not connect");
            return;
        }
    };
    let mut ticks = tokio::time::interval(measurement.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (at, begun) = (Timestamp::now(), Instant::now());
        if client.simple_query(&measurement.sql).await.is_err() {
            return;
        }
        seen.push((at, begun.elapsed().as_secs_f64()));
    }
}

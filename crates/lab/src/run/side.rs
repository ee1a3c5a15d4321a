//! A query repeated on a connection of its own beside the load, such as the round
//! trip of an empty query, which tells network and scheduling from commit.

use std::time::Instant;

use tokio::task::JoinHandle;
use walwright_workload::workload::SideMeasurement;

use super::Context;
use super::target::Target;
use crate::Stop;

/// A side measurement under way, if the workload has one.
pub(super) struct Side {
    name: String,
    over: Stop,
    task: Option<JoinHandle<Vec<f64>>>,
}

impl Side {
    /// Begins measuring.
    pub fn begin(context: &Context, target: &Target) -> Side {
        let over = Stop::new();
        let Some(measurement) = context.workload.side.clone() else {
            return Side { name: String::new(), over, task: None };
        };
        let name = measurement.name.clone();
        let params = target.params.clone().with_application_name("walwright side");
        let until = over.clone();
        let task = tokio::spawn(async move {
            match walwright_server::connect(&params).await {
                Ok(client) => repeat(&client, &measurement, &until).await,
                Err(error) => {
                    tracing::warn!(%error, "the side measurement could not connect");
                    Vec::new()
                }
            }
        });
        Side { name, over, task: Some(task) }
    }

    /// Ends measuring and keeps the median in the record.
    pub async fn end(self, context: &Context) {
        self.over.request();
        let Some(task) = self.task else { return };
        let seconds = task.await.unwrap_or_default();
        if let Some(median) = walwright_stats::median(&seconds) {
            let name = self.name;
            context.recorder.write(move |writer| writer.side_measure(&name, median));
        }
    }
}

async fn repeat(
    client: &tokio_postgres::Client,
    measurement: &SideMeasurement,
    until: &Stop,
) -> Vec<f64> {
    let mut seconds = Vec::new();
    let mut ticks = tokio::time::interval(measurement.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = until.requested() => return seconds,
            _ = ticks.tick() => {}
        }
        let begun = Instant::now();
        if client.simple_query(&measurement.sql).await.is_err() {
            // The load notices a lost server; here there is only nothing more to measure.
            return seconds;
        }
        seconds.push(begun.elapsed().as_secs_f64());
    }
}

//! A change that a person asks about.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Window};
use walwright_stats::Estimate;

use super::error::{ELSEWHERE, of_change};
use super::{Calibration, Solution, Uncalibrated, around};
use crate::{Summary, WorkUnit};

/// What is changed of a run; the rest stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct WhatIf {
    /// Clients.
    pub clients: Option<u32>,
    /// Processors of the machine that server and load share.
    pub processors: Option<f64>,
    /// One WAL flush.
    #[serde(with = "crate::seconds::option")]
    pub flush_latency: Option<Duration>,
    /// Transactions a second that are begun whether or not others have ended.
    pub rate: Option<f64>,
    /// From the end of a client's transaction to the beginning of its next.
    #[serde(with = "crate::seconds::option")]
    pub think_time: Option<Duration>,
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    /// The record says too little.
    #[error(transparent)]
    Uncalibrated(#[from] Uncalibrated),
    /// Processors are asked about that cannot be seen.
    #[error("the server's processors cannot be seen from here, so their number changes nothing")]
    NoProcessors,
    /// A flush is asked about that no transaction waits for.
    #[error(
        "no transaction of this run waited for a WAL flush, so its latency changes nothing: was \
         synchronous_commit off, or did the load only read?"
    )]
    NoFlush,
}

/// What throughput and latency become.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// What was asked.
    pub what_if: WhatIf,
    /// What figures are per.
    pub unit: WorkUnit,
    /// Throughput that was measured, units a second.
    pub measured: f64,
    /// The run as the model has it.
    pub now: Solution,
    /// The run after the change.
    pub then: Solution,
    /// Units a second after the change.
    pub throughput: Estimate,
    /// Seconds of mean latency after the change.
    pub latency: Estimate,
    /// Whether the rate that is given cannot be reached.
    pub is_overloaded: bool,
    /// Reasons to trust it less, each a sentence.
    pub warnings: Vec<String>,
}

impl WhatIf {
    /// Predicts what becomes of a run.
    ///
    /// # Errors
    /// Where the record says too little, or nothing about what is changed.
    pub fn predict(
        self,
        record: &Record,
        window: Window,
        summary: &Summary,
    ) -> Result<Prediction, WhatIfError> {
        let calibration = Calibration::of(record, window, summary)?;
        let mut changed = calibration.clone();
        let network = &mut changed.network;
        if let Some(clients) = self.clients {
            network.clients = f64::from(clients);
        }
        if let Some(processors) = self.processors {
            if network.processing.processors.is_infinite() {
                return Err(WhatIfError::NoProcessors);
            }
            network.processing.processors = processors;
        }
        if let Some(flush) = self.flush_latency {
            if network.commits.waits <= 0.0 {
                return Err(WhatIfError::NoFlush);
            }
            network.commits.flush = flush.as_secs_f64();
            network.commits.delayed = 0.0;
        }
        if let Some(think) = self.think_time {
            network.think = think.as_secs_f64();
            changed.given = None;
        }
        if self.rate.is_some() {
            changed.given = self.rate;
        }
        let (now, then) = (calibration.solution(), changed.solution());
        let is_overloaded = changed.given.is_some_and(|rate| then.rate < 0.999 * rate);
        let estimate = |of: fn(&Solution) -> f64, measured: f64| {
            let ratio = of(&then) / of(&now);
            // Throughput may stand still while the latency does not: the load is far away.
            let farther = of_change(then.latency / now.latency)
                .max(of_change(then.rate / now.rate))
                - of_change(ratio);
            around(ratio, [ratio, ratio], ELSEWHERE + farther).map(|ratio| ratio * measured)
        };
        let mut throughput = estimate(|of| of.rate, calibration.rate);
        let latency = estimate(|of| of.latency, now.latency);
        if let Some(limit) = then.processors_limit
            && let Some(interval) = throughput.interval.as_mut()
        {
            interval.high = interval.high.min(limit.max(throughput.center));
        }
        if changed.given.is_some() && !is_overloaded {
            throughput.interval = None;
        }
        let mut warnings = Vec::new();
        if calibration.is_observed {
            warnings.push(
                "how the clients behave is not in the record: they are taken to be a closed loop \
                 of as many as the scatter of busy sessions tells"
                    .to_owned(),
            );
        }
        let held = record.target.as_ref().and_then(|target| target.processors);
        let all = record.host.as_ref().and_then(|host| host.processors).map(f64::from);
        if let Some((held, all)) = held.zip(all).filter(|(held, all)| held < all) {
            warnings.push(format!(
                "the server was held to {held} of {all} processors, which the model takes to be \
                 shared by server and load"
            ));
        }
        if let Some(time) = &summary.time
            && let Some(why) = &time.sampled_because
        {
            warnings.push(format!("the wait for processors is not known apart: {why}"));
        }
        Ok(Prediction {
            what_if: self,
            unit: calibration.unit,
            measured: calibration.rate,
            throughput,
            latency,
            now,
            then,
            is_overloaded,
            warnings,
        })
    }
}

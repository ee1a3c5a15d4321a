//! `walwright what-if`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use walwright_figures::queueing::{Prediction, WhatIf};
use walwright_figures::summary;
use walwright_store::Lab;

use crate::args::{RunName, WhatIfArgs};
use crate::commands::named;
use crate::output::Output;

/// Loads that are tried where nothing is asked: so many times the clients of the run.
const TIMES: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// Prints what changes would do to a run.
pub fn execute(lab: &Lab, args: &WhatIfArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let record = named::load(lab, &RunName { run: args.run.clone() })?;
    let Some(window) = record.window() else {
        bail!("run {} ended before anything was measured", record.header.id);
    };
    let summary = summary(&record);
    let mut asked = args.asked();
    if asked == [WhatIf::default()] {
        let clients = f64::from(summary.clients.unwrap_or(8).max(1));
        let mut tried: Vec<u32> = TIMES.map(|times| (clients * times).round() as u32).into();
        tried.retain(|clients| *clients > 0);
        tried.dedup();
        asked =
            tried.into_iter().map(|n| WhatIf { clients: Some(n), ..WhatIf::default() }).collect();
    }
    let predict = |what_if: WhatIf| what_if.predict(&record, window, &summary);
    let predictions: Vec<Prediction> = asked
        .into_iter()
        .map(predict)
        .collect::<Result<_, _>>()
        .with_context(|| format!("nothing can be predicted from run {}", record.header.id))?;
    let page = walwright_report::what_if(&record.header, &predictions);
    output.painted_result(&predictions, || page.terminal(&output.style()))?;
    Ok(ExitCode::SUCCESS)
}

impl WhatIfArgs {
    /// Every combination of what is asked.
    fn asked(&self) -> Vec<WhatIf> {
        let mut all = vec![WhatIf::default()];
        cross(&mut all, &self.clients, |of, clients: u32| of.clients = Some(clients));
        cross(&mut all, &self.processors, |of, n: u32| of.processors = Some(f64::from(n)));
        cross(&mut all, &self.flush_latency, |of, time: Duration| of.flush_latency = Some(time));
        cross(&mut all, &self.rate, |of, rate: f64| of.rate = Some(rate));
        cross(&mut all, &self.think, |of, time: Duration| of.think_time = Some(time));
        all
    }
}

fn cross<T: Copy>(all: &mut Vec<WhatIf>, values: &[T], set: impl Fn(&mut WhatIf, T)) {
    if values.is_empty() {
        return;
    }
    let each = |of: &WhatIf| -> Vec<WhatIf> {
        let mut copies = vec![*of; values.len()];
        copies.iter_mut().zip(values).for_each(|(copy, value)| set(copy, *value));
        copies
    };
    *all = all.iter().flat_map(each).collect();
}

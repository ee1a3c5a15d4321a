//! `walwright calibrate`: limits of the load driver on this machine.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use walwright_driver::{LoadPlan, Mode, Protocol};
use walwright_report::{List, format};
use walwright_run::measure_ceiling;
use walwright_store::{Lab, private};
use walwright_wire::{ConnectOptions, Host};
use walwright_workload::{Settings, Workload};

use crate::args::CalibrateArgs;
use crate::output::Output;

/// The ways a load can travel.
const WAYS: [(&str, Protocol, Mode); 4] = [
    ("simple", Protocol::Simple, Mode::Faithful),
    ("extended", Protocol::Extended, Mode::Faithful),
    ("prepared", Protocol::Prepared, Mode::Faithful),
    ("prepared, lean", Protocol::Prepared, Mode::Lean),
];

/// Measures the ceiling of each way and keeps it.
pub fn execute(lab: &Lab, args: &CalibrateArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let workload = Workload::find(&args.workload)?;
    let program = Arc::new(workload.plan(&Settings::of(&workload))?.program);
    private::create_dir_all(lab.directory())?;
    // Replaced by the calibration's own server; no other is asked.
    let nowhere = ConnectOptions::new(Host::Unix("/".into()), 0, "", "");
    let mut plan = LoadPlan::new(program, nowhere);
    plan.clients = workload.defaults.clients;
    let mut rows = Vec::new();
    for (name, protocol, mode) in WAYS {
        plan.protocol = protocol;
        plan.mode = mode;
        rows.push((name, measure_ceiling(lab.directory(), &plan)?));
    }
    let value: Vec<_> = rows
        .iter()
        .map(|(name, measured)| {
            json!({
                "way": name,
                "cpu_seconds_per_transaction": measured.map(|m| m.cpu_per_transaction.as_secs_f64()),
                "transactions_per_second_and_thread": measured.map(|m| m.per_thread),
            })
        })
        .collect();
    output.list(&value, || {
        let mut list = List::new(["way", "driver CPU a transaction", "ceiling of one thread"])
            .titled(format!("{} with {} clients", workload.name, plan.clients));
        for (name, measured) in &rows {
            let unknown = || "not measurable without a real server".to_owned();
            list.row([
                (*name).to_owned(),
                measured.map_or_else(unknown, |m| format::latency(m.cpu_per_transaction)),
                measured.map_or_else(unknown, |m| format::rate(m.per_thread)),
            ]);
        }
        Ok(list)
    })?;
    Ok(ExitCode::SUCCESS)
}

//! The figures of a load that was driven in stages, stage by stage.

use comfy_table::{CellAlignment, Table, presets};
use walwright_figures::StageSummary;
use walwright_record::LoadLevel;
use walwright_report::format;

/// A line for each stage.
pub fn table(stages: &[StageSummary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["stage", "load", "length", "throughput", "p50", "p99", "failed"]);
    for (place, stage) in stages.iter().enumerate() {
        let load = match stage.level {
            LoadLevel::Rate(rate) => format!("{} due", format::rate(rate)),
            LoadLevel::Clients(clients) => format::counted(clients.into(), "client"),
        };
        let percentiles = stage.latency.as_ref().map(|of| [of.p50, of.p99].map(format::latency));
        let [p50, p99] = percentiles.unwrap_or_default();
        table.add_row([
            (place + 1).to_string(),
            load,
            format::length(stage.length),
            format::rate(stage.throughput),
            p50,
            p99,
            format::count(stage.failed),
        ]);
    }
    for column in 2..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

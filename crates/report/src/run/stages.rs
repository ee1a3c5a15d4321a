//! A load that was driven in stages, stage by stage.

use walwright_figures::{StageSummary, Summary};
use walwright_record::LoadLevel;

use crate::document::{Block, Cell, Column, Reach, Section, Table};
use crate::format;

/// A row for each stage; `None` where there were none.
pub(super) fn stages(summary: &Summary) -> Option<Section> {
    let stages = &summary.load.as_ref().filter(|load| !load.stages.is_empty())?.stages;
    let columns = vec![
        Column::number("Stage"),
        Column::number("Load"),
        Column::number("Length"),
        Column::number("Throughput"),
        Column::number("p50"),
        Column::number("p99"),
        Column::number("Failed"),
    ];
    let row = |(place, stage): (usize, &StageSummary)| {
        let load = match stage.level {
            LoadLevel::Rate(rate) => format!("{} due", format::rate(rate)),
            LoadLevel::Clients(clients) => format::counted(clients.into(), "client"),
        };
        let percentiles = stage.latency.as_ref().map(|of| [of.p50, of.p99].map(format::latency));
        let [p50, p99] = percentiles.unwrap_or_default();
        vec![
            Cell::from((place + 1).to_string()),
            Cell::from(load),
            Cell::from(format::length(stage.length)),
            Cell::from(format::rate(stage.throughput)),
            Cell::from(p50),
            Cell::from(p99),
            Cell::from(format::count(stage.failed)),
        ]
    };
    let table = Table { rows: stages.iter().enumerate().map(row).collect(), columns };
    Some(Section::new("stages", "Stages", Reach::Everywhere, vec![Block::Table(table)]))
}

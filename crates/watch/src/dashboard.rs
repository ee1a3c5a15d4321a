//! A dashboard for Grafana, made of the metrics that there are.

use serde_json::{Value, json};

use crate::metric::{self, Metric};
use crate::rules::{
    GATEWAY_BARRIER, GATEWAY_CLIENTS, INGEST_ACKNOWLEDGEMENT, INGEST_FLUSH, INGEST_WAITING,
    mean_flush, p99,
};

/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;
/// Size of a panel.
const WIDTH: u32 = 8;
const HEIGHT: u32 = 8;

/// A panel: a title, the unit of its axis, and what it draws, each with its legend.
struct Panel {
    title: &'static str,
    unit: &'static str,
    kind: &'static str,
    series: Vec<(String, &'static str)>,
}

fn rate(metric: Metric) -> String {
    format!("rate({}{{instance=~\"$instance\"}}[$__rate_interval])", metric.exposed())
}

fn now(metric: Metric) -> String {
    format!("{}{{instance=~\"$instance\"}}", metric.exposed())
}

fn panels() -> Vec<Panel> {
    let lines = |title, unit, series| Panel { title, unit, kind: "timeseries", series };
    vec![
        Panel { title: "Up", unit: "none", kind: "stat", series: vec![(now(metric::UP), "up")] },
        Panel {
            title: "Findings",
            unit: "none",
            kind: "table",
            series: vec![(now(metric::FINDING), "{{id}} {{title}} {{subject}}")],
        },
        lines(
            "What findings cost, as a share of the latency",
            "percentunit",
            vec![(now(metric::FINDING_COST_RATIO), "{{id}} {{subject}}")],
        ),
        lines(
            "Transactions",
            "ops",
            vec![(rate(metric::COMMITS), "commits"), (rate(metric::ROLLBACKS), "rollbacks")],
        ),
        lines("WAL", "Bps", vec![(rate(metric::WAL_BYTES), "WAL")]),
        lines("WAL by statement", "Bps", vec![(rate(metric::STATEMENT_WAL_BYTES), "{{query}}")]),
        lines("Flushes", "ops", vec![(rate(metric::WAL_FLUSHES), "flushes")]),
        lines(
            "Time of a flush",
            "s",
            vec![
                (mean_flush(), "mean"),
                (p99(&metric::WAL_FLUSH_SECONDS.exposed()), "p99 of readings"),
            ],
        ),
        lines("Where sessions wait", "none", vec![(rate(metric::WAIT_SECONDS), "{{class}}")]),
        lines("Sessions", "none", vec![(now(metric::SESSIONS), "{{state}}")]),
        lines(
            "Locks",
            "s",
            vec![
                (now(metric::LOCK_WAIT_LONGEST_SECONDS), "longest wait"),
                (now(metric::OLDEST_TRANSACTION_SECONDS), "oldest transaction"),
            ],
        ),
        lines("Time by statement", "none", vec![(rate(metric::STATEMENT_SECONDS), "{{query}}")]),
        lines("Calls by statement", "ops", vec![(rate(metric::STATEMENT_CALLS), "{{query}}")]),
        lines(
            "Checkpoint pressure",
            "percentunit",
            vec![(now(metric::CHECKPOINT_PRESSURE_RATIO), "WAL since the last over max_wal_size")],
        ),
        lines("Checkpoints", "ops", vec![(rate(metric::CHECKPOINTS), "{{cause}}")]),
        lines(
            "Checkpoint writing and syncing",
            "s",
            vec![
                (rate(metric::CHECKPOINT_WRITE_SECONDS), "write, of a second"),
                (rate(metric::CHECKPOINT_SYNC_SECONDS), "sync, of a second"),
            ],
        ),
        lines("Vacuum debt", "none", vec![(now(metric::VACUUM_DEBT_RATIO), "{{table}}")]),
        lines(
            "Age of the oldest transaction id",
            "none",
            vec![
                (now(metric::XID_AGE), "transactions"),
                (now(metric::MULTIXACT_AGE), "multixacts"),
            ],
        ),
        lines("Replication lag", "s", vec![(now(metric::REPLICATION_LAG_SECONDS), "{{standby}}")]),
        lines(
            "WAL held back",
            "bytes",
            vec![
                (now(metric::SLOT_RETAINED_BYTES), "slot {{slot}}"),
                (now(metric::REPLICATION_LAG_BYTES), "standby {{standby}}"),
            ],
        ),
        lines(
            "What watching takes",
            "percentunit",
            vec![(rate(metric::WATCH_CPU_SECONDS), "of a processor, {{where}}")],
        ),
        lines("Gateway: barriers, p99", "s", vec![(p99(GATEWAY_BARRIER), "barrier")]),
        lines("Gateway: clients", "none", vec![(GATEWAY_CLIENTS.to_owned(), "{{state}}")]),
        lines(
            "Ingest: p99",
            "s",
            vec![(p99(INGEST_FLUSH), "a batch"), (p99(INGEST_ACKNOWLEDGEMENT), "a row")],
        ),
        lines("Ingest: rows that wait", "none", vec![(INGEST_WAITING.to_owned(), "rows")]),
    ]
}

/// What the panels ask, in PromQL.
pub fn dashboard_queries() -> Vec<String> {
    panels().into_iter().flat_map(|panel| panel.series).map(|(query, _)| query).collect()
}

/// The dashboard as Grafana imports it.
pub fn dashboard() -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panel = |(place, panel): (usize, Panel)| {
        let place = place as u32;
        let per_row = COLUMNS / WIDTH;
        let targets: Vec<Value> = panel
            .series
            .iter()
            .zip('A'..)
            .map(|((query, legend), letter)| {
                json!({
                    "refId": letter.to_string(),
                    "expr": query,
                    "legendFormat": legend,
                    "instant": panel.kind == "table",
                    "datasource": source,
                })
            })
            .collect();
        json!({
            "id": place + 1,
            "type": panel.kind,
            "title": panel.title,
            "datasource": source,
            "gridPos": {
                "x": place % per_row * WIDTH,
                "y": place / per_row * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            },
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "targets": targets,
        })
    };
    let panels: Vec<Value> = panels().into_iter().enumerate().map(panel).collect();
    json!({
        "uid": "walwright",
        "title": "walwright: a write-heavy PostgreSQL",
        "tags": ["postgresql", "walwright"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": { "from": "now-24h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus" },
            {
                "name": "instance",
                "type": "query",
                "datasource": source,
                "query": format!("label_values({}, instance)", metric::UP.exposed()),
                "includeAll": true,
                "multi": true,
            },
        ] },
        "panels": panels,
    })
}

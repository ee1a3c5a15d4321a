//! Records that a disk damaged, or someone made: they are refused in a sentence or shown,
//! and never bring the program down. What is changed are the rows of a whole record's file.

use std::path::Path;

use proptest::prelude::*;
use rusqlite::Connection;
use walwright_figures::compare::{RunGroup, compare};
use walwright_record::Record;
use walwright_report::terminal::Style;
use walwright_report::{RunReport, comparison, diagnosis};
use walwright_store::Store;

/// Where a lab keeps its records.
const FILE: &str = "walwright.db";
const STYLE: Style = Style { width: 100, colour: false, unicode: true };

fn stored(record: &Record, lab: &Path) {
    let store = Store::open(lab).unwrap();
    let mut writer = store.begin(&record.header).unwrap();
    writer.target(record.target.as_ref().unwrap()).unwrap();
    writer.settings(&record.settings).unwrap();
    writer.host(record.host.as_ref().unwrap()).unwrap();
    writer.workload(record.workload.as_ref().unwrap()).unwrap();
    writer.load(record.load.as_ref().unwrap()).unwrap();
    writer.instrument(record.instrument.as_ref().unwrap()).unwrap();
    writer.storage(record.storage.as_ref().unwrap()).unwrap();
    writer.cpu(record.cpu.as_ref().unwrap()).unwrap();
    for phase in &record.phases {
        writer.set_phase(phase.name, phase.start, phase.end.unwrap()).unwrap();
    }
    record.events.iter().for_each(|event| writer.event(event).unwrap());
    record.warnings.iter().for_each(|warning| writer.warning(warning).unwrap());
    record.samples.values().for_each(|samples| writer.samples(samples).unwrap());
    record.intervals.iter().for_each(|interval| writer.interval(interval).unwrap());
    writer.finish(record.header.state, record.header.ended.unwrap(), None).unwrap();
}

/// All that a person can look at.
fn looked_at(lab: &Path, id: &walwright_record::RunId) {
    let store = Store::open(lab).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 2, "the other run is listed whatever happened to this one");
    let _ = store.headlines();
    let Ok(record) = store.load(id) else { return };
    let report = RunReport::new(record.clone());
    let _ = report.document().html();
    let _ = report.document().markdown();
    let _ = report.document().summary(&STYLE, true);
    let _ = diagnosis(&report.diagnosis).terminal(&STYLE);
    let group = |name: &str| RunGroup { name: name.into(), runs: vec![record.clone()] };
    if let Ok(compared) = compare(vec![group("a"), group("b")]) {
        let page = comparison(&compared, true);
        let _ = (page.html(), page.markdown(), page.summary(&STYLE, true));
    }
}

/// Columns with JSON, and those with other values.
const JSON: [&str; 4] = ["fact", "warning", "sample", "interval"];
const OTHER: [(&str, &str); 12] = [
    ("run", "started_us"),
    ("run", "ended_us"),
    ("run", "state"),
    ("run", "label"),
    ("phase", "start_us"),
    ("phase", "end_us"),
    ("event", "at_us"),
    ("event", "text"),
    ("sample", "at_us"),
    ("interval", "start_us"),
    ("histogram", "start_us"),
    ("histogram", "statement"),
];

/// What stands in a figure's place.
fn figures() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "0",
        "-1",
        "1e308",
        "-1e308",
        "1e-308",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "9007199254740991",
        "1795218612000000",
        "null",
        "true",
        "\"\"",
        "[]",
        "{}",
    ])
    .prop_map(str::to_owned)
}

/// The text with another figure in place of the one that begins nearest behind `place`.
fn changed(text: &str, place: f64, figure: &str) -> String {
    let from = (text.len() as f64 * place) as usize;
    let is_figure = |at: &usize| {
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        text.as_bytes()[*at].is_ascii_digit()
            && before.is_some_and(|b| [b':', b'[', b','].contains(&b))
    };
    let Some(at) = (from..text.len()).chain(0..from).find(is_figure) else {
        return text.to_owned();
    };
    let length =
        text[at..].find(|c: char| !"0123456789.e+-".contains(c)).unwrap_or(text.len() - at);
    format!("{}{figure}{}", &text[..at], &text[at + length..])
}

#[derive(Debug, Clone)]
enum Damage {
    /// Other figures in the JSON of a row.
    Figures(usize, f64, Vec<(f64, String)>),
    /// Other bytes in it.
    Bytes(usize, f64, f64, Vec<u8>),
    /// Another value in a column, in one row or all.
    Column(usize, i64, bool),
    /// Text that is none.
    NoText(usize),
    /// Other bytes in a histogram.
    Histogram(f64, f64, Vec<u8>),
}

fn damages() -> impl Strategy<Value = Damage> {
    let unit = || 0.0..1.0_f64;
    let bytes = || prop::collection::vec(any::<u8>(), 0..5);
    let number = prop::sample::select(vec![
        0,
        1,
        -1,
        i64::MAX,
        i64::MIN,
        65_535,
        1_795_218_612_000_000,
        253_402_300_799_000_000,
    ]);
    prop_oneof![
        4 => (0..JSON.len(), unit(), prop::collection::vec((unit(), figures()), 1..4))
            .prop_map(|(table, row, to)| Damage::Figures(table, row, to)),
        1 => (0..JSON.len(), unit(), unit(), bytes())
            .prop_map(|(table, row, at, to)| Damage::Bytes(table, row, at, to)),
        2 => (0..OTHER.len(), number, any::<bool>())
            .prop_map(|(column, to, all)| Damage::Column(column, to, all)),
        1 => (0..OTHER.len()).prop_map(Damage::NoText),
        1 => (unit(), unit(), bytes()).prop_map(|(row, at, to)| Damage::Histogram(row, at, to)),
    ]
}

/// Changes a row of the run `id`. What SQLite itself refuses stays as it was.
fn damage(file: &Connection, id: &str, damage: &Damage) {
    let row_of = |table: &str, place: f64| -> Option<i64> {
        let count = format!("SELECT count(*) FROM {table} WHERE run_id = ?1");
        let count: i64 = file.query_row(&count, [id], |row| row.get(0)).unwrap();
        (count > 0).then_some((count as f64 * place) as i64)
    };
    // Tables without row numbers are written anew by their position.
    let edit = |table: &str, place: f64, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let Some(nth) = row_of(table, place) else { return };
        let key = match table {
            "fact" => "name",
            "warning" => "rowid",
            "sample" => "source || at_us",
            "histogram" => "start_us || '/' || script || '/' || statement",
            _ => "start_us",
        };
        let sql = format!(
            "SELECT CAST({key} AS TEXT), CAST(body AS BLOB) FROM {table} WHERE run_id = ?1 LIMIT 1 OFFSET ?2"
        );
        let (found, body): (String, Vec<u8>) =
            file.query_row(&sql, (id, nth), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let kept = if table == "histogram" { "?1" } else { "CAST(?1 AS TEXT)" };
        let sql = format!(
            "UPDATE {table} SET body = {kept} WHERE run_id = ?2 AND CAST({key} AS TEXT) = ?3"
        );
        let _ = file.execute(&sql, (change(body), id, found));
    };
    let spliced = |body: Vec<u8>, at: f64, to: &[u8]| {
        let mut body = body;
        let at = (body.len() as f64 * at) as usize;
        let end = (at + to.len()).min(body.len());
        body.splice(at..end, to.iter().copied());
        body
    };
    match damage {
        Damage::Figures(table, row, figures) => edit(JSON[*table], *row, &|body| {
            let text = String::from_utf8_lossy(&body).into_owned();
            let change = |text: String, (at, to): &(f64, String)| changed(&text, *at, to);
            figures.iter().fold(text, change).into_bytes()
        }),
        Damage::Bytes(table, row, at, to) => {
            edit(JSON[*table], *row, &|body| spliced(body, *at, to))
        }
        Damage::Histogram(row, at, to) => edit("histogram", *row, &|body| spliced(body, *at, to)),
        Damage::Column(column, to, all) => {
            let (table, column) = OTHER[*column];
            let run = if table == "run" { "id" } else { "run_id" };
            let one = if *all {
                String::new()
            } else {
                format!("AND {column} = (SELECT max({column}) FROM {table})")
            };
            let _ = file.execute(
                &format!("UPDATE OR IGNORE {table} SET {column} = ?1 WHERE {run} = ?2 {one}"),
                (to, id),
            );
        }
        Damage::NoText(column) => {
            let (table, column) = OTHER[*column];
            let run = if table == "run" { "id" } else { "run_id" };
            let _ = file.execute(
                &format!("UPDATE OR IGNORE {table} SET {column} = CAST(x'ff22fe' AS TEXT) WHERE {run} = ?1"),
                [id],
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn a_damaged_record_is_shown_or_refused(damages in prop::collection::vec(damages(), 1..4)) {
        let record = crate::synthetic::record_of(30);
        let lab = tempfile::tempdir().unwrap();
        stored(&record, lab.path());
        let mut other = Record::new(record.header.clone());
        other.header.id.0.push('x');
        Store::open(lab.path()).unwrap().begin(&other.header).unwrap();
        {
            let file = Connection::open(lab.path().join(FILE)).unwrap();
            damages.iter().for_each(|of| damage(&file, &record.header.id.0, of));
        }
        looked_at(lab.path(), &record.header.id);
    }
}

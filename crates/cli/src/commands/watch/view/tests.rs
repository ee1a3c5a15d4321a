use ratatui::backend::TestBackend;
use ratatui::prelude::Terminal;
use walwright_diagnose::Kind;
use walwright_record::Window;
use walwright_watch::{
    Event, EventKind, Keep, RingWriter, Seen, Slot, StatementCounts, TableCounts, Value,
};

use super::*;

/// A moment so long after the beginning of 2026.
fn second(seconds: f64) -> Timestamp {
    Timestamp(1_767_225_600_000_000 + (seconds * 1e6) as i64)
}

/// The stretch of ten seconds of a number, of a server with more to do in each.
fn slot(number: u32) -> Slot {
    let start = 10.0 * f64::from(number);
    let mut slot = Slot::new(second(start), second(start + 10.0));
    let rate = 100.0 + f64::from(number);
    slot.add("commits", Value::counted(10.0 * rate, 10.0));
    slot.add("wal_bytes", Value::counted(10_000.0 * rate, 10.0));
    slot.add("wal_flushes", Value::counted(5.0 * rate, 10.0));
    slot.add("wal_flush_seconds", Value { sum: 0.6, max: 0.002, count: 500.0 });
    for (class, sessions) in [("flush", 3.0), ("cpu", 1.5), ("lock", 0.5), ("io", 0.0)] {
        slot.add(&format!("wait_seconds|{class}"), Value::counted(10.0 * sessions, 10.0));
    }
    slot.add("sessions|active", Value::read(8.0));
    slot.add("sessions|idle", Value::read(4.0));
    slot.add("oldest_transaction_seconds", Value::read(42.0));
    if number % 6 == 5 {
        for (id, text, calls, seconds, wal_bytes) in [
            (1, "insert into events\n values ($1)", 6_000.0, 12.0, 6e6),
            (2, "select \u{1b}[2J balance from accounts", 60_000.0, 3.0, 0.0),
            (3, "update accounts set balance = $1", 600.0, 30.0, 2e6),
        ] {
            let counts = StatementCounts { calls, seconds, wal_bytes, rows: calls };
            slot.statements.insert(id, counts);
            slot.texts.insert(id, text.to_owned());
        }
        let counts = TableCounts { inserted: 6_000.0, dead: 10.0, ..Default::default() };
        slot.tables.insert(7, counts);
        slot.table_names.insert(7, "public.events".to_owned());
    }
    slot
}

fn seen(from: u32, to: u32) -> Seen {
    let finding = FindingOf {
        id: "D9".to_owned(),
        subject: None,
        kind: Kind::Problem,
        title: "Commits wait for the flush".to_owned(),
        cause: "Each commit flushes by itself.".to_owned(),
        cost: Some(0.61),
        action: Some("set commit_delay".to_owned()),
    };
    let window =
        Window { start: second(10.0 * f64::from(from)), end: second(10.0 * f64::from(to)) };
    Seen { window, verdict: "v".to_owned(), findings: vec![finding] }
}

/// A view of a server that was watched before, from 0 to 100 s, and is since 7200 s.
fn monitor(directory: &std::path::Path) -> Monitor {
    let mut writer = RingWriter::open(directory, Keep::default(), second(0.0)).unwrap();
    let mut monitor = Monitor::new(Ring::at(directory.to_owned()));
    let metrics = Some(([127, 0, 0, 1], 9187).into());
    monitor.take(Told::Begun { server: "db:5432/app".to_owned(), metrics });
    for number in (0..10).chain(720..738) {
        writer.append(Entry::Slot(slot(number))).unwrap();
        if number >= 720 {
            monitor.take(Told::Slot(slot(number)));
        }
    }
    monitor.take(Told::Findings(seen(720, 730)));
    let event = Event::new(second(7250.0), EventKind::Server, "checkpoint began");
    monitor.take(Told::Event(event));
    monitor
}

fn drawn(monitor: &Monitor, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| monitor.draw(frame, false, Paint { colour: false })).unwrap();
    terminal.backend().to_string()
}

fn press(monitor: &mut Monitor, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        assert!(monitor.key(key), "{key:?}");
    }
}

fn start(monitor: &Monitor) -> f64 {
    let (history, place) = monitor.shown().unwrap();
    (history.slots[place].start.0 - second(0.0).0) as f64 / 1e6
}

/// The first words of the rows of the table.
fn rows(monitor: &Monitor) -> Vec<String> {
    let rows = monitor.table().unwrap().rows;
    let word = |row: &Vec<table::Cell>| row.last()?.text().split(' ').next().map(str::to_owned);
    rows.iter().filter_map(word).collect()
}

#[test]
fn a_small_terminal_holds_it_all() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(drawn(&monitor(dir.path()), 80, 24));
}

#[test]
fn a_large_terminal_shows_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = monitor(dir.path());
    press(&mut monitor, "\t\t");
    insta::assert_snapshot!(drawn(&monitor, 140, 40));
}

#[test]
fn help_fits_a_small_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = monitor(dir.path());
    press(&mut monitor, "?");
    let shown = drawn(&monitor, 80, 24);
    assert!(shown.contains("Any key leaves this help."), "{shown}");
    assert!(shown.lines().all(|line| !line.ends_with("…\"")), "{shown}");
    press(&mut monitor, "q");
    assert!(!monitor.shows_help && !monitor.key(KeyCode::Char('q')));
}

#[test]
fn statements_are_ordered_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = monitor(dir.path());
    assert_eq!(rows(&monitor), ["insert", "update", "select"]);
    press(&mut monitor, ">>");
    assert_eq!(rows(&monitor), ["select", "insert", "update"]);
    press(&mut monitor, "r");
    assert_eq!(rows(&monitor), ["update", "insert", "select"]);
    press(&mut monitor, ">");
    assert_eq!(rows(&monitor), ["update", "insert", "select"]);
    press(&mut monitor, "<<<<");
    assert_eq!(rows(&monitor), ["insert", "select", "update"]);
    // A key that ends the view, or orders, is a letter of the filter.
    press(&mut monitor, "/q<");
    assert_eq!(rows(&monitor), [""; 0]);
    press(&mut monitor, "\u{1b}/ACCOUNTS\n");
    assert_eq!(rows(&monitor), ["select", "update"]);
    press(&mut monitor, "\u{1b}");
    assert_eq!(rows(&monitor).len(), 3);
    assert!(!monitor.key(KeyCode::Esc));
}

#[test]
fn time_is_travelled_over_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = monitor(dir.path());
    assert_eq!(start(&monitor), 7370.0);
    press(&mut monitor, " ");
    monitor.take(Told::Slot(slot(738)));
    assert_eq!(start(&monitor), 7370.0);
    press(&mut monitor, "[");
    assert_eq!(start(&monitor), 7360.0);
    let shown = drawn(&monitor, 80, 24);
    assert!(shown.contains("UTC,") && shown.contains("Space or End: now"), "{shown}");
    // What was not found yet then is not shown.
    press(&mut monitor, "[[[[[[[");
    assert!(drawn(&monitor, 80, 24).contains("no diagnosis yet"));
    press(&mut monitor, "{");
    assert_eq!(start(&monitor), 90.0);
    assert_eq!(rows(&monitor).len(), 3);
    press(&mut monitor, "]");
    assert_eq!(start(&monitor), 7200.0);
    press(&mut monitor, "{{");
    assert_eq!((start(&monitor), monitor.trouble.as_deref()), (0.0, None));
    press(&mut monitor, "{");
    assert_eq!(start(&monitor), 0.0);
    assert_eq!(monitor.trouble.as_deref(), Some("nothing earlier is kept"));
    press(&mut monitor, " ");
    assert_eq!((start(&monitor), monitor.past.is_none()), (7380.0, true));
}

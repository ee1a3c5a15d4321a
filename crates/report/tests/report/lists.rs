//! Lists on a terminal.

use walwright_report::terminal::Style;
use walwright_report::{Document, List};

const WIDE: Style = Style { width: 200, colour: false, unicode: true };

pub fn runs() -> Document {
    let mut list = List::new(["run", "state", "per second", "label"]).numbers(2..3);
    list.row(["sweep-1", "2 runs"]);
    list.row(["  20261120-a", "complete", "9.5", ""]);
    list.row(["  20261120-b", "complete", "1,204", "after the vacuum of all tables"]);
    list.note("20261120-c: its page cannot be read; `walwright runs delete` removes it");
    list.document()
}

/// What was watched of a server, each list with a row.
pub fn watched() -> Document {
    let mut normal = List::new(["Figure", "A tenth below", "Middle", "A tenth above", "Largest"])
        .titled("What was normal")
        .numbers(1..5);
    normal.row(["commits", "812/s", "1,204/s", "1,530/s", "2,011/s"]);
    let mut changed = List::new(["From", "To", "Figure", "Was", "Mostly"])
        .titled("What changed, when")
        .numbers(3..5);
    changed.row(["2026-11-20 23:50", "2026-11-21 00:10", "WAL", "9.1 MB/s", "2.0 MB/s"]);
    let heads = ["Finding", "About", "Diagnoses", "Most of the latency", "From", "To"];
    let mut found = List::new(heads).titled("What was found").numbers(2..4);
    found.row(["D9 waiting for locks", "rows", "3 of 24", "31 %", "23:50:12", "23:53:12"]);
    let mut happened = List::new(["When", "What", "In words"]).titled("What happened");
    happened.row(["23:50:12", "log", "checkpoint starting: time"]);
    let mut wrote = List::new(["Statement", "WAL", "Share", "Calls", "Time"])
        .titled("Who wrote the WAL")
        .numbers(1..5);
    wrote.row(["UPDATE account SET balance = balance + $1", "1.2 GB", "84 %", "1,204", "3 s"]);
    wrote.note("12 earlier ones are left out.");
    let deck = vec!["23:00 to 00:00".to_owned(), "watched for 1 hour; 24 diagnoses".to_owned()];
    let lists = [normal, changed, found, happened, wrote];
    List::together("Watched: db-1", deck, "1 change unlike what is normal, 1 finding.", lists)
}

#[test]
fn a_list_is_its_rows_under_their_heads() {
    insta::assert_snapshot!("list", runs().terminal(&WIDE));
    let narrow = Style { width: 60, ..WIDE };
    insta::assert_snapshot!("list_narrow", runs().terminal(&narrow));
}

#[test]
fn a_title_stands_above() {
    let mut list = List::new(["way", "ceiling"]).titled("tpcb with 8 clients");
    list.row(["simple", "9,000/s"]);
    insta::assert_snapshot!("list_titled", list.document().terminal(&WIDE));
}

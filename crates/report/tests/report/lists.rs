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

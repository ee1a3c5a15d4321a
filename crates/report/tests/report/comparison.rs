//! What the page of a comparison shows.

use walwright_figures::compare::{Comparison, RunGroup, compare};
use walwright_record::{Record, RunId};
use walwright_report::comparison;
use walwright_report::terminal::Style;

use crate::renderings::{markup, text_of};
use crate::synthetic::record_of;

fn run(id: &str, begun: i64) -> Record {
    let mut record = record_of(20);
    record.header.id = RunId(id.to_owned());
    record.header.started.0 += begun;
    record
}

pub fn compared() -> Comparison {
    let groups = vec![
        RunGroup { name: "before".to_owned(), runs: vec![run("20261120-000001-aaa", 0)] },
        RunGroup { name: "<script>".to_owned(), runs: vec![run("20261120-000002-bbb", 1)] },
    ];
    compare(groups).unwrap()
}

#[test]
fn runs_beside_each_other_in_every_rendering() {
    let compared = compared();
    let page = markup(&comparison(&compared, true));
    assert!(!page.contains("<script>") && !page.contains("NaN"));
    assert_eq!(page.matches("<svg").count(), 5);
    insta::assert_snapshot!("comparison_page", text_of(&page));
    let style = Style { width: 80, colour: false, unicode: true };
    insta::assert_snapshot!("comparison_terminal", comparison(&compared, false).terminal(&style));
    insta::assert_snapshot!("comparison_markdown", comparison(&compared, false).markdown());
}

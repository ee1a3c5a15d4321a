//! What the page of a comparison shows.

use walwright_figures::compare::{RunGroup, compare};
use walwright_record::{Record, RunId};
use walwright_report::html;

use crate::synthetic::record_of;

fn run(id: &str, begun: i64) -> Record {
    let mut record = record_of(20);
    record.header.id = RunId(id.to_owned());
    record.header.started.0 += begun;
    record
}

#[test]
fn the_page_lays_runs_beside_each_other_and_escapes_names() {
    let groups = vec![
        RunGroup { name: "before".to_owned(), runs: vec![run("20261120-000001-aaa", 0)] },
        RunGroup { name: "<script>".to_owned(), runs: vec![run("20261120-000002-bbb", 1)] },
    ];
    let page = html::comparison(&compare(groups).unwrap()).unwrap();
    for part in ["before", "&lt;script&gt;", "20261120-000002-bbb", "Throughput"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script>") && !page.contains("{{") && !page.contains("NaN"));
    assert!(page.starts_with("<!doctype html>\n") && page.ends_with("</html>"));
}

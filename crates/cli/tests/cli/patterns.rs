//! The patterns in which the workload `events` sends its rows.

use crate::common::Place;

/// The load of the latest run.
fn latest(place: &Place) -> (serde_json::Value, serde_json::Value) {
    let shown = place.run(&["show", "latest", "--json"]).code(0).json();
    let record = place.run(&["export", "latest"]).code(0).json();
    (shown["summary"]["load"].clone(), record)
}

#[test]
fn every_pattern_writes_exactly_the_rows_that_are_counted() {
    let place = Place::new();
    for pattern in ["single", "gateway", "transaction", "values", "unnest", "copy", "coalesce"] {
        let option = format!("pattern={pattern}");
        place.measure(&["-w", "events", "-o", &option, "-o", "rows=20", "-c", "3"]).code(0);
        let (load, record) = latest(&place);
        let each = if ["single", "gateway", "coalesce"].contains(&pattern) { 1 } else { 20 };
        assert_eq!(load["rows"]["each"], each, "{pattern}");
        let rate = |of: &serde_json::Value| of["throughput"]["center"].as_f64().unwrap();
        assert_eq!(rate(&load["rows"]), rate(&load) * f64::from(each), "{pattern}");
        assert_eq!(record["workload"]["scripts"][0]["batch"]["form"], pattern);
        // The workload counts its table before and after the load.
        let checked = "holds: every row that was acknowledged is there, and no other";
        let mut events = record["events"].as_array().unwrap().iter();
        assert!(events.any(|event| event["text"] == checked), "{pattern}: {record:#}");
        let between = if pattern == "gateway" { "gateway".into() } else { serde_json::Value::Null };
        assert_eq!(record["load"]["pooler"]["kind"], between, "{pattern}");
    }
    let simple = ["-w", "events", "-o", "pattern=unnest", "--protocol=simple"];
    place.measure(&simple).refuses(&["prepared or the extended protocol"]);
    let before = ["run", "-w", "events", "-o", "pattern=gateway", "--dsn", "host=/tmp"];
    place.run(&before).misused(&["name that with --dsn"]);
    place.assert_clean();
}

#[test]
fn rows_are_offered_at_a_rate() {
    let place = Place::new();
    let load = ["-w", "events", "-o", "pattern=copy", "-o", "rows=10", "--rate=20"];
    place.measure(&load).code(0);
    let (load, _) = latest(&place);
    assert_eq!(load["open_loop"]["offered"], 20.0);
    assert_eq!(load["rows"]["each"], 10);
}

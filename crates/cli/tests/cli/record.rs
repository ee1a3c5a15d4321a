//! What a record gives back: lists, summaries, reports, exports, and its deletion.

use crate::common::{Host, Place};

#[test]
fn a_record_is_listed_shown_reported_exported_and_deleted() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let args = ["--dsn", &dsn, "--init", "--scale=1", "-c", "2", "--label=one, \"two\"", "--json"];
    let first = place.measure(&args).code(0).json();
    let name = first["run"]["id"].as_str().unwrap();
    let second = place.measure(&["--dsn", &dsn, "--scale=1", "-c", "2", "--json"]).code(0).json();
    let latest = second["run"]["id"].as_str().unwrap();

    // Listed, oldest first.
    let listed: Vec<_> =
        place.runs().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, [name, latest]);
    assert!(place.run(&["runs", "list"]).code(0).out().contains("one, \"two\""));

    // Shown: the latest, by its whole name, by its end.
    assert_eq!(place.run(&["runs", "show", "--json"]).code(0).json()["run"]["id"], latest);
    assert_eq!(place.run(&["runs", "show", name, "--json"]).code(0).json(), first);
    let end = &name[name.len() - 3..];
    assert!(place.run(&["runs", "show", end]).code(0).out().contains(name));
    place.run(&["runs", "show", "2"]).refuses(&["fits several runs"]);
    place.run(&["runs", "show", "nosuch"]).refuses(&["there is no run 'nosuch'"]);
    // By its label.
    for label in ["one, \"two\"", "label:one, \"two\""] {
        let shown = place.run(&["runs", "show", label, "--json"]).code(0).json();
        assert_eq!(shown["run"]["id"], name);
    }
    let both = place.run(&["compare", "one, \"two\"", "latest", "--json"]).code(0).json();
    assert_eq!(both["groups"][0]["name"], "one, \"two\"");

    // Listed by what they are.
    let ids = |args: &[&str]| -> Vec<String> {
        let runs = place.run(&[&["runs", "list", "--json"], args].concat()).code(0).json();
        runs.as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--label=one, \"two\""]), [name]);
    assert_eq!(ids(&["--workload=tpcb", "--state=complete", "--since=1h"]), [name, latest]);
    assert!(ids(&["--state=failed"]).is_empty() && ids(&["--workload=tpc"]).is_empty());
    assert!(ids(&["--since=2999-01-01"]).is_empty());
    place.run(&["runs", "list", "--since=yesterday"]).code(2).says(&["2h or 3d"]);

    // Reported.
    let file = place.run(&["report", name, "--json"]).code(0).json()["file"].clone();
    assert!(std::fs::metadata(file.as_str().unwrap()).unwrap().len() > 10_000);
    place.run(&["report", name, "-o", "there/page.html"]).code(0);
    let page = std::fs::read_to_string(place.path("there/page.html")).unwrap();
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let markdown = place.run(&["report", name, "--markdown"]).code(0).out();
    assert!(markdown.contains("| "), "{markdown}");
    assert_eq!(place.run(&["report", name, "--markdown", "--json"]).json()["markdown"], markdown);

    // Exported.
    let whole = place.run(&["runs", "export", name]).code(0).json();
    assert_eq!(whole["format"], "walwright-run-2");
    assert_eq!(whole["run"]["label"], "one, \"two\"");
    let series = place.run(&["runs", "export", name, "--list", "--json"]).code(0).json();
    let series: Vec<_> = series.as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    for source in ["load", "database", "wal", "waits", "tables"] {
        assert!(series.contains(&source), "{source} is not in {series:?}");
    }
    for source in &series {
        let csv = place.run(&["runs", "export", name, "--series", source]).code(0).out();
        let columns = fields(csv.lines().next().unwrap());
        // A source may have been looked at and have had nothing to show.
        assert_eq!(csv.lines().count() > 1, columns > 1, "{source}:\n{csv}");
        if !csv.contains('"') {
            assert!(csv.lines().all(|line| fields(line) == columns), "{source}:\n{csv}");
        }
        let json =
            place.run(&["runs", "export", name, "--series", source, "--json"]).code(0).json();
        assert!(!json.as_array().unwrap().is_empty(), "{source}");
    }
    place.run(&["runs", "export", name, "--series=load", "-o", "load.csv"]).code(0);
    let written = std::fs::read_to_string(place.path("load.csv")).unwrap();
    assert_eq!(written, place.run(&["runs", "export", name, "--series=load"]).out());
    place
        .run(&["runs", "export", name, "--series=nosuch"])
        .refuses(&["has no series 'nosuch'; it has load"]);
    place.run(&["runs", "export", name, "-o", "/dev/null"]).code(0);
    place.run(&["runs", "export", name, "-o", "load.csv/below"]).refuses(&["cannot write"]);

    // Deleted: all that were named, or none.
    place.run(&["runs", "delete", name, "nosuch"]).refuses(&["there is no run 'nosuch'"]);
    assert_eq!(place.runs().len(), 2);
    let page = place.path("lab/reports").join(format!("{name}.html"));
    assert!(page.exists());
    let gone = place.run(&["runs", "delete", name, "--json"]).code(0).json();
    assert_eq!(gone["deleted"], serde_json::json!([name]));
    assert!(!page.exists());
    assert_eq!(place.runs().len(), 1);
    // What a filter finds is named first, and so are several.
    let done = place.run(&["runs", "delete", "--workload=tpcb"]).code(2).says(&["--yes"]);
    assert!(done.out().contains(latest), "{}", done.out());
    assert_eq!(place.runs().len(), 1);
    place.run(&["runs", "delete", "--state=failed", "--yes"]).code(0);
    assert_eq!(place.runs().len(), 1);
    let third = place.measure(&["--dsn", &dsn, "--scale=1", "-c", "2", "--json"]).code(0).json();
    let third = third["run"]["id"].as_str().unwrap();
    place.run(&["runs", "delete", latest, third]).code(2).says(&["nothing was deleted", "2 runs"]);
    assert_eq!(place.runs().len(), 2);
    let gone = place.run(&["runs", "delete", "--since=1h", "--yes", "--json"]).code(0).json();
    assert_eq!(gone["deleted"], serde_json::json!([latest, third]));
    place.run(&["rm", "latest"]).refuses(&["there are no runs"]);
}

fn fields(line: &str) -> usize {
    line.split(',').count()
}

//! No rule and no panel names a metric that does not exist.

use std::collections::BTreeSet;
use std::process::Command;

use prometheus_client::registry::Registry;
use walwright_coalesce::describe_metrics;
use walwright_watch::metric::{self, MetricKind};
use walwright_watch::{dashboard, dashboard_queries, rules, rules_yaml};

/// The names of series by the lines that tell the types of metrics.
fn series(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

fn all() -> BTreeSet<String> {
    let mut names = series(&walwright_gateway::describe_metrics());
    let mut registry = Registry::with_prefix("walwright_ingest");
    describe_metrics(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
    names.extend(series(&text));
    for metric in metric::ALL {
        let name = metric.exposed();
        match metric.kind {
            MetricKind::Histogram => {
                names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
            }
            _ => {
                names.insert(name);
            }
        }
    }
    names
}

/// The words of a query that can only be metrics.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    query.split(move |c| !is_word(c)).filter(|word| word.starts_with("walwright_"))
}

#[test]
fn rules_and_panels_name_what_there_is() {
    let names = all();
    let rules = rules();
    let queries: Vec<String> =
        rules.iter().map(|rule| rule.expression.clone()).chain(dashboard_queries()).collect();
    for query in &queries {
        let words: Vec<&str> = named(query).collect();
        assert!(!words.is_empty(), "{query}");
        for word in words {
            assert!(names.contains(word), "{word} is no metric, in {query}");
        }
    }
    let mut alerts = BTreeSet::new();
    for rule in &rules {
        assert!(alerts.insert(rule.name), "{} twice", rule.name);
        assert!(rules_yaml().contains(&format!("- alert: {}\n", rule.name)));
    }
    // Panels have places of their own.
    let page = dashboard();
    let places: BTreeSet<String> = page["panels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|panel| panel["gridPos"].to_string())
        .collect();
    assert_eq!(places.len(), page["panels"].as_array().unwrap().len());
}

#[test]
fn promtool_takes_the_rules() {
    let file = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(file.path(), rules_yaml()).unwrap();
    let checked = match Command::new("promtool").args(["check", "rules"]).arg(file.path()).output()
    {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("skipped: promtool cannot be run: {error}; the package prometheus has it");
            return;
        }
    };
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}

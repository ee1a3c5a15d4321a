//! From a run to what holds it back: findings, their explanations, where commit time goes.

use serde_json::Value;

use crate::common::{LONGER, Place, SHORT};

/// The ids of the findings of kind problem, in their order.
fn problems(diagnosis: &Value) -> Vec<&str> {
    let findings = diagnosis["findings"].as_array().unwrap();
    let of_kind = findings.iter().filter(|f| f["kind"] == "problem");
    of_kind.map(|f| f["id"].as_str().unwrap()).collect()
}

fn finding<'d>(diagnosis: &'d Value, id: &str) -> &'d Value {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings.iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no {id} in {diagnosis:#}"))
}

#[test]
fn a_reset_at_each_checkout_is_found_with_its_cost_and_its_cure() {
    let place = Place::new();
    let script = place.file("pooled.sql", "SELECT 1;\nDISCARD ALL;\nDISCARD ALL;\n");
    let mut args = vec!["run", "--file", &script, "-c", "2", "--protocol=simple"];
    args.extend(LONGER);
    let summary = place.run(&args).code(0).out();
    assert!(summary.contains("D10"), "{summary}");
    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    let found = finding(&diagnosis, "D10");
    assert_eq!(found["kind"], "problem");
    let share = &found["impact"]["share"];
    assert!(share["center"].as_f64().unwrap() > 0.2, "{found:#}");
    assert!(share["interval"]["low"].as_f64().unwrap() > 0.0, "{found:#}");
    let throughput = &found["gain"]["throughput"];
    let high = throughput["interval"]["high"].as_f64();
    assert!(high > throughput["center"].as_f64(), "{found:#}");
    assert!(found["evidence"].as_array().unwrap().iter().all(|e| e["source"].is_string()));
    assert_eq!(found["actions"][0]["change"]["how"], "client_option");
    assert_eq!(found["actions"][0]["class"], "E");
    // The latency breakdown closes: the lines and the residual make up the latency, which is
    // told in whole nanoseconds.
    let latency_breakdown = &diagnosis["latency_breakdown"];
    let lines = latency_breakdown["lines"].as_array().unwrap();
    let sum: f64 = lines.iter().map(|l| l["per_transaction"]["center"].as_f64().unwrap()).sum();
    let latency = latency_breakdown["latency"].as_f64().unwrap();
    assert!((sum - latency).abs() <= 1e-9, "{sum} of {latency}");
    // The same in words, and in the report.
    let text = place.run(&["diagnose"]).code(0).out();
    for words in ["Sessions are reset", "[D10]", "gain", "Latency breakdown", "No Reset On Close"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    place.run(&["report", "-o", "page.html"]).code(0);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("<section id=\"findings\">") && page.contains("<small>D10</small>"));
}

#[test]
fn settings_that_can_lose_data_are_said_in_words() {
    let place = Place::new();
    let mut args = vec!["run", "--workload=autocommit", "-c", "2", "--set=fsync=off"];
    args.extend(SHORT);
    place.run(&args).code(0);
    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    assert!(problems(&diagnosis).contains(&"D37"), "{diagnosis:#}");
    let lowered = finding(&diagnosis, "D37");
    assert!(lowered["cause"].as_str().unwrap().contains("corrupt"));
    let text = place.run(&["diagnose"]).code(0).out();
    assert!(text.contains("ALTER SYSTEM SET fsync = 'on';"), "{text}");
    // Nothing waits for a flush, so nobody is told to flush less.
    assert!(!problems(&diagnosis).contains(&"D1"), "{diagnosis:#}");
}

#[test]
fn failures_are_told_and_counted_apart() {
    let place = Place::new();
    let good = place.file("good.sql", "SELECT 1;\n");
    let bad = place.file("bad.sql", "SELECT 1 / 0;\n");
    let mut args = vec!["run", "--file", &good, "--file", &bad, "-c", "2"];
    args.extend(SHORT);
    place.run(&args);
    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    let found = finding(&diagnosis, "D14");
    assert_eq!(found["kind"], "problem");
    let seen = found["evidence"][0]["what"].as_str().unwrap();
    assert!(seen.contains("22012"), "{seen}");
}

#[test]
fn a_commit_has_a_way_and_what_was_not_sampled_is_said() {
    let place = Place::new();
    let mut args = vec!["run", "--workload=autocommit", "-c", "4"];
    args.extend(LONGER);
    place.run(&args).code(0);
    let page = place.run(&["commit"]).code(0).out();
    for words in
        ["Where commit time goes", "Flushes", "Who waits for whom", "What commit_delay could do"]
    {
        assert!(page.contains(words), "{words}:\n{page}");
    }
    let anatomy = place.run(&["commit", "--json"]).code(0).json();
    assert!(anatomy["transactions_per_flush"].as_f64().unwrap() > 0.5, "{anatomy:#}");
    assert!(anatomy["writers"][0]["share"].as_f64().unwrap() > 0.9, "{anatomy:#}");
    assert_eq!(anatomy["delay"]["now"], 0.0);

    let mut args = vec!["run", "--workload=autocommit", "-c", "2", "--no-probe"];
    args.extend(SHORT);
    place.run(&args).code(0);
    let blind = place.run(&["diagnose", "--json"]).code(0).json();
    let sentences = blind["not_observable"].as_array().unwrap();
    let says = |word: &str| sentences.iter().any(|s| s.as_str().unwrap().contains(word));
    assert!(says("wait events were not sampled") && says("statements are not known"), "{blind:#}");
    assert!(blind["verdict"].as_str().unwrap().contains("most checks were skipped"), "{blind:#}");
    let page = place.run(&["commit"]).code(0).out();
    assert!(page.contains("not observable"), "{page}");
}

#[test]
fn each_diagnosis_is_taught_without_a_run() {
    let place = Place::new();
    for n in 1..=59 {
        let id = format!("D{n}");
        let taught = place.run(&["diagnose", "--explain", &id, "--json"]).code(0).json();
        assert_eq!(taught["id"], id);
        assert!(taught["explanation"]["disproof"].as_str().unwrap().len() > 10);
    }
    let text = place.run(&["diagnose", "--explain", "d34"]).code(0).out();
    for words in ["D34", "What it is", "How it is derived", "What would disprove it"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let wrong = place.run(&["diagnose", "--explain", "D60"]).code(2);
    assert!(wrong.err().contains("D1 to D59"), "{}", wrong.err());
    place.run(&["diagnose"]).refuses(&["there are no runs in", "`walwright run` makes one"]);
    place.run(&["commit"]).refuses(&["there are no runs in"]);
}

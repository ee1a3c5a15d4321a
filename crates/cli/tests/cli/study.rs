//! Experiments over whole applications: the application here is walwright's gateway, the load
//! tool PostgreSQL's pgbench.

use std::path::Path;

use walwright_server::Major;

use crate::common::{Place, install};

/// pgbench with these arguments, as a command line of a plan.
fn pgbench(arguments: &[&str]) -> Vec<String> {
    let command = install(Major::V18).command("pgbench");
    let mut words = vec!["env".to_owned()];
    words.extend(
        command
            .get_envs()
            .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?))),
    );
    words.push(command.get_program().to_str().unwrap().to_owned());
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    words
}

/// A plan whose application and load are these commands.
fn plan(application: &str, ready: &str, arguments: &[&str]) -> String {
    let words = pgbench(arguments);
    format!(
        r#"
name = "through a gateway"
blocks = 1
metric = ["throughput", "latency_mean"]
[workload]
name = "tpcb"
scale = 1
[application]
command = {application}
ready = "{ready}"
ready_within = "20s"
[load]
command = {words:?}
[parameters]
connections = 1
[[arm]]
name = "three connections"
parameters = {{ connections = 3 }}
"#
    )
}

fn gateway() -> String {
    let program = env!("CARGO_BIN_EXE_walwright");
    format!(
        r#"["{program}", "gateway", "--server", "{{url}}", "--listen", "127.0.0.1:{{port}}", "--auth", "trust"]"#
    )
}

const PGBENCH: [&str; 10] =
    ["-h", "127.0.0.1", "-p", "{port}", "-n", "-c", "{connections}", "-T", "3", "postgres"];

#[test]
fn an_application_and_a_load_tool_are_an_arm() {
    let place = Place::new();
    let plan = place.file("plan.toml", &plan(&gateway(), "127.0.0.1:{port}", &PGBENCH));
    let judged = place.run(&["experiment", &plan, "--json"]).code(0).json();
    assert_eq!(judged["arms"][0]["changes"][0], "connections = 3");
    // pgbench tells its rate over all of its test alone.
    assert!(judged["judged"]["arms"][0]["value"].as_f64().unwrap() > 0.0, "{judged}");
    let runs = place.run(&["runs", "--json"]).code(0).json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!(run["state"], "complete", "{run}");
        let id = run["id"].as_str().unwrap();
        let record = place.run(&["export", id]).code(0).json();
        let started = record["events"].as_array().unwrap().iter();
        let text = |event: &serde_json::Value| event["text"].as_str().unwrap_or("").to_owned();
        let said: Vec<String> = started.map(text).collect();
        assert!(said.iter().any(|text| text.contains("was started")), "{said:?}");
        let log = &record["client"]["logs"][0];
        assert_eq!(log["format"], "pgbench summary", "{record}");
        assert!(log["succeeded"].as_u64().unwrap() > 0);
    }
}

#[test]
fn what_fails_is_told_with_its_last_words() {
    let place = Place::new();
    let run = |name: &str, text: &str| {
        let plan = place.file(name, text);
        place.run(&["experiment", &plan])
    };
    let refused = r#"["sh", "-c", "echo no license found; exit 3"]"#;
    run("refused.toml", &plan(refused, "127.0.0.1:1", &PGBENCH))
        .code(1)
        .says(&["the application ended before it was ready with exit code 3", "no license found"]);
    run("wrong.toml", &plan(&gateway(), "127.0.0.1:{port}", &["-c", "{connections}", "-T", "x"]))
        .code(1)
        .says(&["the load tool ended with exit code 1", "invalid value \"x\" for option -T"]);
    run(
        "silent.toml",
        &plan(r#"["sleep", "60"]"#, "127.0.0.1:{port}", &PGBENCH).replace("20s", "1s"),
    )
    .code(1)
    .says(&["the application does not answer at 127.0.0.1:", "ready_within"]);
    let of_pgbench = plan(&gateway(), "127.0.0.1:{port}", &PGBENCH);
    let command = format!("command = {:?}", pgbench(&PGBENCH));
    let other = |words: &str| of_pgbench.replace(&command, &format!("command = {words}"));
    run("other.toml", &other(r#"["sh", "-c", "sleep 1; echo {connections} hellos"]"#))
        .code(1)
        .says(&["nor did the server commit anything", "hellos", "what was measured is in"]);
    // These show before anything is made.
    run("no-tool.toml", &other(r#"["no-such-tool", "{connections}"]"#))
        .code(2)
        .says(&["there is no program 'no-such-tool'"]);
    let open = plan(&gateway(), "127.0.0.1:{prot}", &PGBENCH);
    run("open.toml", &open)
        .code(2)
        .says(&["there is no value for {prot}", "connections, files, port"]);
    let unused = plan(&gateway(), "127.0.0.1:{port}", &["-T", "1"]);
    run("unused.toml", &unused).code(2).says(&["no command line has {connections}"]);
    let missing = plan(r#"["no-such-service"]"#, "127.0.0.1:{port}", &PGBENCH);
    run("missing.toml", &missing).code(2).says(&["there is no program 'no-such-service'"]);
}

#[test]
fn an_application_that_dies_ends_its_load_and_is_told_first() {
    let place = Place::new();
    let begun = place.path("load.pid").display().to_string();
    // It dies two seconds into a load of ten minutes.
    let dying = format!(
        r#"["sh", "-c", "until test -e {begun}; do sleep 0.1; done; sleep 2; echo out of memory; exit 9"]"#
    );
    let with_load = |application: &str, load: &str| {
        let text = plan(application, "", &PGBENCH).replace("ready = \"\"\n", "");
        let command = format!("command = {:?}", pgbench(&PGBENCH));
        place.file("plan.toml", &text.replace(&command, load))
    };
    let long = format!(
        r#"command = ["sh", "-c", "echo $$ > {begun}; echo {{connections}} sent; exec sleep 600"]"#
    );
    let died = place.run(&["experiment", &with_load(&dying, &long)]).code(1);
    died.says(&["the application ended during the load with exit code 9", "out of memory"]);
    let load = std::fs::read_to_string(&begun).unwrap();
    assert!(!Path::new("/proc").join(load.trim()).exists(), "the load goes on");
    for run in place.run(&["runs", "--json"]).code(0).json().as_array().unwrap() {
        assert_eq!(run["state"], "interrupted", "{run}");
    }
    // It is told too where nothing can be measured without it.
    let refusing = r#"["sh", "-c", "echo no license found: {connections}; exit 3"]"#;
    place.file("a.http", "GET /\n");
    let ours = "http = \"http://127.0.0.1:{port}\"\nrequests = [\"a.http\"]";
    place
        .run(&["experiment", &with_load(refusing, ours)])
        .code(1)
        .says(&["the application ended during the load with exit code 3", "no license found"]);
}

#[test]
fn results_are_read_from_files_that_the_load_tool_writes() {
    let place = Place::new();
    let text = plan(&gateway(), "127.0.0.1:{port}", &PGBENCH);
    let words = pgbench(&PGBENCH);
    let command = format!("command = {words:?}");
    // It says the same on standard output, where less of it is told.
    let logged = format!(
        "{} -l --log-prefix={{files}}/part && mv {{files}}/part.* {{files}}/operations",
        words.join(" ")
    );
    let run = |load: &str, results: &str| {
        let load = ["sh", "-c", load];
        let load = format!("command = {load:?}\nresults = [{results:?}]\nwarmup = \"1s\"");
        let plan = place.file("plan.toml", &text.replace(&command, &load));
        place.run(&["experiment", &plan, "--json"])
    };
    let judged = run(&logged, "{files}/oper*").code(0).json();
    assert!(judged["judged"]["arms"][0]["value"].as_f64().unwrap() > 0.0, "{judged}");
    let record = place.run(&["export", "latest"]).code(0).json();
    let log = &record["client"]["logs"][0];
    assert_eq!((&log["file"], &log["format"]), (&"operations".into(), &"pgbench log".into()));
    assert_eq!(log["detail"], "operations");

    // What was measured is kept, and the plan's own words say what is missing.
    run("sleep {connections}", "{files}/results.json").code(1).says(&[
        "the load tool ended, and its results are not there",
        "there is no file {files}/results.json",
        "what was measured is in",
    ]);
    let told = format!("{logged}; echo no results today > {{files}}/results.json");
    run(&told, "{files}/results.json").code(1).says(&["results.json", "no results today"]);
    let kept = place.run(&["export", "latest"]).code(0).json();
    assert_eq!(kept["client"]["logs"][0]["format"], "pgbench summary", "{kept}");
    run(&logged, "results.json").code(2).says(&["outlives its run", "{files}/NAME"]);
}

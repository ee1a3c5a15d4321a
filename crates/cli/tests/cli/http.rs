//! Runs that ask an application by HTTP: the document service.

use std::net::TcpListener;

use serde_json::Value;

use crate::common::{Host, Place, finish};
use crate::documents::Service;

/// The example that comes with walwright.
const EXAMPLE: &str = include_str!("../../../../plans/documents.http");

#[test]
fn an_application_is_asked_in_both_loops_and_what_is_behind_it_is_seen() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let service = Service::start(&place, &dsn, &[]);
    let requests = place.file("documents.http", EXAMPLE);
    let ask = ["run", "--http", &service.url(), "--requests", &requests, "--warmup=1s", "--json"];

    let seen = ["-c3", "-T5", "--dsn", &dsn, "--pool-wait=walwright_documents_pool_wait_seconds"];
    let run = place.run(&[&ask[..], &seen].concat()).code(0).json();
    let load = &run["summary"]["load"];
    assert_eq!(load["failed"], 0, "{load:#}");
    assert!(load["throughput"]["center"].as_f64().unwrap() > 0.0);
    let labels: Vec<&str> = load["scripts"][0]["statements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|statement| statement["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels.len(), 4, "{labels:?}");
    assert!(run["summary"]["wal"].is_object(), "the server was sampled: {run:#}");
    let time = &run["summary"]["time"];
    let application = &time["application"];
    assert!(application["pool_wait"].as_f64().unwrap() > 0.0, "{application}");
    // Where many processes have to be read to find those of the application it may be read too
    // seldom for a window of five seconds, and a full machine may leave its line no room: both
    // are told.
    let seldom = run["warnings"].to_string().contains("other processes: ");
    let is_full = time["overdrawn"].as_f64().unwrap() > 0.0;
    assert!(application["cpu"].as_f64().map_or(seldom, |cpu| cpu > 0.0 || is_full), "{run:#}");
    // The lines are the latency.
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let parts: f64 = time["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| number(&p["per_transaction"]["center"]))
        .sum();
    let of = |who: &str, lines: &[&str]| lines.iter().map(|l| number(&time[who][l])).sum::<f64>();
    let others = of("application", &["pool_wait", "cpu", "run_delay"])
        + of("driver", &["cpu", "run_delay"])
        // A pooler on this machine has a line too, whoever uses it.
        + of("pooler", &["cpu", "run_delay"])
        + of("gateway", &["queue", "withheld"])
        + number(&time["residual"]["center"]);
    let latency = number(&time["latency"]);
    assert!(((parts + others) / latency - 1.0).abs() < 0.01, "{parts} + {others} of {latency}");

    let open = place.run(&[&ask[..], &["-c4", "-T2", "--rate=50"]].concat()).code(0).json();
    assert_eq!(open["summary"]["load"]["open_loop"]["offered"], 50.0);
    assert!(open["summary"]["load"]["open_loop"]["lag"]["count"].as_u64().unwrap() > 50);
    assert_eq!(open["summary"]["time"], Value::Null);

    let missing = place.file("missing.http", "GET /data/resource-0/nothing\n");
    place
        .run(&["run", "--http", &service.url(), "--requests", &missing, "--warmup=1s", "-T5"])
        .refuses(&["missing.http:1: GET was answered with 404"]);
}

#[test]
fn an_application_that_others_ask_tells_what_its_pool_is_waited_for() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let service = Service::start(&place, &dsn, &[]);
    let requests = place.file("documents.http", EXAMPLE);
    let pool =
        format!("--pool-wait={}/metrics#walwright_documents_pool_wait_seconds", service.url());
    let record = ["record", "--json", "--dsn", &dsn, &pool, "--"];
    let lab = place.path("other");
    let other = [env!("CARGO_BIN_EXE_walwright"), "--lab", lab.to_str().unwrap(), "run", "--quiet"];
    let load = ["--http", &service.url(), "--requests", &requests, "--clients=16", "-T5"];
    let recorded = place.run(&[&record[..], &other, &load].concat()).code(0).json();
    let time = &recorded["summary"]["time"];
    assert_eq!(time["unit"], "commit");
    assert!(time["application"]["pool_wait"].as_f64().unwrap() > 0.0, "{time}");

    let diagnosis = place.run(&["diagnose", "latest", "--json"]).code(0).json();
    let findings = diagnosis["findings"].as_array().unwrap();
    let pool = findings.iter().find(|of| of["id"] == "D53" && of["subject"] == "pool");
    // On a machine whose processors are full they are the limit, and are told instead.
    let is_full = findings.iter().any(|of| of["id"] == "D59");
    let told = pool.map(|pool| pool["cause"].as_str().unwrap().contains("a commit waits"));
    assert!(told.unwrap_or(is_full), "{findings:#?}");

    let nameless = ["record", "--dsn", &dsn, "--for=1s", "--pool-wait=waits_seconds"];
    place.run(&nameless).misused(&["http://HOST:PORT/metrics#waits_seconds"]);
}

#[test]
fn what_cannot_be_asked_is_a_sentence() {
    let place = Place::new();
    let requests = place.file("a.http", "GET /:id\n");
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}");
    let http = |more: &[&str]| place.run(&[&["run", "--http", &url], more].concat());
    http(&[]).misused(&["--requests <FILE"]);
    http(&["--requests", &requests, "--lean"]).misused(&["--lean"]);
    http(&["--requests", &requests]).refuses(&["a.http:1:6: undefined variable \"id\""]);
    http(&["--requests", &requests, "-D", "id=1"])
        .refuses(&["client 1 of 1 could not connect", "Connection refused"]);
    let tls = ["run", "--http", "https://a", "--requests", &requests];
    place.run(&tls).misused(&["https is not spoken here"]);
    assert_eq!(place.runs(), Vec::<Value>::new());
}

#[test]
fn a_study_asks_its_application_by_our_own_clients() {
    let place = Place::new();
    place.file("documents.http", EXAMPLE);
    let plan = |load: &str| {
        format!(
            r#"
name = "pools"
blocks = 1
metric = ["throughput", "latency_mean"]
[workload]
name = "documents"
scale = 1
[application]
command = ["{{walwright}}", "documents", "serve", "--dsn", "{{url}}", "--listen", "127.0.0.1:{{port}}", "--pool-size", "{{pool}}"]
ready = "http://127.0.0.1:{{port}}/healthz"
metrics = "http://127.0.0.1:{{port}}/metrics"
pool_wait = "walwright_documents_pool_wait_seconds"
[load]
{load}
clients = 4
duration = "4s"
warmup = "1s"
[parameters]
pool = 1
[[arm]]
name = "pool of 4"
parameters = {{ pool = 4 }}
"#
        )
    };
    let http = "http = \"http://127.0.0.1:{port}\"\nrequests = [\"documents.http\"]";
    let path = place.file("plan.toml", &plan(http));
    // Its cluster is its own, whatever the caller's variables name.
    let mut command = place.command(&["experiment", &path, "--json"]);
    command.env("PGSERVICE", "nobody").env("PGTARGETSESSIONATTRS", "standby");
    let judged = finish(command.spawn().unwrap()).code(0).json();
    assert!(judged["judged"]["arms"][0]["value"].as_f64().unwrap() > 0.0, "{judged:#}");
    let runs = place.runs();
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert_eq!(run["state"], "complete", "{run}");
        let record = place.run(&["export", run["id"].as_str().unwrap()]).code(0).json();
        assert_eq!(record["load"]["protocol"], "HTTP/1.1");
        assert_eq!(record["load"]["clients"], 4);
        assert!(!record["samples"]["application"].as_array().unwrap().is_empty());
    }
    let wrong = place.file("wrong.toml", &plan("http = \"http://127.0.0.1:{port}\""));
    place.run(&["experiment", &wrong]).misused(&["requests the files of what is asked"]);
}

//! `walwright ingest` against real servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use super::common::{Host, Place, finish, signal, until};

const EVENTS: &str = "CREATE TABLE events (
    id bigint PRIMARY KEY,
    kind text NOT NULL DEFAULT 'none',
    tags text[],
    payload jsonb,
    at timestamptz NOT NULL DEFAULT now()
)";

fn host() -> Host {
    let host = Host::new();
    host.execute("postgres", EVENTS);
    host
}

fn fed(place: &Place, args: &[&str], input: &str) -> Child {
    let mut child = place.command(args).stdin(Stdio::piped()).spawn().expect("spawn");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // It may be more than a pipe holds; who reads no more breaks it.
    std::thread::spawn(move || stdin.write_all(input.as_bytes()).ok());
    child
}

#[test]
fn lines_of_a_pipe_are_written_and_those_that_cannot_be_can_be_sent_again() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    let rejects = place.path("rejects.ndjson").display().to_string();
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "--rejects", &rejects, "--json"];
    let input = r#"{"id": 1, "kind": "a", "tags": ["x", null, "y,z"], "payload": {"n": 1.50}}
{"id": 2}
{"id": 3, "kind": null}
{"id": 4, "kind":
{"id": 2, "kind": "twice"}
{"id": 5, "knd": "b"}
"#;
    let done = finish(fed(&place, &args, input)).code(4);
    let summary = done.json();
    assert_eq!(
        (&summary["rows"], &summary["written"], &summary["rejected"]),
        (&6.into(), &2.into(), &4.into())
    );
    let rows =
        "SELECT string_agg(concat_ws(' ', id, kind, tags, payload), ';' ORDER BY id) FROM events";
    assert_eq!(host.ask("postgres", rows), "1 a {x,NULL,\"y,z\"} {\"n\": 1.50};2 none");

    let kept = std::fs::read_to_string(&rejects).expect("rejects");
    let mut lines: Vec<&str> = kept.lines().collect();
    lines.sort_unstable();
    let mut wrong: Vec<&str> = input.lines().skip(2).collect();
    wrong.sort_unstable();
    assert_eq!(lines, wrong);
    let reasons = std::fs::read_to_string(format!("{rejects}.reasons")).expect("reasons");
    for word in ["23502", "23505", "events_pkey", "EOF", "no column for field \\\"knd\\\""] {
        assert!(reasons.contains(word), "{word} is not in {reasons}");
    }
    // Mended, they go in.
    let mended =
        kept.replace("\"id\": 2", "\"id\": 6").replace("null", "\"c\"").replace("knd", "kind");
    let mended = mended.replace("\"kind\":\n", "\"kind\": \"d\"}\n");
    place.file("mended.ndjson", &mended);
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "mended.ndjson", "--no-resume"];
    let done = place.run(&args).code(0);
    assert!(done.out().starts_with("4 rows written to events in "), "{}", done.out());
    assert_eq!(host.ask("postgres", "SELECT count(*)::text FROM events"), "6");
}

#[test]
fn csv_and_text_are_read_as_copy_reads_them() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    place.file("some.csv", "id,event,extra\n1,\"a\n\"\"b\"\"\",x\n2,\"\",y\n3,,z\n4,x\n");
    let csv = ["ingest", "--dsn", &dsn, "--table", "events", "--no-resume", "some.csv"];
    let mapped = [&csv[..], &["--map", "event=kind", "--ignore-unknown"]].concat();
    let done = place.run(&mapped).code(4);
    let told = ["line 6 of", "it has 2 fields, and not 3", "line 5 of", "null value in column"];
    told.iter().for_each(|word| assert!(done.out().contains(word), "{word}: {}", done.out()));
    place.run(&csv).code(1).says(&["the header of", "no column for field \"event\""]);
    place.file("some.copy", "7\tx\\ty\n8\t\\N\n9\tz\n\\.\nno row\n");
    let text = ["ingest", "--dsn", &dsn, "--table", "events", "--no-resume", "some.copy"];
    place.run(&[&text[..], &["--columns", "id,kind"]].concat()).code(4);
    let rows = "SELECT string_agg(format('%s=%s', id, kind), ';' ORDER BY id) FROM events";
    assert_eq!(host.ask("postgres", rows), "1=a\n\"b\";2=;7=x\ty;9=z");
}

#[test]
fn what_is_no_row_is_told_in_a_sentence_and_its_neighbours_are_written() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    let mut input = b"{\"id\": 1}\n{\"id\": 2, \"kind\": \"\xff\"}\n\n".to_vec();
    input.extend(format!("{{\"id\": 3, \"kind\": \"{}\"}}\n", "x".repeat(5_000)).bytes());
    input.extend(b"{\"id\": 4, \"kind\": \"a\\u0000\"}\n[5]\n{\"id\": 6}");
    std::fs::write(place.path("hard.ndjson"), &input).expect("written");
    place.file("empty.csv", "");
    let args =
        ["ingest", "--dsn", &dsn, "--table", "events", "--no-resume", "--longest-row", "4096"];
    let done = place.run(&[&args[..], &["hard.ndjson", "--rejects", "r.ndjson"]].concat()).code(4);
    for told in [
        "2 rows written",
        "4 rows rejected",
        "line 2 of",
        "not UTF-8: byte 20",
        "line 4 of",
        "longer than 4096 bytes",
        "line 5 of",
        "\\u0000 cannot be stored",
        "line 6 of",
        "no object",
    ] {
        assert!(done.out().contains(told), "{told} is not in {}", done.out());
    }
    // As they came, in their order.
    let rejects = std::fs::read(place.path("r.ndjson")).expect("rejects");
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    assert_eq!(rejects, [lines[1], lines[3], lines[4], lines[5], b""].join(&b'\n'));
    let same = [&args[..], &["hard.ndjson", "--rejects", "hard.ndjson"]].concat();
    place.run(&same).misused(&["cannot take the rejects too"]);
    place.run(&[&args[..], &["empty.csv"]].concat()).code(0);
    let done = finish(fed(&place, &args, "")).code(0);
    assert!(done.out().starts_with("0 rows written to events"), "{}", done.out());
}

#[test]
fn a_stop_writes_what_was_read_and_cuts_no_line_in_two() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "--format", "text"];
    let args = [&args[..], &["--columns", "id,kind"]].concat();
    let mut child = place.command(&args).stdin(Stdio::piped()).spawn().expect("spawn");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"1\ta\n2\tb\n3\tc").expect("written");
    let count = || host.ask("postgres", "SELECT count(*)::text FROM events");
    until("whole lines are written", || count() == "2");
    signal(child.id(), libc::SIGTERM);
    let done = finish(child).code(0);
    assert!(done.out().contains("standard input ended before line 3"), "{}", done.out());
    assert_eq!(count(), "2");
}

#[test]
fn a_second_signal_waits_for_nothing_and_the_file_goes_on_where_it_was() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    place.file("rows.csv", "id,kind\n1,a\n2,b\n3,c\n");
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "--create-tables", "rows.csv"];
    let held = host.hold("postgres", "LOCK TABLE events");
    let mut child = place.command(&args).spawn().expect("spawn");
    let waits = "SELECT count(*)::text FROM pg_locks WHERE NOT granted";
    until("rows wait", || host.ask("postgres", waits) != "0");
    signal(child.id(), libc::SIGINT);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let said = said.by_ref().map_while(Result::ok).find(|line| line.starts_with("stopping: "));
    assert_eq!(
        said.as_deref(),
        Some(
            "stopping: waiting for the rows that were read to be durable, 120 s at most; a second \
             signal ends this at once: whether the last rows are written is not known; a file goes \
             on where it was when it is ingested again"
        )
    );
    signal(child.id(), libc::SIGINT);
    finish(child).code(130);
    assert_ne!(host.ask("postgres", waits), "0", "its statement is left behind, and may yet end");
    drop(held);
    place.run(&args).code(0);
    assert_eq!(host.ask("postgres", "SELECT count(*)::text FROM events"), "3");
}

#[test]
fn a_rejected_row_is_read_again_until_it_is_kept() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    place.file("some.csv", "id,kind\n1,a\nx,b\n2,b,\n3,c\n3,d\n");
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "some.csv", "--create-tables"];
    // One connection, so that of two rows with one id the first is written.
    let one = ["--connections", "1", "--json"];
    let run = |more: &[&str]| place.run(&[&args[..], &one, more].concat());
    let counted = |summary: &serde_json::Value| {
        ["written", "rejected", "written_before"].map(|name| summary[name].as_u64().unwrap_or(99))
    };
    assert_eq!(counted(&run(&[]).code(4).json()), [2, 3, 0]);
    assert_eq!(counted(&run(&["--rejects", "r.csv"]).code(4).json()), [0, 3, 2]);
    assert_eq!(counted(&run(&["--rejects", "r.csv"]).code(0).json()), [0, 0, 5]);
    let kept = std::fs::read_to_string(place.path("r.csv")).expect("rejects");
    assert_eq!(kept, "id,kind\nx,b\n2,b,\n3,d\n");
    place.file("r.csv", "id,kind\n4,b\n5,b\n6,d\n");
    let again = ["ingest", "--dsn", &dsn, "--table", "events", "r.csv", "--json"];
    assert_eq!(counted(&place.run(&again).code(0).json()), [3, 0, 0]);
}

#[test]
fn a_file_whose_reader_is_killed_again_and_again_is_written_once() {
    const ROWS: usize = 60_000;
    let (host, place) = (host(), Place::new());
    host.execute("postgres", "CREATE TABLE copies (id bigint NOT NULL, kind text)");
    let dsn = host.superuser("postgres");
    let mut csv = "id,kind\n".to_owned();
    for id in 0..ROWS {
        // Each ninth is no row, and must not keep others from being counted.
        csv.push_str(&if id % 9_000 == 77 { format!("{id}\n") } else { format!("{id},k{id}\n") });
    }
    place.file("rows.csv", &csv);
    let args = ["ingest", "--dsn", &dsn, "--table", "copies", "rows.csv"];
    place.run(&args).refuses(&["walwright_lanes", "CREATE TABLE"]);
    let args = [&args[..], &["--create-tables", "--batch-rows", "50", "--json"]].concat();
    let count = || host.ask("postgres", "SELECT count(*)::text FROM copies");
    let count = || count().parse::<usize>().expect("a number");
    let mut kills = 0;
    let last = loop {
        let before = count();
        let child = place.command(&args).spawn().expect("spawn");
        let pid = child.id();
        let waiting = std::thread::spawn(|| finish(child));
        until("rows or the end", || waiting.is_finished() || count() > before + 4_000);
        // Reaped only by the thread that waits for it, which has not seen its end.
        if !waiting.is_finished() {
            signal(pid, libc::SIGKILL);
        }
        let done = waiting.join().expect("no panic");
        match done.exit_code() {
            None => kills += 1,
            // The last run has met bad rows, or others before it have met them all.
            Some(_) => break done.json(),
        }
    };
    assert!(kills >= 2, "killed {kills} times");
    assert!(last["written_before"].as_u64() > Some(8_000), "{last}");
    let sql =
        "SELECT format('%s %s', count(*), count(DISTINCT id)) FROM copies WHERE kind = 'k' || id";
    let written = ROWS - ROWS.div_ceil(9_000);
    assert_eq!(host.ask("postgres", sql), format!("{written} {written}"));

    // Grown, it goes on; another in its place is another.
    csv.push_str("60001,grown\n");
    place.file("rows.csv", &csv);
    let done = place.run(&args).json();
    assert_eq!(done["written"], 1);
    place.file("rows.csv", "id,kind\n60002,other\n");
    assert_eq!(place.run(&args).code(0).json()["written"], 1);
    assert_eq!(count(), written + 2);
}

#[test]
fn rows_by_http_are_answered_one_by_one_and_a_stop_lets_none_go_unanswered() {
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    place.file("tokens", "hush\n");
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "--http", "127.0.0.1:0"];
    let args = [
        &args[..],
        &["--http-token-file", "tokens", "--create-tables", "--http-longest-body", "4000"],
    ]
    .concat();
    let mut child = place.command(&args).spawn().expect("spawn");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let place_of = |line: String| {
        Some(line.strip_prefix("listening on http://")?.split_once('/')?.0.to_owned())
    };
    let address = said.by_ref().map_while(Result::ok).find_map(place_of).expect("an address");
    let ask = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).expect("connect");
        let length = body.len();
        write!(stream, "{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hush\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer[9..12].parse::<u16>().expect("a status");
        (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
    };
    let post = |body: &str| ask("POST /ingest/events", body);
    assert_eq!(post(r#"{"id": 1, "kind": "a"}"#).0, 200);
    let (status, body) = post(r#"[{"id": 2}, {"id": 1}, {"od": 3}]"#);
    assert_eq!(status, 422);
    let answer: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let results = answer["results"].as_array().expect("a list");
    let statuses: Vec<&str> = results.iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["written", "rejected", "rejected"]);
    assert_eq!(results[1]["sqlstate"], "23505");
    assert_eq!(post("{\"id\": 3}\n{\"id\": 4}\n").0, 200);
    assert_eq!(post(&"x".repeat(4_001)).0, 413);
    assert_eq!(ask("POST /ingest/pg_class", "{}").0, 404);
    assert_eq!(ask("GET /healthz", ""), (200, "ok\n".to_owned()));
    let (_, metrics) = ask("GET /metrics", "");
    assert!(metrics.contains("walwright_ingest_rows_total{outcome=\"written\"} 4"), "{metrics}");
    let mut stream = TcpStream::connect(&address).expect("connect");
    stream
        .write_all(b"POST /ingest/events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        .expect("sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 401");

    // A row that waits for a lock when the end is asked for is answered all the same.
    let held = host.hold("postgres", "LOCK TABLE events");
    let listening = address.clone();
    let waiting = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.write_all(b"POST /ingest/events HTTP/1.1\r\nHost: x\r\nAuthorization: bearer hush\r\nContent-Length: 9\r\n\r\n{\"id\": 5}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    });
    let waits = "SELECT count(*)::text FROM pg_locks WHERE NOT granted";
    until("it waits", || host.ask("postgres", waits) != "0");
    signal(child.id(), libc::SIGTERM);
    until("no more are taken", || TcpStream::connect(&listening).is_err());
    drop(held);
    let answer = waiting.join().expect("no panic");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    finish(child).code(0);
    assert_eq!(host.ask("postgres", "SELECT count(*)::text FROM events"), "5");
}

#[test]
fn a_server_that_ends_sessions_loses_and_doubles_nothing() {
    const PIECES: usize = 8;
    const ROWS: usize = 4_000;
    let (host, place) = (host(), Place::new());
    let dsn = host.superuser("postgres");
    let args = ["ingest", "--dsn", &dsn, "--table", "events", "--create-tables", "--json"];
    let mut child = place
        .command(&args)
        .args(["--batch-rows", "100"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("spawn");
    let mut stdin = child.stdin.take().expect("a pipe");
    let waiting = std::thread::spawn(|| finish(child));
    let count = || host.ask("postgres", "SELECT count(*)::text FROM events");
    let terminate = "SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity
        WHERE application_name = 'walwright ingest'";
    for piece in 0..PIECES {
        let before = count();
        let rows = (0..ROWS).map(|row| format!("{{\"id\": {}}}\n", piece * ROWS + row));
        stdin.write_all(rows.collect::<String>().as_bytes()).expect("written");
        until("rows are written", || count() != before);
        until("a session is ended", || host.ask("postgres", terminate) != "0");
    }
    drop(stdin);
    let summary = waiting.join().expect("no panic").code(0).json();
    assert_eq!(summary["written"], PIECES * ROWS);
    assert_eq!(count(), (PIECES * ROWS).to_string());
}

#[test]
fn the_demonstration_needs_nothing_and_leaves_nothing() {
    let place = Place::new();
    let done = place.run(&["ingest", "--embedded", "--rows", "3000", "--json"]).code(0);
    assert_eq!(done.json()["written"], 3_000);
    place.assert_clean();
    place.run(&["ingest", "--table", "events"]).code(2).says(&["--dsn"]);
    let public = ["ingest", "--dsn", "", "--table", "events", "--http", "0.0.0.0:0"];
    place.run(&public).misused(&["--http-token-file"]);
}

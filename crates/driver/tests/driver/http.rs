//! Loads on an application that is asked by HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use walwright_driver::{
    Arrival, Gaps, HttpServer, Load, LoadError, LoadPlan, PlanError, calibrate,
};
use walwright_workload::script::{Program, ScriptSource};

use crate::common::{program, run, until};

/// A request as it came.
#[derive(Debug, Clone)]
struct Asked {
    line: String,
    headers: String,
    body: String,
    /// Requests of its connection before it.
    before: u64,
}

/// What is sent for a request; whether the connection ends then.
type Answer = (Vec<u8>, bool);

/// An application of the tests: bytes for each request.
struct Application {
    server: HttpServer,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    address: std::net::SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Application {
    fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Application {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        Application::on(listener, answer)
    }

    fn on(
        listener: TcpListener,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Application {
        let address = listener.local_addr().expect("an address");
        let (asked, connections) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let answer = Arc::new(answer);
        let (all, count, streams) =
            (Arc::clone(&asked), Arc::clone(&connections), Arc::clone(&open));
        let thread = std::thread::spawn(move || {
            let mut serving = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                // The wish to end comes as a connection that says nothing.
                let mut streams = streams.lock().unwrap();
                if count.load(Ordering::SeqCst) == u64::MAX {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                streams.push(stream.try_clone().expect("a descriptor"));
                let (answer, all) = (Arc::clone(&answer), Arc::clone(&all));
                serving.push(std::thread::spawn(move || serve(&stream, &*answer, &all)));
            }
            serving.into_iter().for_each(|thread| thread.join().expect("a sound application"));
        });
        let server = format!("http://{address}").parse().expect("an address");
        Application { server, asked, connections, thread: Some(thread), address, open }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Ends it, cutting what is open.
    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.connections.store(u64::MAX, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        thread.join().expect("a sound application");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&Asked) -> Answer, all: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    for before in 0.. {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(length) if length > 0 => {}
            _ => return,
        }
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") && headers != "\r\n" {
            if reader.read_line(&mut headers).is_err() {
                return;
            }
        }
        let length = headers.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body = String::from_utf8(body).expect("UTF-8");
        let asked = Asked { line: line.trim_end().to_owned(), headers, body, before };
        let (bytes, closes) = answer(&asked);
        all.lock().unwrap().push(asked);
        let mut writer = stream;
        // The load may be over.
        if writer.write_all(&bytes).is_err() || closes {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn ok(body: &str) -> Answer {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    (text.into_bytes(), false)
}

fn status(status: &str, body: &str) -> Answer {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    (text.into_bytes(), false)
}

fn requests(text: &str) -> Arc<Program> {
    let source = ScriptSource { name: "test.http".into(), text: text.into(), weight: 1 };
    Arc::new(Program::compile_requests(&[source], &[]).unwrap_or_else(|error| panic!("{error}")))
}

fn plan(text: &str, server: &HttpServer) -> LoadPlan {
    let mut plan = LoadPlan::new(requests(text), server.clone());
    plan.interval = Duration::from_millis(100);
    plan
}

#[test]
fn requests_are_asked_as_written_and_answers_are_kept() {
    let application = Application::start(|asked| match asked.line.as_str() {
        "POST /data HTTP/1.1" => {
            let id: i64 =
                asked.body.trim_start_matches("{\"n\":").trim_end_matches('}').parse().unwrap();
            let text = format!(
                "HTTP/1.1 201 Created\r\nlocation: http://elsewhere/data/x%20{id}\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            let body = format!("{{\"id\": \"a/{id}\", \"n\": [{id}]}}");
            let (first, rest) = body.split_at(3);
            let chunks = format!("3\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
            ((text + &chunks).into_bytes(), false)
        }
        _ => ok("{}"),
    });
    let text = "\\set n random(1, 1000000)\nPOST /data\nX-Client: :client_id\n\n{\"n\":{{:n}}}\n\
        \\capture place header Location\n\\capture id json /id\n\\capture same json /n/0\n\\capture code status\n\
        GET :place\nGET /data/:id?same={{:same = :n}}&code=:code\n";
    let mut plan = plan(text, &application.server);
    plan.clients = 3;
    plan.threads = 2;
    let ran = run(plan, 50);
    assert_eq!((ran.outcome.failures(), ran.outcome.connections_lost), (0, 0), "{:?}", ran.outcome);
    assert_eq!(application.connections(), 3);
    let asked = application.asked();
    assert_eq!(asked.len() as u64, 3 * ran.outcome.transactions());
    let numbers: Vec<&str> = asked
        .iter()
        .filter_map(|asked| asked.body.strip_prefix("{\"n\":")?.strip_suffix('}'))
        .collect();
    assert_eq!(numbers.len() as u64, ran.outcome.transactions());
    for number in numbers {
        let by_place = format!("GET /data/x%20{number} HTTP/1.1");
        let by_id = format!("GET /data/a%2F{number}?same=true&code=201 HTTP/1.1");
        assert!(asked.iter().any(|asked| asked.line == by_place), "{by_place}");
        assert!(asked.iter().any(|asked| asked.line == by_id), "{by_id}");
    }
    let host = application.server.to_string().replace("http://", "Host: ");
    assert!(asked.iter().all(|asked| asked.headers.contains(&host)), "{:?}", asked[0]);
    let statements = &ran.intervals.iter().map(|i| &i.scripts[0].statements).collect::<Vec<_>>();
    for number in 0..3 {
        let count: u64 = statements.iter().map(|of| of[number].count()).sum();
        assert_eq!(count, ran.outcome.transactions(), "every request has a latency of its own");
    }
}

#[test]
fn failures_are_counted_by_status_and_stay_out_of_latency() {
    let application = Application::start(|asked| match asked.line.split(['/', ' ']).nth(2) {
        Some("0") => status("404 Not Found", "{\"error\": \"no\r\nsuch\"}"),
        Some("1") => status("503 Service Unavailable", ""),
        _ => ok(""),
    });
    let mut plan = plan("\\set n random(0, 2)\nGET /:n\nGET /after\n", &application.server);
    plan.clients = 2;
    let ran = run(plan, 300);
    let script = &ran.outcome.scripts[0];
    assert_eq!(script.failures.keys().collect::<Vec<_>>(), ["HTTP 404", "HTTP 503"]);
    let after = application.asked().iter().filter(|a| a.line.contains("after")).count();
    assert_eq!(after as u64, script.transactions, "what follows a failure is not asked");
    assert_eq!(ran.latency().count(), script.transactions);
    let told = &ran.outcome.errors.of("HTTP 404")[0];
    assert_eq!(told, "test.http:2: GET was answered with 404: {\"error\": \"no such\"}");
    assert_eq!(ran.outcome.connections_lost, 0);
}

#[test]
fn a_connection_that_an_answer_ends_is_opened_anew() {
    for open in [false, true] {
        let application = Application::start(|asked| match asked.before {
            0 => ok("a"),
            1 => (
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nb".to_vec(),
                true,
            ),
            // Nothing says where the body ends, so the end of the connection does.
            _ => (b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec(), true),
        });
        let mut plan = plan("GET /a\nGET /b\n", &application.server);
        plan.clients = 2;
        if open {
            plan.arrival = Arrival::Open { rate: 400.0, gaps: Gaps::Even };
        }
        let ran = run(plan, 40);
        let outcome = &ran.outcome;
        assert_eq!((outcome.failures(), outcome.connections_lost), (0, 0), "{outcome:?}");
        assert_eq!(outcome.connect_failures, 0);
        assert_eq!(application.asked().len() as u64, 2 * outcome.transactions());
        assert!(application.connections() >= outcome.transactions());
        assert!(ran.intervals.iter().all(|i| i.clients <= 2), "{:?}", ran.intervals);
    }
    let application = Application::start(|_| (b"HTTP/1.0 200 OK\r\n\r\nall".to_vec(), true));
    let ran = run(plan("GET /a\n", &application.server), 20);
    assert_eq!((ran.outcome.failures(), ran.outcome.connections_lost), (0, 0));
}

#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    let application = Application::start(|_| ok(""));
    let mut plan = plan("GET /\n", &application.server);
    plan.arrival = Arrival::Open { rate: 2000.0, gaps: Gaps::Poisson };
    plan.clients = 4;
    let ran = run(plan, 400);
    let outcome = &ran.outcome;
    assert!(outcome.due >= outcome.transactions(), "{outcome:?}");
    let lag: u64 = ran.sum(|interval| interval.lag.count());
    assert_eq!(lag, outcome.transactions() + outcome.failures() + outcome.unfinished);
}

#[test]
fn answers_that_are_none_lose_the_connection_and_are_counted() {
    let application = Application::start(|asked| match asked.before {
        0..3 => ok("fine"),
        3 if asked.line.contains("/a") => (b"220 smtp ready\r\n".to_vec(), false),
        _ => (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut".to_vec(), true),
    });
    let mut plan = plan(
        "\\set n random(1, 2)\n\\if :n = 1\nGET /a\n\\else\nGET /b\n\\endif\n",
        &application.server,
    );
    plan.clients = 2;
    let ran = run(plan, 60);
    let script = &ran.outcome.scripts[0];
    assert_eq!(script.failures.keys().collect::<Vec<_>>(), ["connection"]);
    assert!(ran.outcome.connections_lost >= script.failures["connection"]);
    let told = ran.outcome.errors.of("connection").join("\n");
    assert!(told.contains("is not HTTP/1.1") && told.contains("closed the connection"), "{told}");
}

#[test]
fn an_answer_that_does_not_come_in_time_has_failed() {
    let application = Application::start(|asked| match asked.line.contains("/late") {
        // The head alone is no answer.
        true => (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec(), false),
        false => ok(""),
    });
    let mut server = application.server.clone();
    server.timeout = Duration::from_millis(150);
    let text = "\\set n random(1, 20)\n\\if :n = 1\nGET /late\n\\else\nGET /\n\\endif\n";
    let mut plan = plan(text, &server);
    plan.clients = 4;
    let ran = run(plan, 200);
    let failures = &ran.outcome.scripts[0].failures;
    assert_eq!(failures.keys().collect::<Vec<_>>(), ["timeout"]);
    assert!(ran.outcome.errors.of("timeout")[0].starts_with("test.http:3: GET: no answer within"));
    assert_eq!(ran.outcome.connections_lost, failures["timeout"]);
}

#[test]
fn an_application_that_goes_and_comes_back_is_asked_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let same = listener.local_addr().expect("an address");
    let mut first = Application::on(listener, |_| ok("1"));
    let mut plan = plan("GET /\n", &first.server);
    plan.clients = 2;
    let load = Load::start(plan).expect("started");
    until("requests are answered", || first.asked().len() > 100);
    first.end();
    let second = Application::on(bound(same), |_| ok("2"));
    until("requests are answered again", || second.asked().len() > 100);
    load.stop();
    let outcome = load.join().expect("it ran");
    assert!(outcome.server_lost.is_none(), "{outcome:?}");
    assert!(outcome.connections_lost >= 2, "{outcome:?}");
    assert_eq!(outcome.scripts[0].failures.keys().collect::<Vec<_>>(), ["connection"]);
}

/// A listener on a port that others may still hold in TIME_WAIT.
fn bound(address: std::net::SocketAddr) -> TcpListener {
    let mut listener = None;
    until("the port is free", || {
        listener = TcpListener::bind(address).ok();
        listener.is_some()
    });
    listener.expect("bound")
}

#[test]
fn what_cannot_be_asked_is_told_before_the_load() {
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let nobody: HttpServer = format!("http://{address}").parse().unwrap();
    let error = Load::start(plan("GET /\n", &nobody)).expect("a plan").join().unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    let sql = LoadPlan::new(program(&["SELECT 1;"]), nobody);
    assert!(matches!(sql.check(), Err(PlanError::Endpoint)));
}

#[test]
fn the_driver_alone_is_measured_where_nothing_is_kept_of_answers() {
    let nobody: HttpServer = "http://127.0.0.1:1".parse().unwrap();
    let text =
        "\\set n random(1, 9)\nPOST /a\n\n{\"n\": :n}\n\\capture code status\nHEAD /b\nPUT /c\n";
    let measured = calibrate(&plan(text, &nobody), Duration::from_millis(200)).unwrap();
    let measured = measured.expect("a figure");
    assert!(measured.cpu_per_transaction > Duration::ZERO && measured.ceiling > 0.0);
    let kept = plan("GET /\n\\capture id json /id\n", &nobody);
    assert_eq!(calibrate(&kept, Duration::from_millis(200)).unwrap(), None);
}

#[test]
fn a_capture_that_finds_nothing_fails_its_transaction() {
    let application = Application::start(|_| ok("{\"id\": 1}"));
    for (part, told) in [
        ("header Location", "the answer has no header Location"),
        ("json /name", "the answer has no JSON at \"/name\""),
    ] {
        let ran = run(plan(&format!("GET /\n\\capture a {part}\n"), &application.server), 3);
        assert_eq!(ran.outcome.transactions(), 0);
        let said = &ran.outcome.errors.of("script")[0];
        assert_eq!(said, &format!("test.http:1: GET: \\capture: {told}"));
    }
}

//! `walwright documents serve`: what its users and those who run it see.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;

use serde_json::{Value, json};

use crate::common::{Done, Host, Place, finish, signal, until};

/// The document service before a server, with its tables made.
pub struct Service {
    child: Option<Child>,
    address: SocketAddr,
}

impl Service {
    /// Starts it with more options; what it says is in `service.log` of the place.
    pub fn start(place: &Place, dsn: &str, more: &[&str]) -> Service {
        let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let listen = address.to_string();
        let args = ["documents", "serve", "--dsn", dsn, "--create", "--scale=1", "--pool-size=2"];
        let mut command = place.command(&[&args[..], &["--listen", &listen], more].concat());
        command.stderr(fs::File::create(place.path("service.log")).unwrap());
        let service = Service { child: Some(command.spawn().unwrap()), address };
        until("the service listens", || TcpStream::connect(address).is_ok());
        service
    }

    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n"
        );
        write!(stream, "{head}{headers}\r\n{body}").unwrap();
        Answer::read(stream)
    }

    fn post(&self, path: &str, document: &Value) -> Answer {
        self.ask("POST", path, "", &document.to_string())
    }

    fn end(&mut self) -> Option<Done> {
        let child = self.child.take()?;
        signal(child.id(), libc::SIGTERM);
        Some(finish(child))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// What was answered.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(mut stream: impl Read) -> Answer {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Fails the test unless it has this status and tells this.
    #[track_caller]
    fn is(self, status: u16, told: &str) -> Answer {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.body.contains(told), "{told:?} is not in {:?}", self.body);
        self
    }

    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head)).trim()
    }
}

#[test]
fn the_service_keeps_documents_tells_what_it_refuses_and_ends_when_all_is_answered() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let mut service = Service::start(&place, &dsn, &["--longest-body=2000", "-v"]);
    let kind = "/data/resource-1";

    // A document and its versions.
    let document = json!({"identity": "a name", "references": [3], "body": {"a": 1}});
    let made = service.post(kind, &document).is(201, "\"version\":1");
    let address = made.header("location").to_owned();
    assert_eq!(service.post(kind, &document).is(200, "").header("etag"), "\"2\"");
    let found = service.ask("GET", &format!("{kind}?identity=a+name"), "", "");
    assert_eq!(found.is(200, "").body, service.ask("GET", &address, "", "").is(200, "").body);
    let changed = json!({"references": [], "body": {"a": 2}}).to_string();
    service.ask("PUT", &address, "", &changed).is(428, "If-Match");
    service.ask("PUT", &address, "If-Match: \"1\"\r\n", &changed).is(412, "has version 2");
    service.ask("PUT", &address, "If-Match: \"2\"\r\n", &changed).is(204, "");
    service.ask("GET", &address, "", "").is(200, r#""body":{"a": 2}"#);

    // What refers to nothing, and what others refer to.
    let lost = json!({"identity": "b", "references": [3, "nobody"], "body": {}});
    let missing = service.post(kind, &lost).is(409, "no document has the identity");
    assert_eq!(serde_json::from_str::<Value>(&missing.body).unwrap()["missing"], json!(["nobody"]));
    let other = json!({"identity": "a name", "body": {}});
    service.post("/data/resource-2", &other).is(409, "of a document of resource-1");
    let upon = json!({"identity": "c", "references": ["a name"], "body": {}});
    service.post(kind, &upon).is(201, "");
    service.ask("DELETE", &address, "", "").is(409, "other documents refer to it");
    let without = json!({"identity": "c", "references": [], "body": {}});
    service.post(kind, &without).is(200, "");
    service.ask("DELETE", &address, "", "").is(204, "");
    service.ask("DELETE", &address, "", "").is(404, "no such document");
    service.ask("GET", &address, "", "").is(404, "no such document");

    // What is no request for a document.
    service.ask("POST", kind, "", "{\"identity\": 1").is(400, "send {");
    service.ask("POST", kind, "", "[17, [], {}]").is(400, "a document is an object");
    let long = json!({"identity": "d", "body": {"text": "x".repeat(2000)}});
    service.post(kind, &long).is(413, "longer than 2000 bytes");
    service.post("/data/nothing", &document).is(404, "there is no resource nothing");
    service.ask("GET", "/elsewhere", "", "").is(404, "/healthz");
    service.ask("PATCH", kind, "", "").is(405, "");

    // For those who run it.
    service.ask("GET", "/healthz", "", "").is(200, "ok");
    let metrics = service.ask("GET", "/metrics", "", "").is(200, "# EOF").body;
    let counted = r#"requests_total{method="POST",route="/data/{resource}",status="409"} 2"#;
    assert!(metrics.contains(counted), "{metrics}");
    let log = fs::read_to_string(place.path("service.log")).unwrap();
    let of_refused = |line: &&str| line.contains("DELETE") && line.contains("status=404");
    assert_eq!(log.lines().filter(of_refused).count(), 1, "{log}");
    let listen = service.address.to_string();
    place.run(&["documents", "serve", "--dsn", &dsn, "--listen", &listen]).refuses(&[
        "cannot listen on",
        &listen,
        "give another with --listen",
    ]);
    let nobody = ["documents", "serve", "--listen=127.0.0.1:0", "--dsn=postgres://x@127.0.0.1:1/x"];
    place.run(&nobody).refuses(&["the server: it cannot be reached"]);

    // A document whose sender is slow is written before the service ends.
    let document = json!({"identity": "late", "body": {}}).to_string();
    let mut stream = TcpStream::connect(service.address).unwrap();
    let length = document.len();
    write!(
        stream,
        "POST {kind} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    )
    .unwrap();
    let mut answer = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    assert!(line.contains("100 Continue"), "{line}");
    answer.read_line(&mut line).unwrap();
    let child = service.child.take().unwrap();
    signal(child.id(), libc::SIGTERM);
    until("nobody new is taken", || TcpStream::connect(service.address).is_err());
    stream.write_all(document.as_bytes()).unwrap();
    Answer::read(answer).is(201, "\"version\":1");
    finish(child).code(0);
    assert_eq!(host.ask("postgres", "SELECT count(*)::text FROM document WHERE body = '{}'"), "2");
}

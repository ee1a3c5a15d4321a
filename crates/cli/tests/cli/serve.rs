//! The lab in a browser, as the command line starts it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use walwright_wire::{ConnectOptions, Connector, Host as At, Secret};

use crate::common::{Host, PASSWORD, Place, finish, said, signal, until};

/// A site that the command line has started.
struct Served {
    child: Child,
    address: String,
    token: String,
}

impl Served {
    fn start(place: &Place, args: &[&str]) -> Served {
        let log = place.path("serve.log");
        let words = [&["serve", "--listen=127.0.0.1:0"], args].concat();
        let said = std::fs::File::create(&log).unwrap();
        let child = place.command(&words).stderr(Stdio::from(said)).spawn().unwrap();
        let mut at = None;
        until("the site listens", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            at = text.split("http://").nth(1).and_then(|rest| {
                let (address, rest) = rest.split_once('/')?;
                Some((address.to_owned(), rest.split_once(';')?.0.replace("?token=", "")))
            });
            at.is_some()
        });
        let (address, token) = at.unwrap();
        Served { child, address, token }
    }

    /// The status and the rest of an answer.
    fn ask(&self, request: &str, form: &str) -> (u16, String) {
        self.ask_with(&format!("Authorization: Bearer {}\r\n", self.token), request, form)
    }

    /// The same with these lines in the head.
    fn ask_with(&self, more: &str, request: &str, form: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\
             Content-Length: {}\r\n\r\n{form}",
            self.address,
            form.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), answer)
    }
}

#[test]
fn what_is_started_from_a_page_is_seen_there_and_ends_with_the_site() {
    let place = Place::new();
    place.run(&["serve"]).refuses(&["there is no lab in", "walwright run", "--lab"]);
    drop(walwright_store::Lab::at(Some(place.path("lab"))).store().unwrap());
    let served = Served::start(&place, &["--allow-actions"]);
    let taken = format!("--listen={}", served.address);
    place.run(&["serve", &taken]).refuses(&["another process listens there", "--listen"]);

    let form =
        "workload=tpcb&clients=2&seconds=600&label=from+a+page&settings=shared_buffers%3Dnonsense";
    let (status, answer) = served.ask("POST /jobs/run", form);
    assert_eq!(status, 303, "{answer}");
    // What cannot be is started says why on its page.
    until("it fails", || served.ask("GET /jobs/1", "").1.contains("It failed with exit code"));
    let (_, page) = served.ask("GET /jobs/1", "");
    assert!(page.contains("nonsense"), "{page}");

    let form = "workload=tpcb&clients=2&seconds=600&label=from+a+page";
    let (status, answer) = served.ask("POST /jobs/run", form);
    assert!(status == 303 && answer.contains("location: /jobs/2"), "{answer}");
    until("it is measured", || {
        let (_, page) = served.ask("GET /runs/latest", "");
        let at = page.lines().find_map(|line| line.strip_prefix("location: "));
        let (_, page) = served.ask(&format!("GET {}", at.unwrap_or("/")), "");
        page.contains("It is at: measure")
    });
    until("the run is linked", || served.ask("GET /jobs/2", "").1.contains("href=\"/runs/2"));
    // Who may act notes something of the run that goes on, and may stop it; others only look.
    let run = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let at = format!("GET /runs/{run}");
    let (_, page) = served.ask(&at, "");
    assert!(page.contains("action=\"/jobs/2/stop\"") && page.contains("/note\""), "{page}");
    let (status, page) = served.ask_with("", &at, "");
    assert!(status == 200 && !page.contains("<form"), "{page}");
    let note = format!("POST /runs/{run}/note");
    assert_eq!(served.ask(&note, "note=a+vacuum+began").0, 303);
    assert_eq!(served.ask(&note, "note=a+vacuum+ends&at=5000").0, 400);
    assert_eq!(served.ask_with("", &note, "note=a+stranger").0, 403);
    place.run(&["runs", "note", "latest", "the cache was turned off"]).code(0);
    place.run(&["runs", "note", "latest", "later", "--at", "1h"]).refuses(&["no moment of run"]);
    signal(served.child.id(), libc::SIGTERM);
    finish(served.child).code(0);
    let kept = place.run(&["runs", "export"]).code(0).out();
    assert!(kept.contains("the cache was turned off"), "{kept}");
    assert!(kept.contains("a vacuum began") && !kept.contains("a vacuum ends"), "{kept}");
    let runs = place.runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["label"]),
        (&"interrupted".into(), &"from a page".into())
    );
    place.assert_clean();
}

#[test]
fn a_gateway_is_shown_with_those_who_use_it() {
    let (place, host) = (Place::new(), Host::new());
    drop(walwright_store::Lab::at(Some(place.path("lab"))).store().unwrap());
    let log = std::fs::File::create(place.path("gateway.log")).unwrap();
    let dsn = host.superuser("postgres");
    let words = ["gateway", "--server", &dsn, "--listen=127.0.0.1:0", "--metrics=127.0.0.1:0"];
    let gateway = place.command(&words).stderr(Stdio::from(log)).spawn().unwrap();
    let port = said(&place, "gateway.log", "listening on 127.0.0.1:", '\n');
    let metrics = said(&place, "gateway.log", "metrics at ", '\n');
    let served = Served::start(&place, &[&format!("--gateway={metrics}")]);
    let at = At::Tcp("127.0.0.1".to_owned());
    let mut options = ConnectOptions::new(at, port.parse().unwrap(), "postgres", "postgres");
    options.password = Some(Secret::new(PASSWORD));
    let mut client = Connector::new(options).and_then(|connector| connector.connect()).unwrap();
    client.query("CREATE TEMPORARY TABLE t (a integer)").unwrap();
    until("its pool and its pin are shown", || {
        client.query("INSERT INTO t VALUES (1)").unwrap();
        let (status, page) = served.ask("GET /gateway", "");
        assert_eq!(status, 200, "{page}");
        ["<td>postgres</td>", "temporary", "data-live"].iter().all(|word| page.contains(word))
    });
    signal(gateway.id(), libc::SIGTERM);
    drop(client);
    finish(gateway).code(0);
    until("it is told that it is gone", || {
        served.ask("GET /gateway", "").1.contains("cannot be read: Connection refused")
    });
    signal(served.child.id(), libc::SIGTERM);
    finish(served.child).code(0);
}

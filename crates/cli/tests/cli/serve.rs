//! The lab in a browser, as the command line starts it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Place, finish, signal, until};

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
                Some((address.to_owned(), rest.split(';').next()?.replace("?token=", "")))
            });
            at.is_some()
        });
        let (address, token) = at.unwrap();
        Served { child, address, token }
    }

    /// The status and the rest of an answer.
    fn ask(&self, request: &str, form: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n{form}",
            self.address,
            self.token,
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
    signal(served.child.id(), libc::SIGTERM);
    finish(served.child).code(0);
    let runs = place.runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["label"]),
        (&"interrupted".into(), &"from a page".into())
    );
    place.assert_clean();
}

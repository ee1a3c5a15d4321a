//! A run that another process writes, watched.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use walwright_record::RunState;

use crate::fixture::{Rules, Served, begin, head, lab, record};

/// A viewer.
struct Viewer(BufReader<TcpStream>);

impl Viewer {
    fn of(served: &Served, path: &str) -> Viewer {
        let mut stream = served.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head = head(&mut reader);
        assert!(head.contains("text/event-stream"), "{head}");
        Viewer(reader)
    }

    /// Reads on until something of this name is told; gives what; `None` when nothing comes
    /// any more.
    fn told(&mut self, name: &str) -> Option<String> {
        let mut is_meant = false;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                is_meant = event.trim_end() == name;
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_meant) {
                return Some(data.trim_end().to_owned());
            }
        }
    }
}

#[test]
fn a_run_is_seen_while_it_is_written_and_its_report_when_it_has_ended() {
    let lab = lab();
    let record = record("20260922-000000-abc", Some("live"), 100);
    let mut writer = begin(lab.path(), &record);
    for interval in &record.intervals[..10] {
        writer.interval(interval).unwrap();
    }
    let served = Served::start(lab.path(), Rules::default());
    let page = served.get("/runs/20260922-000000-abc");
    let text = page.text();
    assert!(text.contains("run under way"), "{text}");
    assert!(text.contains("data-live=\"/runs/20260922-000000-abc/events\""), "{text}");
    let mut viewers: Vec<Viewer> =
        (0..3).map(|_| Viewer::of(&served, "/runs/20260922-000000-abc/events")).collect();
    for viewer in &mut viewers {
        assert!(viewer.told("series").is_some());
    }
    for interval in &record.intervals[10..] {
        writer.interval(interval).unwrap();
    }
    for viewer in &mut viewers {
        assert!(viewer.told("series").is_some());
    }
    writer.finish(RunState::Complete, record.window().unwrap().end, None).unwrap();
    for viewer in &mut viewers {
        assert_eq!(viewer.told("end").as_deref(), Some("{}"));
        assert_eq!(viewer.told("series"), None, "nothing comes after the end");
    }
    let text = served.get("/runs/20260922-000000-abc").text();
    assert!(text.contains("run report") && !text.contains("data-live"), "{text}");
}

#[test]
fn the_end_of_the_site_does_not_wait_for_viewers() {
    let lab = lab();
    let record = record("20260922-000000-abc", None, 100);
    let _writer = begin(lab.path(), &record);
    let mut served = Served::start(lab.path(), Rules::default());
    let mut viewer = Viewer::of(&served, "/runs/20260922-000000-abc/events");
    assert!(viewer.told("page").is_some());
    // Its patience is longer than the test's.
    served.end();
    assert_eq!(viewer.told("page"), None);
}

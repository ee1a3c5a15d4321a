//! Nothing is told or done that was not asked for by whom it is for.

use std::io::{Read, Write};

use walwright_record::Event;
use walwright_store::Store;

use crate::fixture::{Rules, Served, TOKEN, keep, lab, record};

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover=\"a()";

#[test]
fn a_name_that_somebody_else_pointed_here_is_not_answered() {
    let lab = lab();
    let served = Served::start(lab.path(), Rules::default());
    let port = served.address.port();
    let asked = |host: &str| {
        served.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "LAB.example.com".to_owned(),
        "[::1]:9000".to_owned(),
    ] {
        assert_eq!(asked(&host), 200, "{host}");
    }
    for host in [
        format!("evil.example:{port}"),
        "localhost.evil.example".to_owned(),
        format!("127.0.0.1.evil.example:{port}"),
        String::new(),
    ] {
        assert_eq!(asked(&host), 421, "{host}");
    }
    let twice =
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(served.send(twice).status, 421);
    let none = "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(served.send(none).status, 421);
}

#[test]
fn a_page_of_another_site_reads_and_does_nothing() {
    let lab = lab();
    let served = Served::start(lab.path(), Rules { actions: true, ..Rules::default() });
    let own = format!("Origin: http://{}\r\n", served.address);
    let other_port = "Origin: http://127.0.0.1:1\r\n";
    for foreign in ["Origin: http://evil.example\r\n", "Origin: null\r\n", other_port] {
        assert_eq!(served.get_with("/", foreign).status, 403, "{foreign}");
    }
    assert_eq!(served.get_with("/", &own).status, 200);

    let entered = served.get(&format!("/?token={TOKEN}"));
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let post = |headers: &str| served.post("/jobs/run", &format!("{cookie}{headers}"), "").status;
    // A browser that sends the cookie all the same, from a page elsewhere.
    assert_eq!(post("Origin: http://evil.example\r\n"), 403);
    assert_eq!(post(other_port), 403);
    assert_eq!(post("Origin: null\r\n"), 403);
    assert_eq!(post(""), 403);
    assert_eq!(post(&format!("{own}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(post(&format!("{own}Sec-Fetch-Site: same-site\r\n")), 403);
    // The same from a page of the site is looked at, and wants a workload.
    assert_eq!(post(&format!("{own}Sec-Fetch-Site: same-origin\r\n")), 400);
}

#[test]
fn nothing_is_done_without_the_token() {
    let lab = lab();
    keep(lab.path(), &record("20260922-000000-abc", None, 100));
    let (open, closed) = (
        Served::start(lab.path(), Rules { actions: true, ..Rules::default() }),
        Served::start(lab.path(), Rules::default()),
    );
    for path in [
        "/jobs/run",
        "/jobs/prove",
        "/jobs/1/stop",
        "/runs/20260922-000000-abc/label",
        "/runs/20260922-000000-abc/note",
    ] {
        let own = |served: &Served| format!("Origin: http://{}\r\n", served.address);
        let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
        assert_eq!(open.post(path, &own(&open), "label=x").status, 401, "{path}");
        let wrong = bearer("another-token-that-is-long");
        assert_eq!(open.post(path, &wrong, "label=x").status, 401, "{path}");
        let guessed = format!("{}Cookie: walwright-{}=x\r\n", own(&open), open.address.port());
        assert_eq!(open.post(path, &guessed, "label=x").status, 401, "{path}");
        // Started without --allow-actions, nobody may.
        assert_eq!(closed.post(path, &bearer(TOKEN), "label=x").status, 403, "{path}");
    }
    let kept = Store::open(lab.path()).unwrap().find("latest").unwrap();
    assert_eq!(kept.label, None);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let answered = open.post("/runs/20260922-000000-abc/label", &right, "label=after+the+fix");
    assert_eq!(answered.status, 303, "{}", answered.text());
    let kept = Store::open(lab.path()).unwrap().find("latest").unwrap();
    assert_eq!(kept.label.as_deref(), Some("after the fix"));
}

#[test]
fn where_reading_needs_the_token_it_comes_once_in_the_address_and_then_in_a_cookie() {
    let lab = lab();
    let served = Served::start(lab.path(), Rules { reading: true, ..Rules::default() });
    for path in ["/", "/journal", "/runs/latest", "/assets/page.css", "/nowhere"] {
        let reply = served.get(path);
        assert_eq!(reply.status, 401, "{path}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(served.get("/?token=another-token-that-is-long").status, 401);
    let entered = served.get(&format!("//evil.example/?q=a+b&token={TOKEN}"));
    assert_eq!(entered.status, 303);
    // Neither the token stays in the address, nor does the way lead elsewhere.
    assert_eq!(entered.header("location"), Some("/evil.example/?q=a+b"));
    let cookie = entered.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let held = format!("Cookie: other=1; {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(served.get_with("/", &held).status, 200);
    assert_eq!(served.get_with("/", &format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
}

#[test]
fn no_path_leads_out_of_the_lab() {
    let lab = lab();
    std::fs::write(lab.path().join("secret"), "SECRET").unwrap();
    std::fs::create_dir_all(lab.path().join("experiments/x")).unwrap();
    std::fs::write(lab.path().join("experiments/x/header.json"), "SECRET").unwrap();
    let served = Served::start(lab.path(), Rules::default());
    let up = "..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd";
    for place in ["", "runs/", "experiments/", "tunes/", "assets/", "journal/"] {
        for name in ["../../../../../../etc/passwd", up, "..%2fsecret", "..", "%00", "secret", "x"]
        {
            let reply = served.get(&format!("/{place}{name}"));
            assert_ne!(reply.status, 200, "/{place}{name}");
            let text = reply.text();
            assert!(!text.contains("root:") && !text.contains("SECRET"), "{text}");
        }
    }
    assert_ne!(served.get(&format!("/compare?run={up}&run={up}")).status, 200);
}

#[test]
fn hostile_words_are_text_on_every_page() {
    let lab = lab();
    let mut hostile = record("20260922-000000-abc", Some(HOSTILE), 100);
    hostile.header.workload = HOSTILE.to_owned();
    hostile.header.command = format!("walwright run -l '{HOSTILE}'");
    keep(lab.path(), &hostile);
    keep(lab.path(), &record("20260922-000001-abd", Some(HOSTILE), 90));
    let at = hostile.window().unwrap().start;
    let note = Event { at, kind: "note".to_owned(), text: HOSTILE.to_owned() };
    Store::open(lab.path()).unwrap().add_event(&hostile.header.id, &note).unwrap();
    let served = Served::start(lab.path(), Rules::default());
    let query: String = "%22%3E%3Cscript%3Ealert(3)%3C/script%3E".to_owned();
    for path in [
        "/".to_owned(),
        format!("/?q={query}&order={query}"),
        "/runs/20260922-000000-abc".to_owned(),
        format!("/runs/{query}"),
        "/compare?run=20260922-000000-abc&run=20260922-000001-abd".to_owned(),
        format!("/compare?run={query}&run={query}"),
        format!("/experiments/{query}"),
        format!("/{query}"),
    ] {
        let reply = served.get(&path);
        let text = reply.text();
        for wrong in ["<script>", "<img", "\" onmouseover"] {
            assert!(!text.contains(wrong), "{path}: {wrong}: {text}");
        }
        // Whatever slipped through would not be executed.
        let policy = reply.header("content-security-policy").unwrap();
        let scripts = policy.split(';').find(|part| part.trim().starts_with("script-src"));
        assert_eq!(scripts.map(str::trim), Some("script-src 'self'"), "{policy}");
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
    let page = served.get("/runs/20260922-000000-abc").text();
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
}

#[test]
fn a_request_is_of_bounded_size_and_time() {
    let lab = lab();
    let served = Served::start(lab.path(), Rules { actions: true, ..Rules::default() });
    let long = format!("X-Long: {}\r\n", "x".repeat(1 << 20));
    // It may be cut off while it still sends.
    let mut stream = served.connect();
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\n{long}\r\n", served.address);
    _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));

    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let form = format!("label={}", "x".repeat(100_000));
    assert_eq!(served.post("/runs/latest/label", &right, &form).status, 413);

    // Who says nothing more is not waited for.
    let mut silent = served.connect();
    silent.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    assert_eq!(served.get("/").status, 200);
}

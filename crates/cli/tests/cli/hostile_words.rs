//! A server, a script or a name may hold what a terminal acts on. None of it gets there.

use std::fs;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

use crate::common::{Host, Place, SHORT};

/// Renames a window, paints, clears the screen (as C1), goes back to the line's beginning, and
/// turns the order of letters around. As long as a name can be with more before it.
const HOSTILE: &str = "\u{1b}]0;t\u{7}\u{1b}[31mR\u{9b}2J\r\u{202e}x\u{200b}\u{7f}\u{1b}[8m";

/// The same as a part of a URL.
fn in_url() -> String {
    HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A server whose names are hostile, and a place with a script that is.
struct Visit {
    host: Host,
    place: Place,
    dsn: String,
}

impl Visit {
    fn new() -> Visit {
        let (host, place) = (Host::new(), Place::new());
        let quoted = |name: &str| format!("\"{name}{HOSTILE}\"");
        host.execute(
            "postgres",
            &format!(
                "CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'seven-Herons-12'",
                role = quoted("r")
            ),
        );
        host.execute("postgres", &format!("CREATE DATABASE {}", quoted("d")));
        let database = format!("d{HOSTILE}");
        host.execute(
            &database,
            &format!(
                "CREATE TABLE {table} (id int PRIMARY KEY, {column} int);
                 CREATE INDEX {index} ON {table} ({column});
                 INSERT INTO {table} SELECT i, i FROM generate_series(1, 100) i",
                table = quoted("t"),
                column = quoted("c"),
                index = quoted("i"),
            ),
        );
        let url = in_url();
        let dsn = host.dsn(&format!("r{url}"), "seven-Herons-12", &format!("d{url}"));
        Visit { host, place, dsn }
    }

    fn script(&self, name: &str, sql: &str) -> String {
        self.place.file(&format!("{name}{HOSTILE}.sql"), sql)
    }
}

/// What is sent, less what this tool sends itself: colours, and the erasing of a line.
fn foreign(sent: &str, painted: bool) -> String {
    let mut text = sent.replace("\r\n", "\n");
    if painted {
        text = text.replace("\r\u{1b}[K", "");
        let codes = ["0", "1", "2", "31", "32", "33", "34", "35", "36"];
        let codes = codes.iter().flat_map(|code| [(*code).to_owned(), format!("1;{code}")]);
        for code in codes {
            // A colour of someone else's is followed by this letter.
            text = text.replace(&format!("\u{1b}[{code}mR"), "\u{1b}FOREIGN");
            text = text.replace(&format!("\u{1b}[{code}m"), "");
        }
    }
    let acts = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202e}' | '\u{200b}')
    };
    text.chars().filter(acts).collect()
}

/// Fails where a command sent anything to its output that a terminal acts on. Gives the text.
#[track_caller]
fn harmless(what: &str, sent: &[u8], painted: bool) -> String {
    let text = String::from_utf8(sent.to_vec()).expect("UTF-8");
    let foreign = foreign(&text, painted);
    assert!(foreign.is_empty(), "{what} sends {foreign:?} in\n{text:?}");
    text
}

/// Runs a command to its end on a terminal of its own, and gives what it sent there.
fn on_a_terminal(mut command: Command) -> Vec<u8> {
    let (mut master, mut slave) = (0, 0);
    // SAFETY: writes two descriptors, and reads no names or sizes where none are given.
    let made = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(made, 0, "a terminal");
    // SAFETY: both were just opened, and nobody else has them.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let copy = || Stdio::from(slave.try_clone().expect("a copy"));
    command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "xterm-256color");
    let mut child = command.spawn().expect("spawned");
    // With the child's copies the last ones end, and so does reading.
    drop((command, slave));
    let mut sent = Vec::new();
    // A terminal without a writer is an error to read.
    let _ = fs::File::from(master).read_to_end(&mut sent);
    child.wait().expect("ended");
    sent
}

#[test]
fn nothing_a_server_or_a_script_says_acts_on_a_terminal() {
    let visit = Visit::new();
    let place = &visit.place;
    let dsn = visit.dsn.as_str();
    let good = visit
        .script("good", &format!("UPDATE \"t{HOSTILE}\" SET \"c{HOSTILE}\" = 2 WHERE id = 1;\n"));
    let raises = visit.script(
        "raises",
        &format!(
            "DO $$ BEGIN RAISE EXCEPTION 'no {HOSTILE}' USING HINT = 'hint {HOSTILE}'; END $$;\n"
        ),
    );
    let wrong = visit.script("wrong", &format!("\\set{HOSTILE} x\n"));
    let profile =
        place.file("p.env", &format!("shared_buffers=1GB{HOSTILE}\nwork_mem{HOSTILE}=1\n"));

    let label = format!("l{HOSTILE}");
    let run = |file: &str| {
        let mut args = vec!["run", "--dsn", dsn, "--file", file, "--label", &label, "-vv"];
        args.extend(SHORT.iter().filter(|flag| !flag.contains("load-jobs")));
        place.run(&args)
    };
    let mut shown = String::new();
    for file in [&good, &good, &raises] {
        let done = run(file);
        shown.push_str(&harmless("run", done.err().as_bytes(), false));
        shown.push_str(&harmless("run", done.out().as_bytes(), false));
    }
    let nobody = visit.host.superuser(&format!("nobody{}", in_url()));
    let stranger = visit.host.dsn(&format!("stranger{}", in_url()), "x", "postgres");
    let runs: Vec<String> = place.runs().iter().map(|run| run["id"].to_string()).collect();
    let runs: Vec<&str> = runs.iter().map(|id| id.trim_matches('"')).collect();
    let hostile_lab = place.path(&format!("lab{HOSTILE}")).display().to_string();
    let commands: Vec<Vec<&str>> = vec![
        vec!["record", "--dsn", dsn, "--for", "2s", "--plain", "--label", &label],
        vec!["record", "--dsn", dsn, "--for", "1s", "--client-log", &wrong],
        vec!["record", "--dsn", dsn, "--", HOSTILE],
        vec!["run", "--plain", "--dsn", dsn, "--file", &wrong],
        vec!["run", "--plain", "--dsn", &nobody],
        vec!["record", "--dsn", &stranger, "--for", "1s"],
        vec!["run", "--clients", HOSTILE],
        vec![HOSTILE],
        vec!["--lab", &hostile_lab, "runs"],
        vec!["runs"],
        vec!["runs", "--json"],
        vec!["show", HOSTILE],
        vec!["show", "latest"],
        vec!["show", "latest", "--json"],
        vec!["diagnose", "latest"],
        vec!["diagnose", "latest", "--json"],
        vec!["commit", "latest"],
        vec!["compare", runs[0], runs[1]],
        vec!["report", "latest"],
        vec!["export", "latest"],
        vec!["export", "latest", "--list"],
        vec!["export", "latest", "--series", "tables"],
        vec!["export", "latest", "--series", "statements"],
        vec!["export", "latest", "--series", "statements", "--json"],
        vec!["review", "--dsn", dsn],
        vec!["review", "latest"],
        vec!["config", "check", "--dsn", dsn],
        vec!["config", "check", &profile],
        vec!["journal", "add", "--question", &label, "--notes", HOSTILE],
        vec!["journal"],
        vec!["journal", "show", "latest"],
        vec!["pg", "doctor"],
    ];
    for args in &commands {
        let what = format!("{args:?}");
        let done = place.run(args);
        for sent in [done.out(), done.err()] {
            shown.push_str(&harmless(&what, sent.as_bytes(), false));
        }
        let painted = [args.as_slice(), &["--color", "always"]].concat();
        if !args.contains(&"--") && !args.contains(&"record") {
            harmless(&what, place.run(&painted).out().as_bytes(), true);
            shown.push_str(&harmless(&what, &on_a_terminal(place.command(args)), true));
        }
    }
    // The live view has sequences of its own.
    let live = on_a_terminal(place.command(&["record", "--dsn", dsn, "--for", "2s"]));
    let live = String::from_utf8(live).expect("UTF-8");
    assert!(live.contains("\u{1b}[?1049h"), "the live view was shown: {live:?}");
    for hostile in ["\u{1b}]", "\u{9b}", "\u{202e}", "\u{200b}", "\u{1b}[8m", "\u{1b}[31mR"] {
        assert!(!live.contains(hostile), "{hostile:?} in {live:?}");
    }
    // All of these came through, for eyes only.
    for words in
        [r"t\x1b]0;t\x07\x1b[31mR\x9b2J\x0d\u202ex", r#"database "nobody\x1b"#, r"no \x1b]0;"]
    {
        assert!(shown.contains(words), "{words}");
    }
}

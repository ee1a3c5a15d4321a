//! Servers that misbehave, or something before them that does: a few of the cases of
//! `hostile-server` in `bench/`, so that they stay as they are.

#[path = "../../../../bench/src/hostile.rs"]
#[allow(dead_code)]
mod hostile;

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Host, PASSWORD, Place, finish};
use hostile::{Hostile, Misdeed, Moment, Strike, Which};

/// Longest that walwright waits for one answer, for the server to end a query, and later
/// than that; and as much again for a machine that is busy with other tests.
const IN_TIME: Duration = Duration::from_secs(2 * (15 + 2 + 5));
/// Peak resident memory that is promised, in kB.
const PEAK: u64 = 100_000;

/// What is expected of a command on a server that misbehaves.
#[derive(Clone, Copy)]
enum Expected {
    /// An error that says this.
    Error(&'static str),
    /// A record that says this of what it lacks.
    Warned(&'static str),
    /// The one or the other.
    Either,
}

use Expected::{Either, Error, Warned};

type Case = (Misdeed, Moment, Which, Expected);

/// The command on a server that misbehaves so: that it ends in time, in little memory and
/// with what is expected.
fn assert_ends(place: &Place, socket: &Path, number: usize, arguments: &[&str], case: Case) {
    let (misdeed, moment, which, expected) = case;
    let strike = Strike { misdeed, moment, which, seed: number as u64 };
    let hostile = Hostile::before(socket, Some(strike)).unwrap();
    let dsn = format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres sslmode=disable connect_timeout=2",
        hostile.port()
    );
    let lab = place.path(&format!("lab-{number}"));
    let said = place.path(&format!("said-{number}"));
    let mut command: Command = place.command(&[arguments, &["--plain", "--dsn", &dsn]].concat());
    command.env("WALWRIGHT_LAB", lab).env("PGPASSWORD", PASSWORD);
    let file = File::create(&said).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let begun = Instant::now();
    let child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let ending = std::thread::spawn(move || finish(child));
    let mut peak = 0;
    while !ending.is_finished() {
        peak = peak.max(highest(&status).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = begun.elapsed();
    let ended = ending.join().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    let told = format!("{arguments:?} {strike:?} after {took:?}:\n{said}");
    assert!(hostile.struck().is_some(), "it never came to it: {told}");
    assert!(took < IN_TIME, "{told}");
    assert!(peak < PEAK, "{peak} kB: {told}");
    assert!(!said.contains("panicked") && !said.contains("internal fault"), "{told}");
    let code = ended.exit_code();
    match expected {
        Error(words) => {
            assert!(code == Some(1) && errors == 1 && said.contains(words), "{words}: {told}");
        }
        Warned(words) => {
            assert!(code == Some(0) && errors == 0 && said.contains(words), "{words}: {told}");
        }
        Either => assert!(code.is_some_and(|code| errors == usize::from(code == 1)), "{told}"),
    }
}

/// The highest resident memory so far, in kB.
fn highest(status: &str) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    // Until it is walwright, a child shows the memory of this process.
    status.lines().find(|line| *line == "Name:\twalwright")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn assert_all_end(arguments: &[&str], cases: &[Case]) {
    let (place, host) = (Place::new(), Host::new());
    let script = place.file("one.sql", "SELECT 1;\n");
    let socket = host.socket_dir().join(format!(".s.PGSQL.{}", host.port()));
    let given: Vec<&str> = arguments
        .iter()
        .map(|word| if *word == "SCRIPT" { script.as_str() } else { word })
        .collect();
    // At once, since most of their time is waiting.
    std::thread::scope(|scope| {
        for (number, case) in cases.iter().enumerate() {
            let (place, socket, given) = (&place, &socket, &given);
            scope.spawn(move || assert_ends(place, socket, number, given, *case));
        }
    });
}

#[test]
fn a_record_of_a_hostile_server_ends_in_time_in_little_memory_and_says_why() {
    use Misdeed::*;
    let all = Which::From(1);
    // The second is the control session, the fourth and fifth are the probe's.
    assert_all_end(
        &["record", "--for", "2s"],
        &[
            (Silent, Moment::Start, all, Error("no answer within 2 s")),
            (Announced, Moment::Bytes(500), all, Error("a message of 2047 MB")),
            (Rows, Moment::Bytes(9_000), all, Error("takes more than 40 MB")),
            (Settings, Moment::Login, Which::From(2), Error("takes more than 40 MB")),
            (Half, Moment::Bytes(700), all, Error("half a message and closed")),
            (Fuzzed, Moment::Login, all, Either),
            (
                Silent,
                Moment::Bytes(4_000),
                Which::From(5),
                Warned("the server answered no reading"),
            ),
            (
                Reset,
                Moment::Bytes(9_000),
                Which::From(4),
                Warned("the probe's connection was lost"),
            ),
        ],
    );
}

#[test]
fn a_run_on_a_hostile_server_ends_in_time_in_little_memory_and_says_why() {
    use Misdeed::*;
    let all = Which::From(1);
    assert_all_end(
        &["run", "--file", "SCRIPT", "-c", "2", "-T", "1s", "--warmup", "0s"],
        &[
            (Silent, Moment::Bytes(2_000), all, Error("no answer within 15 s")),
            (Garbage, Moment::Login, all, Either),
            (WideRows, Moment::Bytes(0), all, Either),
            (Fuzzed, Moment::Bytes(3_000), Which::From(4), Either),
        ],
    );
}

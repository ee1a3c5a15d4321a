//! Who is who in a load that is not ours. pgbench under another name is an application that
//! nobody has heard of; how much of its time is its own is up to its script.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use walwright_server::Major;

use crate::common::{Host, Place, install};

/// A transaction that computes for long before it asks for next to nothing.
const THINKS: &str = "SELECT 1;\n";
/// A transaction that the server works for.
const ASKS: &str = "SELECT count(*) FROM generate_series(1, 60000);\n";

struct Testbed {
    place: Place,
    host: Host,
    pgbench: PathBuf,
    libraries: Vec<(String, String)>,
}

impl Testbed {
    fn new() -> Testbed {
        let command = install(Major::V18).command("pgbench");
        let text = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
        let libraries =
            command.get_envs().filter_map(|(name, value)| Some((text(name)?, text(value?)?)));
        let (libraries, pgbench) = (libraries.collect(), PathBuf::from(command.get_program()));
        Testbed { place: Place::new(), host: Host::new(), pgbench, libraries }
    }

    /// Runs a program, which is pgbench, until what is returned goes.
    fn starts(&self, program: &Path, host: &str, script: &str) -> Busy {
        let mut command = Command::new(program);
        self.surround(&mut command, host);
        command.args(["-n", "-c", "4", "-j", "2", "-T", "300", "-f", script]);
        Busy(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("spawn"))
    }

    fn surround(&self, command: &mut Command, host: &str) {
        command.envs(self.libraries.clone()).env("PGHOST", host);
        command
            .env("PGPORT", self.host.port().to_string())
            .env("PGPASSWORD", crate::common::PASSWORD);
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
    }

    /// Records for a while; the record, and what is diagnosed from it.
    fn record(&self, more: &[&str]) -> (Value, Value) {
        let dsn = self.host.superuser("postgres");
        let args = [&["record", "--dsn", &dsn, "--plain", "--json"], more].concat();
        let mut command = self.place.command(&args);
        self.surround(&mut command, "127.0.0.1");
        crate::common::finish(command.spawn().expect("spawn")).code(0);
        let record = self.place.run(&["export", "latest"]).code(0).json();
        (record, self.place.run(&["diagnose", "latest", "--json"]).code(0).json())
    }
}

/// A process that ends when it is dropped.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rows of process groups that begin like this.
fn rows<'a>(record: &'a Value, group: &str) -> Vec<&'a Value> {
    let samples = record["samples"]["neighbours"].as_array().expect("samples of processes");
    let rows = samples.iter().flat_map(|sample| sample["rows"].as_array().unwrap());
    rows.filter(|row| row["process_group"] == group).collect()
}

fn finding<'a>(diagnosis: &'a Value, id: &str) -> Option<&'a Value> {
    diagnosis["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

#[test]
fn applications_are_known_by_their_connections_and_said_to_be_the_limit_when_they_are() {
    let _alone = crate::alone();
    let testbed = Testbed::new();
    let shop = testbed.place.path("shop");
    symlink(&testbed.pgbench, &shop).expect("symlink");
    let computing = "\\set x random_zipfian(1, 1000000, 1.5)\n".repeat(400);
    let thinks = testbed.place.file("thinks.sql", &format!("{computing}{THINKS}"));
    let asks = testbed.place.file("asks.sql", ASKS);

    // By TCP, and it takes the CPU.
    let application = testbed.starts(&shop, "127.0.0.1", &thinks);
    let (record, diagnosis) = testbed.record(&["--for", "5s"]);
    drop(application);
    let connected = |row: &&Value| row["connected"] == 1;
    assert!(rows(&record, "application: shop").iter().any(connected), "{record:#}");
    assert!(rows(&record, "other: shop").is_empty());
    let told = record["events"].as_array().unwrap().iter().filter(|e| e["kind"] == "process");
    let told: Vec<&str> = told.map(|event| event["text"].as_str().unwrap()).collect();
    assert!(matches!(told[..], [text] if text.starts_with("shop (PID ")), "{told:?}");
    let found = finding(&diagnosis, "D53").unwrap_or_else(|| panic!("{diagnosis:#}"));
    let cause = found["cause"].as_str().unwrap();
    assert!(cause.contains("the application (shop) takes the CPU"), "{cause}");
    assert_eq!(finding(&diagnosis, "D54"), None);

    // By the unix socket, and the server does the work.
    let socket = testbed.host.socket_dir().display().to_string();
    let application = testbed.starts(&shop, &socket, &asks);
    let (record, diagnosis) = testbed.record(&["--for", "5s"]);
    drop(application);
    assert!(rows(&record, "application: shop").iter().any(connected), "{record:#}");
    assert_eq!(finding(&diagnosis, "D53"), None);
    assert_eq!(finding(&diagnosis, "D54"), None);

    // What a command runs is what generates the load, and a well-known generator is one.
    let program = testbed.pgbench.display().to_string();
    let load = ["-n", "-c", "4", "-j", "1", "-T", "5", "-f", &thinks];
    let (record, diagnosis) = testbed.record(&[&["--", &program][..], &load].concat());
    let generator = rows(&record, "load generator: pgbench");
    assert!(rows(&record, "application: pgbench").is_empty());
    let busiest: Vec<f64> =
        generator.iter().filter_map(|row| row["busiest_thread"].as_f64()).collect();
    assert!(!busiest.is_empty() && busiest.iter().all(|b| (0.0..1.2).contains(b)), "{busiest:?}");
    // How much of a processor its thread gets is up to this machine; what is said of it is not.
    match finding(&diagnosis, "D54") {
        Some(found) => {
            let cause = found["cause"].as_str().unwrap();
            assert!(cause.contains("the busiest thread of pgbench"), "{cause}");
            assert!(busiest.iter().any(|busy| *busy > 0.8), "{busiest:?}");
        }
        None => assert!(busiest.iter().any(|busy| *busy <= 0.8), "{busiest:?}"),
    }
}

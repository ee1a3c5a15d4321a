//! Experiments and tunes on an attached server: agreed to, refused, killed, gone on with, and
//! nothing of it left.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use walwright_server::{Cluster, ClusterSpec, ConnectParams, Major, Places, RunningCluster};

use crate::common::{Host, PASSWORD, Place, finish, install, signal, until, until_said};

const TUNER: &str = "quiet-Marmalade-31";

/// What an experiment may not leave changed: the file of `ALTER SYSTEM`, settings, schema.
const STATE: &str = "SELECT concat_ws(E'\\n',
    pg_read_file('postgresql.auto.conf'),
    (SELECT string_agg(concat(name, '=', setting, '/', sourceline, '/', pending_restart), ','
                       ORDER BY name) FROM pg_settings WHERE name !~ '^transaction'),
    (SELECT string_agg(concat(relname, reloptions), ',' ORDER BY relname) FROM pg_class
      WHERE relnamespace = 'public'::regnamespace))";

const SCRIPT: &str = "\\set id random(1, 100)\nUPDATE counter SET n = n + 1 WHERE id = :id;\n";

/// A plan on the tables of [`Host`]s here.
fn plan(blocks: u32, arms: &str) -> String {
    format!(
        "blocks = {blocks}\nseed = 5\n[workload]\nfiles = [\"count.sql\"]\n\
         [load]\nclients = 2\nduration = \"1s\"\nwarmup = \"1s\"\n{arms}"
    )
}

/// A server whose tables and settings a role of its own may change.
fn host() -> Host {
    let host = Host::new();
    host.execute("postgres", "CREATE DATABASE app");
    host.execute(
        "app",
        &format!(
            "CREATE ROLE tuner LOGIN PASSWORD '{TUNER}'; GRANT pg_monitor TO tuner;
             GRANT EXECUTE ON FUNCTION pg_read_file(text), pg_reload_conf() TO tuner;
             GRANT ALTER SYSTEM ON PARAMETER commit_delay, commit_siblings, wal_writer_delay TO tuner;
             CREATE TABLE counter (id int PRIMARY KEY, n bigint);
             INSERT INTO counter SELECT g, 0 FROM generate_series(1, 100) g;
             ALTER TABLE counter OWNER TO tuner; GRANT CREATE ON SCHEMA public TO tuner"
        ),
    );
    for setting in ["work_mem = '5MB'", "commit_siblings = 7"] {
        host.execute("postgres", &format!("ALTER SYSTEM SET {setting}"));
    }
    host.execute("postgres", "SELECT pg_reload_conf()");
    host
}

/// A command as the role of [`host`], whose password no argument holds.
fn as_tuner(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(args);
    command.env("PGPASSWORD", TUNER);
    command
}

fn spawned(mut command: Command, log: &Path) -> Child {
    command.stderr(Stdio::from(File::create(log).unwrap())).spawn().unwrap()
}

#[test]
fn an_experiment_leaves_a_server_as_it_was_however_it_ends() {
    let (place, host) = (Place::new(), host());
    place.file("count.sql", SCRIPT);
    let dsn = format!("host=127.0.0.1 port={} user=tuner dbname=app", host.port());
    let arms = format!(
        "[server]\ndsn = \"{dsn}\"\n[[arm]]\nname = \"delay\"\n\
         settings = {{ commit_delay = 3000, commit_siblings = 0 }}\n\
         [[arm]]\nname = \"index\"\n\
         ddl = [{{ sql = \"CREATE INDEX extra ON counter (n)\", undo = \"DROP INDEX extra\" }}]\n"
    );
    let file = place.file("plan.toml", &plan(1, &arms));
    let state = || host.ask("app", STATE);
    let before = state();
    let run = |args: &[&str]| finish(as_tuner(&place, args).spawn().unwrap());

    // Nothing without consent, and nothing that the server or its data cannot take back.
    run(&["experiment", &file]).code(2).says(&["--maintenance"]);
    run(&["experiment", &file, "--estimate"]).code(0);
    for (arm, words) in [
        ("settings = { shared_buffers = \"64MB\" }", &["shared_buffers", "--restart-command"][..]),
        (
            "settings = { work_mem = \"9MB\" }",
            &["arm 'a'", "GRANT ALTER SYSTEM ON PARAMETER work_mem"],
        ),
        ("ddl = [\"CREATE INDEX ON counter (n)\"]", &["undo"]),
        ("workload = { define = { x = 1 } }", &["--init"]),
        ("postgres = \"17\"", &["the server's own"]),
    ] {
        let text = format!("[server]\ndsn = \"{dsn}\"\n[[arm]]\nname = \"a\"\n{arm}\n");
        let file = place.file("refused.toml", &plan(1, &text));
        let refused = run(&["experiment", &file, "--maintenance"]);
        let code = if arm.starts_with("postgres") { 2 } else { 1 };
        refused.code(code).says(words);
    }
    let secret = format!("[server]\ndsn = \"{dsn} password={TUNER}\"\n[[arm]]\nname = \"a\"\n");
    let secret = place.file("secret.toml", &plan(1, &secret));
    run(&["experiment", &secret, "--maintenance"]).code(2).says(&[".pgpass"]);
    assert_eq!(state(), before);
    assert!(place.runs().is_empty() && !place.path("lab/experiments").exists());

    // Killed within the arm that changes settings, and rolled back.
    let log = place.path("log");
    let child = spawned(as_tuner(&place, &["experiment", &file, "--maintenance"]), &log);
    until("the arm is run", || host.ask("app", "SHOW commit_delay") == "3000");
    until_said(&place.path("lab/changes.jsonl"), "\"how\":\"done\"");
    run(&["config", "rollback", "--dsn", &dsn]).refuses(&["process", "wait for it"]);
    signal(child.id(), libc::SIGKILL);
    finish(child);
    assert_ne!(state(), before);
    let listed = place.run(&["experiment", "list", "--json"]).code(0).json();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let list = place.run(&["config", "rollback", "--list"]).code(0).out();
    assert!(list.contains(&id) && list.contains("commit_delay"), "{list}");
    run(&["experiment", &file, "--new", "--maintenance"]).refuses(&[
        &id,
        "left changes",
        "config rollback",
    ]);
    run(&["experiment", "delete", &id]).refuses(&["left changes", "config rollback"]);
    run(&["config", "rollback", "--dsn", &dsn]).code(0);
    assert_eq!(state(), before);

    // Killed within the arm that changes the schema, and gone on with.
    run(&["experiment", "resume", &id]).code(2).says(&["--maintenance"]);
    let resume = ["experiment", "resume", &id, "--maintenance", "--json"];
    let child = spawned(as_tuner(&place, &resume), &log);
    until("the arm is run", || host.ask("app", "SELECT to_regclass('extra')::text") == "extra");
    signal(child.id(), libc::SIGKILL);
    finish(child);
    assert_ne!(state(), before);
    // Stopped by its user it brings back all by itself.
    let child = spawned(as_tuner(&place, &resume), &log);
    // Told once what was left is brought back.
    until_said(&log, "runs of about");
    until("the arm is run", || host.ask("app", "SELECT to_regclass('extra')::text") == "extra");
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(state(), before);
    let outcome = run(&resume).code(0).json();
    assert_eq!(state(), before);

    assert_eq!(
        (outcome["ending"].as_str(), outcome["runs"].as_u64()),
        (Some("all_blocks"), Some(4))
    );
    let warnings = outcome["warnings"].to_string();
    assert!(
        warnings.contains("in every run: data on an attached server are not restored"),
        "{warnings}"
    );
    assert!(warnings.contains("checkpoint before it was refused"), "{warnings}");
    let record = |arm: usize| {
        let run = outcome["arms"][arm]["runs"][0].as_str().unwrap();
        place.run(&["export", run]).code(0).json()
    };
    let set = |record: &serde_json::Value, name: &str| {
        let settings = record["settings"].as_array().unwrap().iter();
        settings.clone().find(|s| s["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    let (delay, index) = (record(0), record(1));
    assert_eq!(
        (set(&delay, "commit_delay"), set(&delay, "commit_siblings")),
        ("3000".into(), "0".into())
    );
    assert_eq!(
        (set(&index, "commit_delay"), set(&index, "commit_siblings")),
        ("0".into(), "7".into())
    );
    let sets = fs::read_to_string(place.path("lab/changes.jsonl")).unwrap();
    assert!(!sets.contains(TUNER) && !sets.contains(PASSWORD));
    place.run(&["config", "rollback", "--dsn", &dsn]).code(0);
    assert_eq!(host.ask("app", STATE), before, "nothing is left to undo");
}

/// A short tune of a script.
fn tune_of(file: &str) -> [&str; 9] {
    [
        "tune",
        "--file",
        file,
        "--clients=2",
        "--duration=1s",
        "--warmup=1s",
        "--runs=8",
        "--confirm-pairs=3",
        "--seed=3",
    ]
}

#[test]
fn a_tune_leaves_a_server_as_it_was_however_it_ends() {
    let (place, host) = (Place::new(), host());
    for setting in ["commit_delay = 5000", "commit_siblings = 0"] {
        host.execute("postgres", &format!("ALTER SYSTEM SET {setting}"));
    }
    host.execute("postgres", "SELECT pg_reload_conf()");
    host.execute("app", "CREATE ROLE nobody LOGIN PASSWORD 'gG7'");
    until("it is in force", || host.ask("app", "SHOW commit_delay") == "5000");
    let file = place.file("count.sql", SCRIPT);
    let state = || host.ask("app", STATE);
    let before = state();
    let dsn = format!("host=127.0.0.1 port={} user=tuner dbname=app", host.port());
    let only = ["--only=commit_delay", "--only=commit_siblings", "--dsn", &dsn];
    let tune = [&tune_of(&file)[..], &only].concat();
    // Nothing that is searched takes a restart, so none is made.
    let maintenance = ["--maintenance", "--restart-command", "exit 7"];
    let agreed = [&tune[..], &maintenance].concat();
    let run = |args: &[&str]| finish(as_tuner(&place, args).spawn().unwrap());

    run(&tune).misused(&["--maintenance"]);
    run(&[&agreed[..], &["--set", "jit=off"]].concat()).code(2);
    run(&["tune", "--maintenance"]).misused(&["no server is named"]);
    let nobody = host.dsn("nobody", "gG7", "app");
    run(&["tune", "--dsn", &nobody, "--maintenance"]).misused(&["postgresql.auto.conf"]);
    assert_eq!((place.runs().len(), state()), (0, before.clone()));

    // Killed while it measures something else than the baseline.
    let log = place.path("log");
    let child = spawned(as_tuner(&place, &agreed), &log);
    until_said(&log, "  1 of 8");
    until("a trial is run", || host.ask("app", "SHOW commit_delay") != "5000");
    signal(child.id(), libc::SIGKILL);
    finish(child);
    assert_ne!(state(), before);
    let shown = place.run(&["tune", "show", "--json"]).code(0).json();
    let begun = shown["measurements"].as_u64().unwrap();
    run(&["tune", "resume"]).refuses(&["nothing of how that is reached is kept", "--dsn"]);
    let resume = [&["tune", "resume", "--dsn", &dsn], &maintenance[..]].concat();
    run(&[&resume[..], &["--init"]].concat()).refuses(&["without --init"]);
    assert_ne!(state(), before);

    let child = spawned(as_tuner(&place, &resume), &log);
    until_said(&log, &format!("  {} of 8", begun + 2));
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(state(), before);
    let shown = place.run(&["tune", "show", "--json"]).code(0).json();
    assert!(shown["measurements"].as_u64().unwrap() > begun, "{shown}");
    assert!(shown["warnings"].to_string().contains("not restored"), "{shown}");
    let kept = fs::read_to_string(place.path("lab/changes.jsonl")).unwrap();
    assert!(!kept.contains(TUNER), "{kept}");
}

/// The attached server with the script's table, that its owner restarts when a file asks for it.
struct Owned {
    place: tempfile::TempDir,
    server: Arc<Mutex<Option<RunningCluster>>>,
    done: Arc<AtomicBool>,
    owner: Option<JoinHandle<()>>,
    socket: PathBuf,
    port: u16,
}

impl Owned {
    fn new() -> Owned {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(place.path(), open).unwrap();
        let places = Places::open(Some(place.path().join("cache"))).unwrap();
        let spec = ClusterSpec::new(&places, install(Major::V18));
        let cluster = Cluster::create(spec).unwrap();
        let running = cluster.start().unwrap();
        let (socket, port) = (running.socket_dir().to_owned(), running.port());
        let server = Arc::new(Mutex::new(Some(running)));
        let done = Arc::new(AtomicBool::new(false));
        let owner = std::thread::spawn({
            let (server, done, wish) =
                (Arc::clone(&server), Arc::clone(&done), place.path().join("wish"));
            move || {
                while !done.load(Ordering::Acquire) {
                    if wish.exists() {
                        let mut server = server.lock().unwrap();
                        if let Some(running) = server.take() {
                            running.stop().unwrap();
                        }
                        *server = cluster.start().ok();
                        fs::remove_file(&wish).unwrap();
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        });
        let owned = Owned { place, server, done, owner: Some(owner), socket, port };
        owned.execute("CREATE TABLE counter (id int PRIMARY KEY, n bigint)");
        owned.execute("INSERT INTO counter SELECT g, 0 FROM generate_series(1, 100) g");
        owned
    }

    /// The command that restarts it.
    fn restart(&self) -> String {
        let (wish, times) = (self.place.path().join("wish"), self.place.path().join("times"));
        format!(
            "echo >> {}; : > {1}; while [ -e {1} ]; do sleep 0.02; done",
            times.display(),
            wish.display()
        )
    }

    /// How often that was run.
    fn restarts(&self) -> usize {
        fs::read_to_string(self.place.path().join("times")).map_or(0, |text| text.lines().count())
    }

    fn dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.socket.display(), self.port)
    }

    /// Runs a statement that gives nothing.
    fn execute(&self, sql: &str) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let client = walwright_server::connect_for_workload(&self.params()).await.unwrap();
            client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    }

    /// The text that a query of one row and column gives.
    fn ask(&self, sql: &str) -> String {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let client = walwright_server::connect_for_workload(&self.params()).await.unwrap();
            let row = client.query_one(sql, &[]).await;
            row.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0).unwrap()
        })
    }

    fn params(&self) -> ConnectParams {
        ConnectParams::unix_socket(&self.socket, self.port, "postgres", "postgres")
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(owner) = self.owner.take() {
            let _ = owner.join();
        }
        drop(self.server.lock().map(|mut server| server.take()));
    }
}

#[test]
fn what_takes_a_restart_has_one_and_every_run_begins_alike() {
    let (place, owned) = (Place::new(), Owned::new());
    place.file("count.sql", SCRIPT);
    let before = owned.ask(STATE);
    let dsn = owned.dsn();
    let arm = "[[arm]]\nname = \"more\"\nsettings = { shared_buffers = \"160MB\" }\n";
    let file = place.file("plan.toml", &plan(1, arm));
    let command = |restart: &str| {
        let args = ["experiment", &file, "--new", "--dsn", &dsn, "--maintenance", "--json"];
        place.command(&[&args[..], &["--restart-command", restart]].concat())
    };
    let experiment = |restart: &str| finish(command(restart).spawn().unwrap());
    // While it restarts the server, no other may work on that. Then the restart fails.
    let (holding, go) = (owned.place.path().join("holding"), owned.place.path().join("go"));
    let slow = format!(
        ": > {}; while [ ! -e {} ]; do sleep 0.02; done; exit 7",
        holding.display(),
        go.display()
    );
    let child = command(&slow).spawn().unwrap();
    until("it restarts the server", || holding.exists());
    experiment("true").code(1).says(&["works on it"]);
    fs::write(&go, "").unwrap();
    finish(child).code(1).says(&["the restart command failed", "exit status: 7"]);
    assert_eq!(owned.ask(STATE), before);

    let outcome = experiment(&owned.restart()).code(0).json();
    assert_eq!(owned.ask(STATE), before);
    // Before each of the three runs, and after that of the arm.
    let order = outcome["arms"][0]["runs"][0].as_str().unwrap();
    let record = place.run(&["export", order]).code(0).json();
    let buffers = record["settings"].as_array().unwrap().iter();
    let buffers = buffers.clone().find(|s| s["name"] == "shared_buffers").unwrap();
    assert_eq!(buffers["shown"], "160MB");
    assert!((3..=4).contains(&owned.restarts()), "{}", owned.restarts());
    let command = record["run"]["command"].as_str().unwrap_or_default();
    assert!(!command.contains("wish"), "{command}");
}

#[test]
fn a_tune_that_restarts_the_server_goes_on_only_with_the_command() {
    let (place, owned) = (Place::new(), Owned::new());
    let file = place.file("count.sql", SCRIPT);
    let before = owned.ask(STATE);
    let dsn = owned.dsn();
    let there = ["--dsn", &dsn, "--maintenance"];
    let restart = owned.restart();
    let log = place.path("log");
    let only = ["--only=shared_buffers", "--restart-command", &restart];
    let begun = [&tune_of(&file)[..], &only, &there].concat();
    let child = spawned(place.command(&begun), &log);
    until_said(&log, "  2 of 8");
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(owned.ask(STATE), before);
    assert!(owned.restarts() >= 2, "every measurement begins with one");
    let resume = [&["tune", "resume"], &there[..]].concat();
    place.run(&resume).misused(&["shared_buffers", "--restart-command again"]);
}

/// Ends the sessions that hold the server.
const END_HOLDERS: &str =
    "SELECT count(pg_terminate_backend(pid, 5000))::text FROM pg_locks WHERE locktype = 'advisory'";

#[test]
fn of_two_labs_one_changes_a_server_and_the_other_is_told_which() {
    let (place, other, host) = (Place::new(), Place::new(), host());
    let before = host.ask("app", STATE);
    let dsn = format!("host=127.0.0.1 port={} user=tuner dbname=app", host.port());
    let arms = format!(
        "[server]\ndsn = \"{dsn}\"\n[[arm]]\nname = \"delay\"\nsettings = {{ commit_delay = 3000 }}\n"
    );
    let files = [&place, &other].map(|place| {
        place.file("count.sql", SCRIPT);
        place.file("plan.toml", &plan(8, &arms))
    });
    let wanted = other.file("wanted.env", "PG_COMMIT_DELAY=77\n");
    let log = place.path("log");
    let first = as_tuner(&place, &["experiment", &files[0], "--maintenance", "--json"]);
    let child = spawned(first, &log);
    until("an arm is run", || host.ask("app", "SHOW commit_delay") == "3000");

    // From another lab, as another role, in another database.
    let there = host.superuser("postgres");
    let who = [
        "another walwright works on it",
        "role tuner in database app",
        &format!("process {}", child.id()),
        "from 127.0.0.1",
        "Wait until that has ended",
    ];
    let apply = ["config", "apply", &wanted, "--dsn", &there, "--no-kernel"];
    other.run(&[&apply[..], &["--yes"]].concat()).refuses(&who);
    // Looking is not changing.
    other.run(&apply).code(2).says(&["add --yes to do it"]);
    let mut second = as_tuner(&other, &["experiment", &files[1], "--maintenance"]);
    finish(second.spawn().unwrap()).refuses(&who);
    let tune = other.file("count.sql", SCRIPT);
    let tune = [&tune_of(&tune)[..], &["--dsn", &there, "--maintenance"]].concat();
    other.run(&tune).refuses(&who);
    assert!(!other.path("lab/changes.jsonl").exists());
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(host.ask("app", STATE), before);

    // Then it is the other's turn.
    other.run(&[&apply[..], &["--yes"]].concat()).code(0);
    other.run(&["config", "rollback", "--dsn", &there]).code(0);
    assert_eq!(host.ask("app", STATE), before);
}

#[test]
fn what_someone_changes_under_an_experiment_is_told_at_its_end() {
    let (place, host) = (Place::new(), host());
    place.file("count.sql", SCRIPT);
    let dsn = format!("host=127.0.0.1 port={} user=tuner dbname=app", host.port());
    let arms = format!(
        "[server]\ndsn = \"{dsn}\"\n[[arm]]\nname = \"delay\"\nsettings = {{ commit_delay = 3000 }}\n"
    );
    let file = place.file("plan.toml", &plan(1, &arms));
    let log = place.path("log");
    let child = spawned(as_tuner(&place, &["experiment", &file, "--maintenance"]), &log);
    until("the arm is run", || host.ask("app", "SHOW commit_delay") == "3000");
    until_said(&place.path("lab/changes.jsonl"), "\"how\":\"done\"");
    host.execute("postgres", "ALTER SYSTEM SET commit_delay = 77");
    finish(child).code(5);
    let said = fs::read_to_string(&log).unwrap();
    let told = "not as it was on the server: commit_delay is 77 in postgresql.auto.conf, \
                neither what it was before (not set) nor what was set (3000)";
    assert!(said.contains(told) && said.contains("not measured as planned"), "{said}");
    assert_eq!(host.ask("app", "SHOW commit_delay"), "77");
    let list = place.run(&["config", "rollback", "--list"]).code(0).out();
    assert!(
        list.contains("undone in part") && list.contains("changed by others since: commit_delay"),
        "{list}"
    );

    // The same of what was applied and is rolled back.
    let (wanted, there) = (place.file("a.env", "PG_WORK_MEM=9MB\n"), host.superuser("app"));
    let apply = ["config", "apply", &wanted, "--dsn", &there, "--no-kernel", "--yes"];
    place.run(&apply).code(0);
    host.execute("postgres", "ALTER SYSTEM SET work_mem = '11MB'");
    let undone = place.run(&["config", "rollback", "--dsn", &there, "--json"]).code(5).json();
    assert_eq!(undone["left"], serde_json::json!(["work_mem"]));
    let note = undone["notes"][0].as_str().unwrap();
    assert!(note.contains("11MB") && note.contains("(5MB)") && note.contains("(9MB)"), "{note}");
    let list = place.run(&["config", "rollback", "--list", "--json"]).code(0).json();
    let last = list.as_array().unwrap().last().unwrap();
    assert_eq!((&last["state"], &last["left"]), (&"undone in part".into(), &undone["left"]));
}

#[test]
fn a_run_during_which_the_server_was_no_longer_held_does_not_count() {
    let (place, host) = (Place::new(), host());
    place.file("count.sql", SCRIPT);
    let before = host.ask("app", STATE);
    let dsn = format!("host=127.0.0.1 port={} user=tuner dbname=app", host.port());
    let arms = format!(
        "[server]\ndsn = \"{dsn}\"\n[[arm]]\nname = \"delay\"\nsettings = {{ commit_delay = 3000 }}\n"
    );
    let file = place.file("plan.toml", &plan(1, &arms));
    let log = place.path("log");
    let child = spawned(as_tuner(&place, &["experiment", &file, "--maintenance", "--json"]), &log);
    until("the arm is run", || host.ask("app", "SHOW commit_delay") == "3000");
    until_said(&place.path("lab/changes.jsonl"), "\"how\":\"done\"");
    assert_eq!(host.ask("app", END_HOLDERS), "1");
    let outcome = finish(child).code(0).json();
    let said = fs::read_to_string(&log).unwrap();
    let told = ["not measured as planned", "the session that holds the server", "administrator"];
    assert!(told.iter().all(|word| said.contains(word)), "{said}");
    assert_eq!(outcome["ending"], "all_blocks");
    assert_eq!(host.ask("app", STATE), before);
    assert_eq!(
        host.ask("app", "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'"),
        "0"
    );
}

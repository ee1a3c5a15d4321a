//! The gateway as a service: sockets that are handed down, and what a service manager is told.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use walwright_wire::{
    ConnectOptions, Connection, Connector, Host as At, Secret, WireError, cancel,
};

use crate::common::{Host, PASSWORD, Place, finish, signal, until, until_said};

/// A gateway that has a socket as its file descriptor 3, as systemd starts it.
fn activated(place: &Place, host: &Host, socket: &TcpListener, notify: &str, log: &str) -> Child {
    let gateway = place.command(&["gateway", "--server", &host.superuser("postgres")]);
    let hands_down = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", hands_down, "sh"]).arg(gateway.get_program()).args(gateway.get_args());
    for (name, value) in gateway.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("NOTIFY_SOCKET", place.path(notify)).env("WATCHDOG_USEC", "200000");
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())));
    command.stdout(Stdio::null()).stderr(File::create(place.path(log)).unwrap());
    command.spawn().unwrap()
}

/// Waits until the service manager is told all of this.
fn until_told(manager: &UnixDatagram, mut words: Vec<&str>) {
    let mut buffer = [0; 4096];
    while !words.is_empty() {
        let count = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let told = String::from_utf8_lossy(&buffer[..count]).into_owned();
        words.retain(|word| !told.lines().any(|line| line.starts_with(word)));
    }
}

fn connected(port: u16) -> Connection {
    let at = At::Tcp("127.0.0.1".to_owned());
    let mut options = ConnectOptions::new(at, port, "postgres", "postgres");
    options.password = Some(Secret::new(PASSWORD));
    Connector::new(options).and_then(|connector| connector.connect()).expect("connected")
}

#[test]
fn a_gateway_serves_on_the_socket_that_it_is_handed_and_says_how_it_is() {
    let (place, host) = (Place::new(), Host::new());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();

    let first = activated(&place, &host, &socket, "notify", "first.log");
    until_told(&manager, vec!["READY=1", "STATUS=before the server at", "WATCHDOG=1"]);
    let mut idle = connected(port);
    assert_eq!(idle.query("SELECT 1").unwrap()[0][0].as_deref(), Some("1"));
    signal(first.id(), libc::SIGHUP);
    until_told(&manager, vec!["RELOADING=1", "MONOTONIC_USEC="]);
    until_told(&manager, vec!["READY=1"]);
    signal(first.id(), libc::SIGTERM);
    until_told(&manager, vec!["STOPPING=1"]);
    finish(first).code(0);
    assert!(idle.query("SELECT 1").is_err(), "it was told to go");

    // Who connects while there is no gateway is served by the next.
    let waits = std::thread::spawn(move || connected(port).query("SELECT 2").unwrap());
    let second = activated(&place, &host, &socket, "notify", "second.log");
    until_told(&manager, vec!["READY=1"]);
    assert_eq!(waits.join().unwrap()[0][0].as_deref(), Some("2"));
    signal(second.id(), libc::SIGTERM);
    finish(second).code(0);
}

#[test]
fn a_socket_that_does_not_listen_is_refused() {
    let place = Place::new();
    let mut gateway = place.command(&["gateway", "--server", "postgres://postgres@127.0.0.1"]);
    gateway.env("LISTEN_FDS", "1");
    finish(gateway.spawn().unwrap()).misused(&["socket 0 of those that LISTEN_FDS hands down"]);
}

/// A connection through the gateway, for a client that stays or one of many.
fn through(at: &At, port: u16) -> Result<Connection, WireError> {
    let mut options = ConnectOptions::new(at.clone(), port, "postgres", "postgres");
    options.password = Some(Secret::new(PASSWORD));
    Connector::new(options)?.connect()
}

/// Connects, writes, reads and leaves, again and again; how often.
fn come_and_go(at: &At, port: u16, number: u64, stop: &AtomicBool) -> u64 {
    let began = Instant::now();
    for round in 0.. {
        // A test that fails stops nobody.
        if stop.load(Ordering::SeqCst) || began.elapsed() > Duration::from_secs(60) {
            return round;
        }
        let token = number * 1_000_000 + round;
        let mut client = through(at, port).unwrap_or_else(|error| panic!("{token}: {error}"));
        for sql in [
            format!("INSERT INTO ledger VALUES ({token}) RETURNING a"),
            format!("SELECT a FROM ledger WHERE a = {token}"),
        ] {
            let rows = client.query(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(rows, [[Some(token.to_string())]], "{sql}");
        }
    }
    unreachable!("it is stopped before")
}

#[test]
fn a_rolling_restart_refuses_nobody_and_cancels_reach_the_gateway_before() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE TABLE ledger (a bigint PRIMARY KEY)");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = place.path(&format!(".s.PGSQL.{}", free.port())).display().to_string();
    let start = |log: &str| {
        let listen = format!("{free},{socket}");
        let server = host.superuser("postgres");
        let args = ["gateway", "--server", &server, "--listen", &listen, "--drain-timeout=20s"];
        let mut command = place.command(&args);
        command.arg("--handover").arg(place.path("handover"));
        let child = command.stderr(File::create(place.path(log)).unwrap()).spawn().unwrap();
        until_said(&place.path(log), "before the server at");
        child
    };
    let ends = [At::Tcp("127.0.0.1".to_owned()), At::Unix(place.path(""))];
    let mut gateways = vec![start("0.log")];
    let stop = AtomicBool::new(false);
    let mut stays = through(&ends[0], free.port()).unwrap();
    let key = stays.cancel_key().unwrap();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number: u64| {
                let (at, stop) = (&ends[number as usize % 2], &stop);
                scope.spawn(move || come_and_go(at, free.port(), number, stop))
            })
            .collect();
        for restart in 1..=4 {
            let log = format!("{restart}.log");
            gateways.push(start(&log));
            until_said(&place.path(&log), "taken over");
        }
        // The first gateway still serves its client, whose cancel request reaches the last one.
        let sleeps = scope.spawn(move || {
            let slept = stays.query("SELECT pg_sleep(60)");
            (slept, stays)
        });
        let asleep = "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("it sleeps", || host.ask("postgres", asleep) == "1");
        let to = ConnectOptions::new(ends[0].clone(), free.port(), "postgres", "postgres");
        cancel(&Connector::new(to).unwrap(), &key).unwrap();
        let (slept, mut stays) = sleeps.join().unwrap();
        assert_eq!(slept.unwrap_err().server_error().unwrap().code, "57014");
        stays.query("INSERT INTO ledger VALUES (-1)").unwrap();
        drop(stays);
        let last = gateways.pop().unwrap();
        for gateway in gateways {
            finish(gateway).code(0);
        }
        stop.store(true, Ordering::SeqCst);
        let rounds: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        let told = host.ask("postgres", "SELECT count(*)::text FROM ledger");
        assert_eq!(told, (rounds + 1).to_string());
        assert!(rounds > 0);
        signal(last.id(), libc::SIGTERM);
        finish(last).code(0);
    });
    assert!(!std::path::Path::new(&socket).exists(), "the last one takes its socket away");
}

#[test]
fn a_gateway_that_is_ending_says_so_to_the_next() {
    let (place, host) = (Place::new(), Host::new());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (server, listen) = (host.superuser("postgres"), free.to_string());
    let handover = place.path("handover").display().to_string();
    let args = ["gateway", "--server", &server, "--listen", &listen, "--handover", &handover];
    let mut command = place.command(&args);
    let first = command.stderr(File::create(place.path("log")).unwrap()).spawn().unwrap();
    until_said(&place.path("log"), "before the server at");
    let mut client = connected(free.port());
    client.query("BEGIN").unwrap();
    signal(first.id(), libc::SIGTERM);
    let at = At::Tcp("127.0.0.1".to_owned());
    until("it takes no connection", || through(&at, free.port()).is_err());
    place.run(&args).code(1).refuses(&["it is ending: start this one when it has ended"]);
    client.query("COMMIT").unwrap();
    finish(first).code(0);
}

#[test]
fn a_gateway_stays_until_what_its_last_client_left_running_has_ended() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE TABLE ledger (a bigint)");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = |log: &str| {
        let server = host.superuser("postgres");
        let listen = free.to_string();
        let mut command = place.command(&["gateway", "--server", &server, "--listen", &listen]);
        command.arg("--handover").arg(place.path("handover"));
        let child = command.stderr(File::create(place.path(log)).unwrap()).spawn().unwrap();
        until_said(&place.path(log), "before the server at");
        child
    };
    let mut first = start("first.log");
    let mut client = connected(free.port());
    client.query("CREATE TEMP TABLE own ()").unwrap();
    let second = start("second.log");
    until_said(&place.path("second.log"), "taken over");
    let (mut stream, _) = client.into_nonblocking().unwrap();
    let sql = b"INSERT INTO ledger SELECT 1 FROM pg_sleep(3)\0";
    let query = [&b"Q"[..], &(sql.len() as u32 + 4).to_be_bytes(), sql].concat();
    assert_eq!(stream.write(&query).unwrap(), query.len());
    let sleeps = || {
        let count = "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        host.ask("postgres", count) == "1"
    };
    until("it runs", sleeps);
    drop(stream);
    loop {
        // As long as it runs it may yet commit, and the next gateway knows nothing of it.
        let is_gone = first.try_wait().unwrap().is_some();
        if !sleeps() {
            break;
        }
        assert!(!is_gone, "it has ended before what it left");
    }
    finish(first).code(0);
    assert_eq!(host.ask("postgres", "SELECT count(*)::text FROM ledger"), "1");
    signal(second.id(), libc::SIGTERM);
    finish(second).code(0);
}

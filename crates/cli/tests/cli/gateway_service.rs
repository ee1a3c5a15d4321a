//! The gateway as a service: sockets that are handed down, and what a service manager is told.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use walwright_wire::{ConnectOptions, Connection, Connector, Host as At, Secret};

use crate::common::{Host, PASSWORD, Place, finish, signal};

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

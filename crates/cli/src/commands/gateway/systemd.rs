//! What systemd hands down to a gateway, and what it is told.

use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use walwright_gateway::{Socket, Sockets};

use crate::output::{say, usage};

/// The sockets that were handed down; `None` where there are none. To be called once, before
/// any thread is started: it takes them out of the environment.
pub fn sockets() -> anyhow::Result<Option<Sockets>> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut handed = ListenFd::from_env();
    if handed.len() == 0 {
        return Ok(None);
    }
    let mut sockets = Sockets { clients: Vec::new(), metrics: None, removes: false };
    for number in 0..handed.len() {
        let tcp = handed.take_tcp_listener(number).ok().flatten().map(Socket::Tcp);
        let unix = || handed.take_unix_listener(number).ok().flatten().map(Socket::Unix);
        let Some(socket) = tcp.or_else(unix).filter(Socket::listens) else {
            return Err(usage(format!(
                "socket {number} of those that LISTEN_FDS hands down is none that listens on TCP or a unix socket: see ListenStream= of its unit"
            )));
        };
        match (names.next() == Some("metrics"), socket) {
            (true, Socket::Tcp(listener)) => sockets.metrics = Some(listener),
            (_, socket) => sockets.clients.push(socket),
        }
    }
    if sockets.clients.is_empty() {
        return Err(usage("LISTEN_FDS hands down no socket for clients, one for metrics alone"));
    }
    Ok(Some(sockets))
}

/// Tells systemd what state the gateway is in, where it is asked to.
pub fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        say(&format!("warning: systemd could not be told: {error}"));
    }
}

/// Tells systemd that it serves, and what.
pub fn tell_ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells systemd that the configuration is being read again, until it is told that that is done.
pub fn tell_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => say(&format!("warning: systemd could not be told: {error}")),
    }
}

/// Has systemd know, as often as it wants to hear it, that the gateway lives as long as
/// `lives` says so.
pub fn keep_watchdog(lives: impl Fn() -> bool + Send + 'static) {
    let Some(period) = sd_notify::watchdog_enabled().filter(|period| *period > Duration::ZERO)
    else {
        return;
    };
    std::thread::spawn(move || {
        loop {
            if lives() {
                tell(&[NotifyState::Watchdog]);
            }
            std::thread::sleep(period / 2);
        }
    });
}

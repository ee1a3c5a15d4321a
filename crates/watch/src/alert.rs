//! Telling somebody: a webhook and a command.
//!
//! A thread of its own does both, so that neither a dead host nor a command that hangs holds up
//! what is sampled. What waits is bounded, and so are the tries of each.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::event::Event;
use crate::webhook::Webhook;

/// Alerts that may wait; further ones are dropped and counted.
const WAITING: usize = 64;
/// Tries of one alert, with a pause between them that doubles.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// Longest that one try may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long the end of watching waits for what is under way.
const PARTING: Duration = Duration::from_secs(5);

/// Who is told.
#[derive(Debug, Clone, Default)]
pub struct AlertTo {
    /// A URL that is sent JSON by POST.
    pub webhook: Option<Webhook>,
    /// A command of the shell, which has the JSON on its standard input.
    pub command: Option<String>,
}

/// Hands alerts to the thread.
#[derive(Debug)]
pub(crate) struct Alerts {
    sender: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl Alerts {
    /// Starts the thread, where somebody is to be told.
    pub(crate) fn start(to: &AlertTo) -> Alerts {
        let counts = Arc::new(Counts::default());
        if to.webhook.is_none() && to.command.is_none() {
            return Alerts { sender: None, thread: None, counts };
        }
        let (sender, waiting) = sync_channel::<String>(WAITING);
        let (to, counted) = (to.clone(), Arc::clone(&counts));
        let spawned =
            std::thread::Builder::new().name("walwright-alerts".to_owned()).spawn(move || {
                for body in waiting {
                    if let Some(webhook) = &to.webhook {
                        let sent = retried("the webhook", PAUSE, || webhook.post(&body, PATIENCE));
                        counted.count(sent);
                    }
                    if let Some(command) = &to.command {
                        counted.count(retried("the alert command", PAUSE, || run(command, &body)));
                    }
                }
            });
        match spawned {
            Ok(thread) => Alerts { sender: Some(sender), thread: Some(thread), counts },
            Err(error) => {
                tracing::error!(%error, "nobody is told of events");
                Alerts { sender: None, thread: None, counts }
            }
        }
    }

    /// Hands over an event; never waits.
    pub(crate) fn send(&self, event: &Event, server: &str) {
        let Some(sender) = &self.sender else { return };
        let body = json!({
            "source": "walwright",
            "server": server,
            "event": event,
            "at_seconds": event.at.0 as f64 / 1e6,
        });
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            sender.try_send(body.to_string())
        {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of alerts, by name.
    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { delivered, failed, dropped } = &*self.counts;
        [("delivered", of(delivered)), ("failed", of(failed)), ("dropped", of(dropped))]
    }

    /// Waits a little for what is under way.
    pub(crate) fn finish(mut self) {
        drop(self.sender.take());
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + PARTING;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

impl Counts {
    fn count(&self, sent: bool) {
        let count = if sent { &self.delivered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tries until it works, within bounds, with a pause between tries that doubles; whether it did.
fn retried(what: &str, mut pause: Duration, mut send: impl FnMut() -> Result<(), String>) -> bool {
    for place in 1..=TRIES {
        match send() {
            Ok(()) => return true,
            Err(why) => tracing::warn!("{what}, try {place} of {TRIES}: {why}"),
        }
        if place < TRIES {
            std::thread::sleep(pause);
            pause *= 2;
        }
    }
    false
}

/// Runs a command with the alert on its standard input.
fn run(command: &str, body: &str) -> Result<(), String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // One that does not read it has what it needs.
        let _ = input.write_all(body.as_bytes());
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use walwright_record::Timestamp;

    fn event() -> Event {
        Event::new(Timestamp(5_000_000), EventKind::ServerLost, "the server does not answer")
    }

    #[test]
    fn a_command_has_the_alert_on_its_input_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        // Refuses the first time.
        let command = format!(
            "cat > {got}; test -e {once} || {{ touch {once}; exit 1; }}",
            got = file("got"),
            once = file("once"),
        );
        let alerts = Alerts::start(&AlertTo { command: Some(command), ..AlertTo::default() });
        alerts.send(&event(), "db");
        let counts = Arc::clone(&alerts.counts);
        alerts.finish();
        assert_eq!(counts.delivered.load(Ordering::Relaxed), 1);
        let got: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("got")).unwrap()).unwrap();
        assert_eq!(got["event"]["kind"], "server_lost");
        assert_eq!((&got["server"], &got["at_seconds"]), (&json!("db"), &json!(5.0)));
    }

    #[test]
    fn tries_are_bounded_and_end_with_the_first_that_works() {
        let tries = |works_at: u32| {
            let mut made = 0;
            let sent = retried("it", Duration::ZERO, || {
                made += 1;
                if made == works_at { Ok(()) } else { Err("not yet".to_owned()) }
            });
            (sent, made)
        };
        assert_eq!((tries(1), tries(TRIES), tries(TRIES + 1)), ((true, 1), (true, 4), (false, 4)));
    }

    #[test]
    fn a_command_that_hangs_holds_up_nobody() {
        let to = AlertTo { command: Some("sleep 30".to_owned()), ..AlertTo::default() };
        let alerts = Alerts::start(&to);
        for _ in 0..WAITING + 10 {
            alerts.send(&event(), "db");
        }
        let [_, _, (name, dropped)] = alerts.outcomes();
        assert_eq!(name, "dropped");
        // One is under way at most.
        assert!((9..=10).contains(&dropped), "{dropped}");
    }
}

//! A gateway as a service: how it is told to read its configuration again, and to end.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use walwright_gateway::Gateway;

use crate::commands::gateway::systemd;
use crate::commands::runtime::Signals;
use crate::output::{exit, say};

/// How often is looked whether all clients have gone.
const LOOK: Duration = Duration::from_millis(10);
/// How often is looked whether the console has ended the gateway.
const LOOK_FOR_END: Duration = Duration::from_millis(200);

/// What listens to those who run a gateway.
pub struct Service {
    runtime: Runtime,
    signals: Signals,
    /// SIGHUP, as services have it: read the configuration again.
    hangup: Signal,
}

impl Service {
    /// Listens from now on, before there is a gateway.
    pub fn prepare() -> anyhow::Result<Service> {
        let failed = "cannot listen to signals";
        let runtime = Builder::new_current_thread().enable_all().build().context(failed)?;
        let listen = async {
            std::io::Result::Ok((Signals::listen_as_service()?, signal(SignalKind::hangup())?))
        };
        let (signals, hangup) = runtime.block_on(listen).context(failed)?;
        Ok(Service { runtime, signals, hangup })
    }

    /// Serves until the console ends it, or a signal asks for the end; then lets each client go as
    /// soon as it has nothing under way. A second signal, or the end of `patience`, ends what is
    /// left. `keeps_sockets` where another process goes on with the same sockets.
    pub fn serve(
        mut self,
        mut gateway: Gateway,
        keeps_sockets: bool,
        patience: Duration,
    ) -> ExitCode {
        let Service { runtime, signals, hangup } = &mut self;
        runtime.block_on(async {
            if let Some(code) = until_asked(&gateway, signals, hangup, patience).await {
                return code;
            }
            systemd::tell(&[NotifyState::Stopping, NotifyState::Status("clients finish")]);
            gateway.drain(keeps_sockets);
            say(&format!(
                "stopping: clients finish their transactions, for {} s at most; a second signal ends this at once",
                patience.as_secs()
            ));
            tokio::select! {
                () = end(&gateway, LOOK) => ExitCode::SUCCESS,
                () = signals.next() => ExitCode::from(exit::KILLED),
                () = tokio::time::sleep(patience) => {
                    say("error: clients that had not finished within --drain-timeout were cut off");
                    ExitCode::from(exit::INTERRUPTED)
                }
            }
        })
    }
}

/// Serves until a signal asks for the end, or it has ended otherwise: with which code.
async fn until_asked(
    gateway: &Gateway,
    signals: &mut Signals,
    hangup: &mut Signal,
    patience: Duration,
) -> Option<ExitCode> {
    loop {
        tokio::select! {
            () = signals.next() => return None,
            _ = hangup.recv() => reload(gateway),
            () = end(gateway, LOOK_FOR_END) => return Some(ExitCode::SUCCESS),
            () = taken_over(gateway) => break,
        }
    }
    say(&format!(
        "another gateway has taken over: clients are served until they leave, for {} s at most",
        patience.as_secs()
    ));
    tokio::select! {
        () = end(gateway, LOOK) => Some(ExitCode::SUCCESS),
        () = signals.next() => None,
        () = tokio::time::sleep(patience) => None,
    }
}

/// Waits until another gateway has taken over.
async fn taken_over(gateway: &Gateway) {
    while !gateway.is_taken_over() {
        tokio::time::sleep(LOOK_FOR_END).await;
    }
}

/// Does what the console's RELOAD does.
fn reload(gateway: &Gateway) {
    systemd::tell_reloading();
    match gateway.reload() {
        Ok(()) => say("SIGHUP: the configuration was read again"),
        Err(what) => say(&format!("error: SIGHUP: {what}; all stays as it was")),
    }
    // It serves on, also where nothing was changed.
    systemd::tell(&[NotifyState::Ready]);
}

/// Waits until a gateway has ended, looking every so often.
async fn end(gateway: &Gateway, every: Duration) {
    while !gateway.has_drained() {
        tokio::time::sleep(every).await;
    }
}

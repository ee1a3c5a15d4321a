//! How a command works until it has ended or is stopped.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use walwright_lab::Stop;

use crate::output::exit;
use crate::show;

/// Most time given to what still goes on in the background when all is done. A stage that a
/// stop cut short (a cluster that is made, restored or filled) goes on in a thread, and what
/// it made is removed only after that.
const FAREWELL: Duration = Duration::from_secs(30);

/// A runtime for what only asks a server.
pub fn runtime() -> anyhow::Result<Runtime> {
    with_threads(1)
}

fn with_threads(number: usize) -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(number)
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")
}

/// Does `work`, which a signal asks to stop.
pub fn until_done<T>(work: impl AsyncFnOnce(Stop) -> T) -> anyhow::Result<T> {
    let (runtime, signals) = (with_threads(2)?, with_threads(1)?);
    let stop = Stop::new();
    // Not on the runtime of the work: a second signal also ends the wait for what is left.
    signals.spawn(stop_on_signal(stop.clone()));
    let done = runtime.block_on(work(stop));
    runtime.shutdown_timeout(FAREWELL);
    Ok(done)
}

/// The same for work that keeps its threads to itself.
pub fn until_measured<T>(work: impl FnOnce(&Stop) -> T) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let stop = Stop::new();
    runtime.spawn(stop_on_signal(stop.clone()));
    let done = work(&stop);
    runtime.shutdown_timeout(FAREWELL);
    Ok(done)
}

/// The first signal asks the run to stop; a second one ends the process, and with
/// it, by its guard, the server. A hang-up that whoever started us has us ignore
/// (`nohup`) stays ignored.
async fn stop_on_signal(stop: Stop) {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    let listen = |kind| signal(kind).ok();
    let (Some(mut interrupt), Some(mut terminate)) =
        (listen(SignalKind::interrupt()), listen(SignalKind::terminate()))
    else {
        return;
    };
    let mut hangup =
        if walwright_lab::ignores_hangup() { None } else { listen(SignalKind::hangup()) };
    let hung_up = async |signal: &mut Option<Signal>| match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up(&mut hangup) => {}
        }
        if stop.is_requested() {
            show::restore_terminal();
            std::process::exit(i32::from(exit::KILLED));
        }
        stop.request();
    }
}

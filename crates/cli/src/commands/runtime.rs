//! How a command works until it has ended or is stopped.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::Instant;
use walwright_run::COMMAND_PATIENCE;
use walwright_server::Stop;

use crate::output::{self, exit};
use crate::show;

/// Most time given to what still goes on in the background when all is done. A stage that a
/// stop cut short (a cluster that is made, restored or filled) goes on in a thread, and what
/// it made is removed only after that.
const FAREWELL: Duration = Duration::from_secs(30);

/// Time after which a command that was asked to end says what it waits for.
const SILENCE: Duration = Duration::from_secs(3);

/// What a command has to do between being asked to end and its end.
#[derive(Debug, Clone, Copy)]
pub struct Parting {
    /// Longest it may take; then the process ends as it is.
    within: Duration,
    waits_for: &'static str,
    /// What is left to others when it does not wait.
    left: &'static str,
}

impl Parting {
    /// For work that only looks and writes down what it saw.
    pub const LOOKING: Parting = Parting {
        within: Duration::from_secs(10),
        waits_for: "what was seen so far to be written down",
        left: "what is written already is kept",
    };

    /// For work that looks while a command runs.
    pub const COMMANDING: Parting = Parting {
        within: Parting::LOOKING.within.saturating_add(COMMAND_PATIENCE),
        waits_for: "the command to end and what was seen to be written down",
        left: "the command is ended all the same, and what is written already is kept",
    };

    /// For work on a server of its own or on settings of someone's: a checkpoint at the end
    /// of a server may take two minutes.
    pub const WORKING: Parting = Parting {
        within: Duration::from_secs(180),
        waits_for: "its server to stop, or what it changed on a server to be undone",
        left: "a server of its own is stopped all the same and cleared away by the next run, and what it changed on another server is undone by `walwright config rollback`",
    };

    /// For rows that are on their way to a server.
    pub const WRITING: Parting = Parting {
        within: Duration::from_secs(120),
        waits_for: "the rows that were read to be durable",
        left: "whether the last rows are written is not known; a file goes on where it was when it is ingested again",
    };

    /// For what comes after any work: the warnings, the summary and the page of a long record.
    const SHOWING: Parting = Parting {
        within: Duration::from_secs(20),
        waits_for: "the report to be written",
        left: "what was recorded is kept, and `walwright report` writes its page",
    };

    /// For changes to settings.
    pub const CHANGING: Parting = Parting {
        within: Duration::from_secs(60),
        waits_for: "the changes made so far to be undone",
        left: "`walwright config rollback` undoes them",
    };
}

/// A runtime for what only asks a server, whose sessions end before it does.
pub struct Asking(Runtime);

/// A runtime for what only asks a server.
pub fn runtime() -> anyhow::Result<Asking> {
    with_threads(1).map(Asking)
}

impl Asking {
    /// Does `work`, and lets the sessions that it opened end.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let done = self.0.block_on(work);
        self.0.block_on(walwright_server::all_left());
        done
    }
}

/// What held a session beyond the work that opened it has let it go by now.
impl Drop for Asking {
    fn drop(&mut self) {
        self.0.block_on(walwright_server::all_left());
    }
}

fn with_threads(number: usize) -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(number)
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")
}

/// Does `work`, which a signal asks to stop, and which has ended as `parting` says then.
pub fn until_done<T>(parting: Parting, work: impl AsyncFnOnce(Stop) -> T) -> anyhow::Result<T> {
    until_served(parting, Some(2), work)
}

/// The same with so many threads, or one a processor.
pub fn until_served<T>(
    parting: Parting,
    threads: Option<usize>,
    work: impl AsyncFnOnce(Stop) -> T,
) -> anyhow::Result<T> {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = with_threads(threads.unwrap_or_else(processors))?;
    until_measured(parting, |stop| {
        let done = runtime.block_on(work(stop.clone()));
        runtime.block_on(walwright_server::all_left());
        runtime.shutdown_timeout(FAREWELL);
        done
    })
}

/// The same for work that keeps its threads to itself.
pub fn until_measured<T>(parting: Parting, work: impl FnOnce(&Stop) -> T) -> anyhow::Result<T> {
    let stop = Stop::new();
    let phase = watch::Sender::new(parting);
    heed_signals(stop.clone(), phase.subscribe())?;
    let done = work(&stop);
    // What was dropped on a server is being cancelled there.
    walwright_server::cancelled();
    phase.send_replace(Parting::SHOWING);
    Ok(done)
}

/// Listens to signals for as long as the process lives, on a thread of its own: work that
/// blocks all of a runtime's threads must not outlive the wish that it end.
fn heed_signals(stop: Stop, phase: watch::Receiver<Parting>) -> anyhow::Result<()> {
    let failed = "cannot listen to signals";
    let runtime = Builder::new_current_thread().enable_all().build().context(failed)?;
    // From here on, before the work begins.
    let signals = runtime.block_on(async { Signals::listen() }).context(failed)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(see_to_the_end(signals, stop, phase)))
        .context(failed)?;
    Ok(())
}

/// The signals that ask a process to end.
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` where whoever started us has us ignore it (`nohup`).
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// From now on they end the process no more by themselves.
    ///
    /// # Errors
    /// When the system refuses; also outside a runtime.
    pub fn listen() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: match walwright_run::ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// The same without SIGHUP, which does not ask a service to end.
    ///
    /// # Errors
    /// When the system refuses; also outside a runtime.
    pub fn listen_as_service() -> std::io::Result<Signals> {
        Ok(Signals { hangup: None, ..Signals::listen()? })
    }

    /// Waits for the next.
    pub async fn next(&mut self) {
        let hung_up = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// The first signal asks the work to stop, as a key of the live view does; a second one
/// ends the process, and with it, by its guard, the server or command. So does the end of
/// the time that its parting may take.
async fn see_to_the_end(
    mut signals: Signals,
    stop: Stop,
    mut phase: watch::Receiver<Parting>,
) -> std::convert::Infallible {
    tokio::select! {
        () = signals.next() => {
            show::begin_line();
            stop.request();
        }
        () = stop.requested() => {}
    }
    let asked = Instant::now();
    let mut last = asked + phase.borrow_and_update().within;
    let mut silent = true;
    loop {
        tokio::select! {
            () = signals.next() => {
                show::restore_terminal();
                show::begin_line();
                std::process::exit(i32::from(exit::KILLED));
            }
            // Without a sender the work has panicked, and the process is about to end.
            Ok(()) = phase.changed() => {
                last = Instant::now() + phase.borrow_and_update().within;
            }
            () = tokio::time::sleep_until(asked + SILENCE), if silent => {
                silent = false;
                let Parting { within, waits_for, left } = *phase.borrow();
                if !show::has_terminal() {
                    show::begin_line();
                    say_if_free(&format!(
                        "stopping: waiting for {waits_for}, {} s at most; a second signal ends this at once: {left}",
                        within.as_secs()
                    ));
                }
            }
            () = tokio::time::sleep_until(last) => {
                show::restore_terminal();
                let left = phase.borrow().left;
                say_if_free(&format!(
                    "error: it did not stop within {} s: {left}",
                    (last - asked).as_secs()
                ));
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
        }
    }
}

/// A line on standard error, unless that is held by what hangs.
fn say_if_free(text: &str) {
    let (said, heard) = std::sync::mpsc::channel();
    let line = text.to_owned();
    std::thread::spawn(move || {
        output::say(&line);
        let _ = said.send(());
    });
    let _ = heard.recv_timeout(Duration::from_secs(1));
}

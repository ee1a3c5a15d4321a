//! The probe: two threads that sample server and host until stopped.

use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::{oneshot, watch};

use crate::ProbeError;
use crate::clock::Clock;
use crate::connector::Connector;
use crate::cost::{Cost, ProbeReport, ProbeThread};
use crate::host::read::processors_online;
use crate::host::{HostReport, HostSampler, HostScope};
use crate::observation::Sink;
use crate::own_backends::OwnBackends;
use crate::rates::Rates;
use crate::sql::{Context, CountersReport, Session, WaitsReport, sample_counters, sample_waits};

/// What a probe needs to begin.
#[derive(Debug, Clone)]
pub struct ProbeSpec {
    /// Where its connections come from. It holds two.
    pub connector: Connector,
    /// How often it looks.
    pub rates: Rates,
    /// What of this machine is the server's.
    pub host: HostScope,
    /// The clock of the record.
    pub clock: Clock,
}

/// A probe at work. Dropped without [`stop`](Self::stop), it stops by itself and
/// its report is lost.
#[derive(Debug)]
pub struct Probe {
    stop: watch::Sender<bool>,
    sql: oneshot::Receiver<(CountersReport, WaitsReport)>,
    host_stop: std_mpsc::Sender<()>,
    host: JoinHandle<HostReport>,
    cost: Arc<Cost>,
    started: Instant,
    processors: Option<u32>,
}

impl Probe {
    /// Connects and begins to sample. `sink` is called on the probe's threads.
    ///
    /// # Errors
    /// When the server cannot be reached or is too old, or a thread cannot be started.
    pub async fn start(spec: ProbeSpec, sink: Sink) -> Result<Probe, ProbeError> {
        let started = Instant::now();
        let cost = Arc::new(Cost::default());
        let own_backends = OwnBackends::default();
        let processors = spec.host.local.then(processors_online).flatten();
        let (stop, stop_seen) = watch::channel(false);
        let (ready, became_ready) = oneshot::channel();
        let (done, sql) = oneshot::channel();
        let context = Context {
            connector: spec.connector,
            clock: spec.clock,
            sink: Arc::clone(&sink),
            cost: Arc::clone(&cost),
            stop: stop_seen,
            local: spec.host.local,
            processors,
            own_backends: own_backends.clone(),
        };
        let rates = spec.rates;
        spawn("walwright-sql", move || {
            if let Some(reports) = sql_thread(&context, rates, ready) {
                // The handle may have been dropped; then nobody wants the report.
                let _ = done.send(reports);
            }
        })?;
        became_ready.await.map_err(|_| ProbeError::Lost)??;
        let (host_stop, host_stop_seen) = std_mpsc::channel();
        let sampler = HostSampler {
            scope: spec.host,
            clock: spec.clock,
            sink,
            cost: Arc::clone(&cost),
            own_backends,
            rates,
        };
        let host = spawn("walwright-host", move || sampler.run(&host_stop_seen))?;
        Ok(Probe { stop, sql, host_stop, host, cost, started, processors })
    }

    /// Takes a last reading of everything and ends.
    ///
    /// # Errors
    /// [`ProbeError::Lost`] when a thread of the probe has died.
    pub async fn stop(self) -> Result<ProbeReport, ProbeError> {
        // The receivers live as long as the threads.
        let _ = self.stop.send(true);
        let _ = self.host_stop.send(());
        let (counters, waits) = self.sql.await.map_err(|_| ProbeError::Lost)?;
        let host = tokio::task::spawn_blocking(move || self.host.join())
            .await
            .map_err(|_| ProbeError::Lost)?
            .map_err(|_| ProbeError::Lost)?;
        let mut report = self.cost.report(self.started.elapsed(), self.processors);
        report.slowed = [waits.slowed.into_iter().collect(), counters.slowed, host.slowed].concat();
        report.not_observable =
            [counters.not_observable, waits.not_observable, host.not_observable].concat();
        Ok(report)
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ProbeError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(ProbeError::Thread)
}

/// Runs both connections on a runtime of its own, so that the thread's clock
/// tells what they cost. `None` where they could not be opened.
fn sql_thread(
    context: &Context,
    rates: Rates,
    ready: oneshot::Sender<Result<(), ProbeError>>,
) -> Option<(CountersReport, WaitsReport)> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(ProbeError::Thread(error)));
            return None;
        }
    };
    runtime.block_on(async {
        let opened = open_both(context).await;
        let (waits, counters) = match opened {
            Ok(sessions) => sessions,
            Err(error) => {
                let _ = ready.send(Err(error));
                return None;
            }
        };
        let _ = ready.send(Ok(()));
        let (counters, (waits, session)) = tokio::join!(
            sample_counters(context, counters, rates),
            sample_waits(context, waits, rates),
        );
        drop(session);
        walwright_server::all_left().await;
        context.cost.measure_thread(ProbeThread::Sql);
        Some((counters, waits))
    })
}

async fn open_both(context: &Context) -> Result<(Session, Session), ProbeError> {
    Ok((context.open().await?, context.open().await?))
}

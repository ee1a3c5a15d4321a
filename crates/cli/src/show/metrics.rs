//! A run as metrics, for whoever scrapes it while it goes on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use walwright_http::Endpoint;
use walwright_record::LoadInterval;
use walwright_run::{Observe, Observer, Progress};
use walwright_server::Stop;
use walwright_watch::{Exposition, Gatherer, LoadMetrics};

use crate::output::say;

/// Serves what a run that `observer` is shown does, until it has ended.
pub async fn exposing(
    address: SocketAddr,
    tick: Duration,
    stop: &Stop,
) -> anyhow::Result<impl FnOnce(Arc<Observer>) -> Arc<Observer> + use<>> {
    let exposition = Exposition::default();
    let told = exposition.clone();
    let metrics = Arc::new(move |form| told.text(form).map_err(|error| error.to_string()));
    let endpoint = Endpoint::bind(address, metrics, Arc::new(|| None)).await;
    let place = endpoint.and_then(|endpoint| Ok((endpoint.address()?, endpoint)));
    let (place, endpoint) = place.with_context(|| {
        format!("metrics cannot be served at {address}; name another address with --metrics")
    })?;
    say(&format!("metrics: http://{place}/metrics"));
    let stop = stop.clone();
    // What is asked for while the run ends is answered; with the run it ends too.
    tokio::spawn(endpoint.serve(move || {
        let stop = stop.clone();
        async move { stop.requested().await }
    }));
    Ok(move |shown| -> Arc<Observer> {
        let seen = Mutex::new((Gatherer::new(tick), LoadMetrics::default()));
        Arc::new(Exposing { shown, seen, exposition })
    })
}

/// Shows a run, and has its metrics there to be asked for.
struct Exposing {
    shown: Arc<Observer>,
    seen: Mutex<(Gatherer, LoadMetrics)>,
    exposition: Exposition,
}

impl Exposing {
    fn take(&self, interval: &LoadInterval) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (gatherer, load) = &mut *seen;
        load.take(interval);
        let mut snapshot = gatherer.snapshot();
        snapshot.extend(load.snapshot());
        self.exposition.put(snapshot);
    }
}

impl<'a> Observe<Progress<'a>> for Exposing {
    fn event(&self, event: Progress<'a>) {
        match &event {
            Progress::Sample(sample) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.0.take(sample);
            }
            Progress::Interval { interval, .. } => self.take(interval),
            _ => {}
        }
        self.shown.event(event);
    }
}

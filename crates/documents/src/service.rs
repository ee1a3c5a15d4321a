//! The service: it listens, serves, and ends when it is asked to.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::ServiceError;
use crate::http::{Shared, router};
use crate::options::Options;
use crate::store::Store;

/// Longest that a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(30);
/// Most connections at once; further ones wait.
const CONNECTIONS: usize = 4096;

/// A service that listens.
pub struct Service {
    listener: TcpListener,
    router: axum::Router,
}

impl Service {
    /// Listens.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        store: Store,
        options: Options,
    ) -> Result<Self, ServiceError> {
        Ok(Service::on(Service::listen(address).await?, store, options))
    }

    /// Takes the address, so that what takes long to prepare is not prepared in vain.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServiceError> {
        let listener = TcpListener::bind(address).await;
        listener.map_err(|error| ServiceError::Listen { address, error })
    }

    /// The service on an address that is taken already.
    pub fn on(listener: TcpListener, store: Store, options: Options) -> Self {
        let Options { resources, limits, .. } = options;
        Self { listener, router: router(Arc::new(Shared { store, resources, limits })) }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`; then answers what has come, for at most `patience`, and returns.
    pub async fn serve(self, stop: impl Future<Output = ()>, patience: Duration) {
        let Self { listener, router } = self;
        let (ending, _) = watch::channel(false);
        let stopped = async {
            stop.await;
            ending.send_replace(true);
        };
        walwright_http::serve(listener, CONNECTIONS, stopped, patience, |stream| {
            let (service, mut ending) =
                (TowerToHyperService::new(router.clone()), ending.subscribe());
            let ended = async move { _ = ending.wait_for(|ending| *ending).await };
            walwright_http::converse(stream, service, HEAD, ended)
        })
        .await;
    }
}

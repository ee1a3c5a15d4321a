//! The service: it listens, serves, and ends when it is asked to.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

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
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| ServiceError::Listen { address, error })?;
        let Options { resources, limits, .. } = options;
        Ok(Self { listener, router: router(Arc::new(Shared { store, resources, limits })) })
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
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let (ending, _) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                let room = Arc::clone(&room).acquire_owned().await;
                (room, listener.accept().await)
            };
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (room, accepted) = next => match accepted {
                    Ok((stream, _)) => {
                        let (router, ending) = (router.clone(), ending.subscribe());
                        connections.spawn(async move {
                            let _room = room;
                            converse(stream, router, ending).await;
                        });
                    }
                    Err(error) => {
                        // Out of descriptors, mostly: others must end first.
                        tracing::warn!(%error, "no connection can be accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(listener);
        ending.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!("connections were cut off whose requests were not answered in time");
        }
    }
}

async fn converse(stream: TcpStream, router: axum::Router, mut ending: watch::Receiver<bool>) {
    _ = stream.set_nodelay(true);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let service = TowerToHyperService::new(router);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { _ = ending.wait_for(|ending| *ending).await } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a client's connection");
    }
}

//! Serving HTTP/1 on a listener until it is asked to stop: what every endpoint here needs, so that
//! none of them accepts, bounds or ends connections in a way of its own; and [`Endpoint`], which serves
//! metrics so, in either of their forms. The other way round, [`PageAddress`] gets a page and
//! [`Reading`] reads the metrics on it.

mod metrics;
mod page_address;
mod reading;
mod token;

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use metrics::{Endpoint, Form, Health, Metrics};
pub use page_address::{NoPageAddress, PageAddress, PageError, connect};
pub use reading::{Labels, Reading};
pub use token::{TokenHash, bearer_tokens};

/// How long nothing is accepted after that has failed: mostly for want of descriptors, so that
/// others must end first.
const PAUSE: Duration = Duration::from_millis(100);

/// Greets whoever connects, `most` at once, while others wait. After `stop` the listener is
/// closed, and connections that have come have `patience` to end.
pub async fn serve<C>(
    listener: TcpListener,
    most: usize,
    stop: impl Future<Output = ()>,
    patience: Duration,
    greet: impl Fn(TcpStream) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
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
                    _ = stream.set_nodelay(true);
                    let conversation = greet(stream);
                    connections.spawn(async move {
                        let _room = room;
                        conversation.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(patience, all).await.is_err() {
        tracing::warn!("connections were cut off whose requests were not answered in time");
    }
}

/// Answers the requests of one connection. The head of each may take as long as `head`; after
/// `ending` the one under way is answered, and no other taken.
pub async fn converse<S, V, B>(
    stream: S,
    service: V,
    head: Duration,
    ending: impl Future<Output = ()>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    V: HttpService<Incoming, ResBody = B>,
    V::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a client's connection");
    }
}

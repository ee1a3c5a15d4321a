//! `/metrics` and `/healthz` over HTTP.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use walwright_server::Stop;

use crate::exposition::{Exposition, Form};

/// Longest that the head of a request may take, and that what is under way has to end.
const HEAD: Duration = Duration::from_secs(5);
/// Most connections at once; further ones wait.
const CONNECTIONS: usize = 32;

/// What is wrong, as a sentence; `None` where nothing is.
pub type Health = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// An endpoint that listens.
pub struct Endpoint {
    listener: TcpListener,
    exposition: Exposition,
    health: Health,
}

impl Endpoint {
    /// Listens.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        exposition: Exposition,
        health: Health,
    ) -> std::io::Result<Endpoint> {
        Ok(Endpoint { listener: TcpListener::bind(address).await?, exposition, health })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is asked to stop.
    pub fn serve(self, stop: Stop) -> impl Future<Output = ()> + Send + 'static {
        let Endpoint { listener, exposition, health } = self;
        async move {
            let greet = |stream| {
                let (exposition, health) = (exposition.clone(), Arc::clone(&health));
                let stop = stop.clone();
                async move {
                    let service = hyper::service::service_fn(|request| {
                        let answer = answer(&request, &exposition, &health);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    walwright_http::converse(stream, service, HEAD, stop.requested()).await;
                }
            };
            walwright_http::serve(listener, CONNECTIONS, stop.requested(), HEAD, greet).await;
        }
    }
}

fn answer(
    request: &Request<Incoming>,
    exposition: &Exposition,
    health: &Health,
) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, plain, "only GET and HEAD\n".into());
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            let form = Form::accepted(accept);
            match exposition.text(form) {
                Ok(body) => text(StatusCode::OK, form.content_type(), body),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, plain, format!("{error}\n")),
            }
        }
        "/healthz" => match health() {
            None => text(StatusCode::OK, plain, "ok\n".into()),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, plain, format!("{why}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, plain, "here are /metrics and /healthz\n".into()),
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

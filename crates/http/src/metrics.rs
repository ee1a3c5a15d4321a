//! `/metrics`, in the form that is asked for, and `/healthz`.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

/// Longest that the head of a request may take, and that what is under way has to end.
const HEAD: Duration = Duration::from_secs(5);
/// Most connections at once; further ones wait.
const CONNECTIONS: usize = 32;

/// The text forms of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prometheus, version 0.0.4: what all scrapers read.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Form {
    /// The form that a request asks for by `Accept`; Prometheus where it does not say.
    pub fn of(headers: &HeaderMap) -> Form {
        Form::accepted(headers.get(ACCEPT).and_then(|value| value.to_str().ok()))
    }

    fn accepted(accept: Option<&str>) -> Form {
        let weight = |kind: &str| {
            let each = accept.unwrap_or_default().split(',').map(str::trim);
            let weight = |one: &str| {
                let mut parts = one.split(';').map(str::trim);
                (parts.next() == Some(kind)).then(|| {
                    let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
                    weight.unwrap_or(1.0)
                })
            };
            each.filter_map(weight).fold(0.0_f64, f64::max)
        };
        let open = weight("application/openmetrics-text");
        if open > 0.0 && open >= weight("text/plain") {
            Form::OpenMetrics
        } else {
            Form::Prometheus
        }
    }

    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => prometheus_text::CONTENT_TYPE,
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Metrics as text of this form.
    ///
    /// # Errors
    /// Where a collector fails: text takes what is written to it.
    pub fn encode(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut out = String::new();
        match self {
            Form::Prometheus => prometheus_text::encode(&mut out, registry)?,
            Form::OpenMetrics => text::encode(&mut out, registry)?,
        }
        Ok(out)
    }
}

/// The metrics as they are now, or why there are none, as a sentence.
pub type Metrics = Arc<dyn Fn(Form) -> Result<String, String> + Send + Sync>;

/// What is wrong, as a sentence; `None` where nothing is.
pub type Health = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// An endpoint for scrapers that listens.
pub struct Endpoint {
    listener: TcpListener,
    metrics: Metrics,
    health: Health,
}

impl Endpoint {
    /// Listens.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        metrics: Metrics,
        health: Health,
    ) -> std::io::Result<Endpoint> {
        Ok(Endpoint::on(TcpListener::bind(address).await?, metrics, health))
    }

    /// The same on a socket that listens already.
    pub fn on(listener: TcpListener, metrics: Metrics, health: Health) -> Endpoint {
        Endpoint { listener, metrics, health }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is asked to stop, which each connection waits for by itself.
    pub async fn serve<S, F>(self, stop: S)
    where
        S: Fn() -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let Endpoint { listener, metrics, health } = self;
        let greet = |stream| {
            let (metrics, health) = (Arc::clone(&metrics), Arc::clone(&health));
            let ending = stop();
            async move {
                let service = hyper::service::service_fn(|request| {
                    let answer = answer(&request, &metrics, &health);
                    async move { Ok::<_, Infallible>(answer) }
                });
                crate::converse(stream, service, HEAD, ending).await;
            }
        };
        crate::serve(listener, CONNECTIONS, stop(), HEAD, greet).await;
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &Metrics,
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
            let form = Form::of(request.headers());
            match metrics(form) {
                Ok(body) => text(StatusCode::OK, form.content_type(), body),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, plain, format!("{why}\n")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_asked_for() {
        let open = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Form::accepted(Some(open)), Form::OpenMetrics);
        for plain in [
            None,
            Some("*/*"),
            Some("text/plain"),
            Some("text/plain,application/openmetrics-text;q=0.5"),
        ] {
            assert_eq!(Form::accepted(plain), Form::Prometheus, "{plain:?}");
        }
    }
}

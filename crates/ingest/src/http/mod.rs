//! The endpoint: rows by HTTP, answered when they are durable.

mod body;
mod health;
mod tls;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use walwright_coalesce::Registry;
use walwright_http::{Form, TokenHash};
use walwright_server::Stop;

use crate::destination::Destination;
use crate::error::IngestError;
use crate::summary::Counts;

use health::Health;
pub use tls::{TlsFiles, server_config};

/// Longest that a client may take for its TLS handshake, and for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Most connections at once; further ones wait.
const CONNECTIONS: usize = 1024;

/// Most KiB of bodies at once, or those of one body where that may be longer.
const BODIES: usize = 128 * 1024;

/// What the endpoint allows.
#[derive(Clone)]
pub struct HttpLimits {
    /// Longest body, in bytes.
    pub body: usize,
    /// Longest that a client may take to send it.
    pub time: Duration,
}

/// Who may write.
pub struct Admission {
    /// Of bearer tokens; where there are none, nobody is asked for one.
    tokens: Vec<TokenHash>,
}

impl Admission {
    /// Whoever has one of the tokens, one a line; without lines everybody.
    #[must_use]
    pub fn by_tokens(lines: &str) -> Self {
        let tokens = lines.lines().map(str::trim).filter(|token| !token.is_empty());
        Self { tokens: tokens.map(TokenHash::of).collect() }
    }

    /// Whether there is a token to be asked for.
    #[must_use]
    pub fn asks(&self) -> bool {
        !self.tokens.is_empty()
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let is_known = |token| self.tokens.iter().any(|known| known.is_of(token));
        !self.asks() || walwright_http::bearer_tokens(headers).any(is_known)
    }
}

/// An endpoint that listens.
pub struct Endpoint {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
}

struct Shared {
    tables: HashMap<String, Destination>,
    admission: Admission,
    limits: HttpLimits,
    /// KiB of bodies.
    bodies: Semaphore,
    counts: Arc<Counts>,
    metrics: Registry,
    /// Of the server that all tables are on; `None` where there is no table.
    health: Option<Health>,
    stop: Stop,
}

impl Endpoint {
    /// Listens, with TLS where there is a configuration.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        admission: Admission,
        limits: HttpLimits,
        tables: HashMap<String, Destination>,
        counts: Arc<Counts>,
        stop: &Stop,
    ) -> Result<Self, IngestError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| IngestError::Listen { address, error })?;
        let mut metrics = Registry::with_prefix("walwright_ingest");
        // All tables have one coalescer and one server.
        let any = tables.values().next();
        if let Some(table) = any {
            table.coalescer().register(&mut metrics);
        }
        let health = any.map(|table| Health::of(table.server.clone()));
        let bodies = Semaphore::new(BODIES.max(kibibytes(limits.body as u64) as usize));
        let stop = stop.clone();
        let shared = Shared { tables, admission, limits, bodies, counts, metrics, health, stop };
        Ok(Self { listener, tls: tls.map(TlsAcceptor::from), shared: Arc::new(shared) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is asked to stop; then answers what has come, and returns.
    pub async fn serve(self, patience: Duration) {
        let Self { listener, tls, shared } = self;
        let stop = shared.stop.clone();
        walwright_http::serve(listener, CONNECTIONS, stop.requested(), patience, |stream| {
            greet(stream, tls.clone(), Arc::clone(&shared))
        })
        .await;
    }
}

async fn greet(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    match tls {
        None => converse(stream, shared).await,
        Some(tls) => match tokio::time::timeout(HEAD, tls.accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, shared).await,
            Ok(Err(error)) => tracing::info!(%error, "a client's TLS"),
            Err(_) => tracing::info!("a client's TLS took too long"),
        },
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    let service = hyper::service::service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    walwright_http::converse(stream, service, HEAD, stop.requested()).await;
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, shared: &Shared) -> Answer {
    let path = request.uri().path().to_owned();
    match (request.method(), path.strip_prefix("/ingest/")) {
        (&Method::POST, Some(table)) => match ingest(request, table, shared).await {
            Ok(answer) | Err(answer) => answer,
        },
        (_, Some(_)) => refusal(StatusCode::METHOD_NOT_ALLOWED, "rows come by POST"),
        (&Method::GET | &Method::HEAD, None) if path == "/healthz" => health(shared).await,
        (&Method::GET | &Method::HEAD, None) if path == "/metrics" => {
            metrics(Form::of(request.headers()), shared)
        }
        _ => refusal(StatusCode::NOT_FOUND, "there are /ingest/TABLE, /metrics and /healthz"),
    }
}

async fn ingest(
    request: Request<Incoming>,
    table: &str,
    shared: &Shared,
) -> Result<Answer, Answer> {
    if !shared.admission.admits(request.headers()) {
        let mut answer = refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed");
        let challenge = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, challenge);
        return Err(answer);
    }
    let Some(destination) = shared.tables.get(table) else {
        return Err(refusal(StatusCode::NOT_FOUND, "this table is not written here"));
    };
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let by_line = kind.is_some_and(|kind| kind.contains("ndjson") || kind.contains("jsonl"));
    let HttpLimits { body: limit, time } = shared.limits;
    let too_large = || {
        let told = format!("the body is longer than {limit} bytes");
        refusal(StatusCode::PAYLOAD_TOO_LARGE, &told)
    };
    let length = request.body().size_hint().upper().unwrap_or(limit as u64);
    if length > limit as u64 {
        return Err(too_large());
    }
    let Ok(_room) = shared.bodies.try_acquire_many(kibibytes(length)) else {
        return Err(refusal(StatusCode::TOO_MANY_REQUESTS, "too many bodies at once"));
    };
    let collected = Limited::new(request.into_body(), limit).collect();
    let body = match tokio::time::timeout(time, collected).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(too_large());
        }
        Ok(Err(error)) => return Err(refusal(StatusCode::BAD_REQUEST, &error.to_string())),
        Err(_) => {
            let told = format!("the body did not come within {time:?}");
            return Err(refusal(StatusCode::REQUEST_TIMEOUT, &told));
        }
    };
    shared.counts.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
    let text = str::from_utf8(&body).map_err(|error| {
        let told = format!("the body is not UTF-8: byte {} of it", error.valid_up_to() + 1);
        refusal(StatusCode::BAD_REQUEST, &told)
    })?;
    let documents =
        body::documents(text, by_line).map_err(|why| refusal(StatusCode::BAD_REQUEST, &why))?;
    let results = body::write(destination, documents, &shared.counts).await;
    Ok(body::answer(&results))
}

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

fn metrics(form: Form, shared: &Shared) -> Answer {
    if let Some(table) = shared.tables.values().next() {
        table.coalescer().observe();
    }
    match form.encode(&shared.metrics) {
        Ok(body) => text(body, form.content_type()),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn health(shared: &Shared) -> Answer {
    let trouble = match &shared.health {
        _ if shared.stop.is_requested() => Some("it takes no more rows: it is ending".to_owned()),
        Some(health) => health.trouble().await,
        None => None,
    };
    let Some(why) = trouble else { return text("ok\n".to_owned(), "text/plain") };
    let mut answer = text(format!("{why}\n"), "text/plain");
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer
}

fn text(text: String, kind: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// An answer in JSON; with a hint when to come again where that is what to do.
fn json_answer(status: StatusCode, value: &serde_json::Value) -> Answer {
    let mut answer = text(format!("{value}\n"), "application/json");
    *answer.status_mut() = status;
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

fn refusal(status: StatusCode, why: &str) -> Answer {
    json_answer(status, &json!({ "error": why }))
}

//! Requests and answers.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::key::{Key, Uuid};
use crate::metrics::Route;
use crate::options::Limits;
use crate::store::{Document, Found, Store};

/// Documents of a query, unless it says how many, and at most.
const LIMIT: i64 = 25;
const LARGEST_LIMIT: i64 = 500;
/// References of a document at most.
const REFERENCES: usize = 10_000;

/// What requests share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) resources: Vec<String>,
    pub(crate) limits: Limits,
}

type Handle = State<Arc<Shared>>;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let wrong_method =
        || async { Refusal::of(StatusCode::METHOD_NOT_ALLOWED, "not by this method") };
    let wrong_path = || async {
        let told = "there are /data/RESOURCE, /data/RESOURCE/ID, /metrics and /healthz";
        Refusal::of(StatusCode::NOT_FOUND, told)
    };
    Router::new()
        .route("/data/{resource}", get(find_or_query).post(post))
        .route("/data/{resource}/{id}", get(get_by_id).put(put).delete(delete))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .fallback(wrong_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), observed))
        .with_state(shared)
}

/// Counts and logs a request.
async fn observed(State(shared): Handle, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let uri = tracing::enabled!(tracing::Level::INFO).then(|| request.uri().clone());
    let route = route(&method, request.uri());
    let answer = next.run(request).await;
    let (took, status) = (began.elapsed(), answer.status().as_u16());
    shared.store.pool().metrics().answered(route, status, took);
    if let Some(uri) = uri {
        tracing::info!(%method, %uri, status, seconds = took.as_secs_f64(), "request");
    }
    answer
}

fn route(method: &Method, uri: &Uri) -> Route {
    let path = uri.path();
    let route = match path.strip_prefix("/data/") {
        Some(rest) if rest.contains('/') => "/data/{resource}/{id}",
        Some(_) => "/data/{resource}",
        None if path == "/metrics" => "/metrics",
        None if path == "/healthz" => "/healthz",
        None => "other",
    };
    let methods = [&Method::GET, &Method::POST, &Method::PUT, &Method::DELETE, &Method::HEAD];
    let known = ["GET", "POST", "PUT", "DELETE", "HEAD"];
    let found = methods.iter().position(|known| *known == method);
    Route { method: found.map_or("other", |index| known[index]), route }
}

/// A document as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent<'a> {
    identity: Option<Key>,
    #[serde(default)]
    references: Vec<Key>,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl Sent<'_> {
    fn document(&self) -> Document<'_> {
        Document { references: &self.references, body: self.body.get() }
    }
}

fn read(text: &[u8]) -> Result<Sent<'_>, Refusal> {
    let wrong = |told: &str| Refusal::of(StatusCode::BAD_REQUEST, told);
    // An array of its parts would be read as well.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(wrong(&format!("a document is an object: send {EXAMPLE}")));
    }
    let sent: Sent<'_> = serde_json::from_slice(text)
        .map_err(|error| wrong(&format!("the document: {error}; send {EXAMPLE}")))?;
    if !sent.body.get().starts_with('{') {
        return Err(wrong("the body of a document must be an object"));
    }
    if sent.references.len() > REFERENCES {
        return Err(wrong(&format!("a document has {REFERENCES} references at most")));
    }
    Ok(sent)
}

const EXAMPLE: &str = r#"{"identity": 17, "references": [3, "a text"], "body": {}}"#;

async fn collected(body: Body, limits: Limits) -> Result<Bytes, Refusal> {
    let collecting = Limited::new(body, limits.body).collect();
    match tokio::time::timeout(limits.body_time, collecting).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let told = format!("the document is longer than {} bytes", limits.body);
            Err(Refusal::of(StatusCode::PAYLOAD_TOO_LARGE, &told))
        }
        Ok(Err(error)) => Err(Refusal::of(StatusCode::BAD_REQUEST, &error.to_string())),
        Err(_) => {
            let told = format!("the document did not come within {:?}", limits.body_time);
            Err(Refusal::of(StatusCode::REQUEST_TIMEOUT, &told))
        }
    }
}

impl Shared {
    fn known(&self, resource: &str) -> Result<(), Refusal> {
        if self.resources.iter().any(|known| known == resource) {
            return Ok(());
        }
        Err(Refusal::of(StatusCode::NOT_FOUND, &format!("there is no resource {resource}")))
    }

    /// A resource and an address in it; what is no address is nobody's.
    fn address(&self, resource: &str, id: &str) -> Result<Uuid, Refusal> {
        self.known(resource)?;
        id.parse().map_err(|()| StoreError::NotFound.into())
    }
}

async fn post(
    State(shared): Handle,
    Path(resource): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    shared.known(&resource)?;
    let text = collected(body, shared.limits).await?;
    let sent = read(&text)?;
    let Some(identity) = &sent.identity else {
        let told = format!("the document has no identity; send {EXAMPLE}");
        return Err(Refusal::of(StatusCode::BAD_REQUEST, &told));
    };
    let posted = shared.store.post(&resource, identity, &sent.document()).await;
    let posted = posted?;
    let status = if posted.created { StatusCode::CREATED } else { StatusCode::OK };
    let told = format!("{{\"id\":\"{}\",\"version\":{}}}", posted.id, posted.version);
    let mut answer = json_text(status, told);
    let headers = answer.headers_mut();
    headers.insert(ETAG, etag(posted.version));
    if let Ok(address) = HeaderValue::from_str(&format!("/data/{resource}/{}", posted.id)) {
        headers.insert(LOCATION, address);
    }
    Ok(answer)
}

async fn put(
    State(shared): Handle,
    Path((resource, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let id = shared.address(&resource, &id)?;
    let version = version(&headers)?;
    let text = collected(body, shared.limits).await?;
    let sent = read(&text)?;
    if sent.identity.is_some() {
        let told = "a document keeps its identity: leave it out, or POST the document";
        return Err(Refusal::of(StatusCode::BAD_REQUEST, told));
    }
    let put = shared.store.put(&resource, id, version, &sent.document()).await;
    let version = put?;
    Ok((StatusCode::NO_CONTENT, [(ETAG, etag(version))]).into_response())
}

/// What `If-Match` asks for; `None` is any version.
fn version(headers: &HeaderMap) -> Result<Option<i32>, Refusal> {
    let Some(given) = headers.get(IF_MATCH) else {
        let told = "say with If-Match which version the document has (its ETag), or *";
        return Err(Refusal::of(StatusCode::PRECONDITION_REQUIRED, told));
    };
    if given == "*" {
        return Ok(None);
    }
    let number = given.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    // Of another form, it is no version that a document ever had.
    match number.and_then(|number| number.parse().ok()).filter(|version: &i32| *version > 0) {
        Some(version) => Ok(Some(version)),
        None => {
            Err(Refusal::of(StatusCode::PRECONDITION_FAILED, "If-Match is no ETag of a document"))
        }
    }
}

async fn get_by_id(
    State(shared): Handle,
    Path((resource, id)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let id = shared.address(&resource, &id)?;
    let found = shared.store.get(&resource, id).await?;
    Ok(one(&found))
}

async fn delete(
    State(shared): Handle,
    Path((resource, id)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let id = shared.address(&resource, &id)?;
    shared.store.delete(&resource, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn find_or_query(
    State(shared): Handle,
    Path(resource): Path<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    shared.known(&resource)?;
    let asked = question(uri.query().unwrap_or_default())
        .map_err(|why| Refusal::of(StatusCode::BAD_REQUEST, &why))?;
    let store = &shared.store;
    match asked {
        Question::Identity(key) => {
            let found = store.find(&resource, &key).await?;
            Ok(one(&found))
        }
        Question::Page { limit, offset } => {
            let found = store.query(&resource, limit, offset).await;
            let found = found?;
            let documents: Vec<String> = found.iter().map(text_of).collect();
            Ok(json_text(StatusCode::OK, format!("[{}]", documents.join(","))))
        }
    }
}

/// What is asked of a resource.
#[derive(Debug, PartialEq)]
enum Question {
    Identity(Key),
    Page { limit: i64, offset: i64 },
}

fn question(query: &str) -> Result<Question, String> {
    let (mut limit, mut offset) = (LIMIT, 0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = |least: i64, most: i64| {
            let number = value.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| format!("{name} must be a number from {least} to {most}"))
        };
        match name {
            "identity" => return Ok(Question::Identity(Key::Text(decoded(value)?))),
            "limit" => limit = number(1, LARGEST_LIMIT)?,
            "offset" => offset = number(0, i64::MAX)?,
            _ => return Err(format!("{name:?} cannot be asked: identity, limit, offset can")),
        }
    }
    Ok(Question::Page { limit, offset })
}

/// A value of a query, in which blanks are `+` and other bytes `%41`.
fn decoded(value: &str) -> Result<String, String> {
    let wrong = || format!("{value:?} is not encoded as an address is");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, left)) = rest.split_first() {
        rest = left;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let digits = rest.get(..2).and_then(|two| str::from_utf8(two).ok());
                let digits = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
                rest = rest.get(2..).unwrap_or_default();
                digits.and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or_else(wrong)?
            }
            other => *other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

async fn metrics(State(shared): Handle) -> Response {
    match shared.store.pool().metrics().text() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => {
            Refusal::of(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()).into_response()
        }
    }
}

async fn health(State(shared): Handle) -> Response {
    match shared.store.check().await {
        Ok(()) => "ok\n".into_response(),
        Err(error) => Refusal::from(error).into_response(),
    }
}

fn etag(version: i32) -> HeaderValue {
    let text = format!("\"{version}\"");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A document as it is answered; its JSON as the server wrote it.
fn text_of(found: &Found) -> String {
    let body = str::from_utf8(&found.body).unwrap_or("null");
    let mut text = String::with_capacity(body.len() + 80);
    // Writing to a text does not fail.
    _ = write!(text, "{{\"id\":\"{}\",\"version\":{},\"body\":", found.id, found.version);
    text.push_str(body);
    text.push('}');
    text
}

fn one(found: &Found) -> Response {
    let mut answer = json_text(StatusCode::OK, text_of(found));
    answer.headers_mut().insert(ETAG, etag(found.version));
    answer
}

fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

/// Why a request is not done, as it is answered.
#[derive(Debug)]
enum Refusal {
    /// The request is not right.
    Request(StatusCode, String),
    /// The store does not do it.
    Store(StoreError),
}

impl Refusal {
    fn of(status: StatusCode, why: &str) -> Self {
        Self::Request(status, why.to_owned())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = match self {
            Self::Request(status, why) => {
                return json_text(status, json!({ "error": why }).to_string());
            }
            Self::Store(error) => error,
        };
        let status = status(&error);
        if status.is_server_error() {
            tracing::warn!(%error, "a request is not done");
        }
        let mut told = json!({ "error": error.to_string() });
        if let StoreError::Missing(keys) = &error {
            told["missing"] = json!(keys);
        }
        let mut answer = json_text(status, told.to_string());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

fn status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::NotFound => StatusCode::NOT_FOUND,
        StoreError::OtherVersion(_) => StatusCode::PRECONDITION_FAILED,
        StoreError::OtherResource(_) | StoreError::Missing(_) | StoreError::Referred => {
            StatusCode::CONFLICT
        }
        StoreError::Unfit(_) => StatusCode::BAD_REQUEST,
        StoreError::Contended
        | StoreError::Met(_)
        | StoreError::Exhausted
        | StoreError::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
        // Not 503, which says that nothing is written.
        StoreError::Unknown => StatusCode::GATEWAY_TIMEOUT,
        StoreError::Server(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_an_identity_or_a_page() {
        assert_eq!(question(""), Ok(Question::Page { limit: 25, offset: 0 }));
        assert_eq!(question("offset=7&limit=3"), Ok(Question::Page { limit: 3, offset: 7 }));
        let key = |text: &str| Ok(Question::Identity(Key::Text(text.to_owned())));
        assert_eq!(question("identity=a+b%20c%C3%A9%26"), key("a b cé&"));
        for wrong in
            ["limit=0", "limit=501", "offset=-1", "color=red", "identity=%4", "identity=%ff"]
        {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_document_is_an_object_with_its_keys() {
        let sent = read(EXAMPLE.as_bytes()).expect("the example");
        assert_eq!(sent.identity, Some(Key::Number(17)));
        assert_eq!(sent.document().references.len(), 2);
        for wrong in ["", "{", "[]", r#"{"identity": 1}"#, r#"{"body": [], "identity": 1}"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in ["-1", "1.5", "null, \"x\": 1", "[1]"] {
            let text = format!("{{\"identity\": {wrong}, \"body\": {{}}}}");
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}

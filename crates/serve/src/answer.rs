//! What is answered.

use std::io::Write;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY,
};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use walwright_report::html::Links;
use walwright_report::{Document, notice};

/// A page, or what belongs to one.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Something to be sent, as it is and compressed: once for all who ask.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Packed {
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

impl Packed {
    pub(crate) fn new(kind: &'static str, text: String) -> Packed {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory does not fail.
        let _ = encoder.write_all(text.as_bytes());
        let gzip = encoder.finish().unwrap_or_default().into();
        Packed { kind, plain: text.into(), gzip }
    }

    /// A page.
    pub(crate) fn page(document: &Document, links: &Links<'_>) -> Packed {
        Packed::new(HTML, document.linked(links))
    }

    /// It uncompressed.
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.plain).unwrap_or_default()
    }

    pub(crate) fn answer(&self, status: StatusCode, asked: &HeaderMap) -> Response<Body> {
        let accepted = asked.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        let accepts = accepted.unwrap_or_default().split(',').any(|one| {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            name.trim() == "gzip" && !weight.trim().starts_with("q=0")
        });
        let body = if accepts { &self.gzip } else { &self.plain };
        let mut answer = Response::new(Body::from(body.clone()));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if accepts {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

/// Why a request is not answered, for a person.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) said: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, said: impl Into<String>) -> Refusal {
        Refusal { status, said: said.into() }
    }

    pub(crate) fn not_found(said: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, said)
    }

    /// What the lab says stands in the way.
    pub(crate) fn failed(error: &dyn std::error::Error) -> Refusal {
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !said.contains(&text) {
                said = format!("{said}: {text}");
            }
            cause = error.source();
        }
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, said)
    }

    /// It as a page.
    pub(crate) fn document(&self) -> Document {
        let title = self.status.canonical_reason().unwrap_or("Refused");
        notice(title, &self.said)
    }
}

/// Where style and script of every page are, under an address that changes with them.
pub(crate) const LINKS: Links<'static> = Links {
    icon: "/favicon.ico",
    style: concat!("/assets/page.css?", env!("CARGO_PKG_VERSION")),
    script: concat!("/assets/page.js?", env!("CARGO_PKG_VERSION")),
    series: None,
    live: None,
    above: "",
};

/// Something a viewer is told, as server-sent events have it. `data` is one line.
pub(crate) fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

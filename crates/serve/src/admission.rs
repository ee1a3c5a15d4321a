//! Who may ask for what.
//!
//! A browser asks in the name of whoever sits before it, also where a page from elsewhere makes
//! it. So each request must name the site as a person would (a name that somebody else has
//! pointed here is not answered), what changes something must come from a page of the site, and
//! whoever asks must have brought the token where one is needed: in the address once, then in a
//! cookie that no page reads and no other site sends.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN};
use axum::http::{Method, Uri};
use ring::digest::{Digest, SHA256, digest};
use walwright_http::TokenHash;

use crate::ServeError;

/// The parameter of an address that holds the token.
const PARAMETER: &str = "token";

/// A secret that opens the site.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Token {
    /// Letters that one has at least.
    pub const SHORTEST: usize = 16;

    /// A new one that nobody can guess.
    pub fn random() -> Token {
        Token(format!("{:032x}", rand::random::<u128>()))
    }

    /// One that somebody has chosen.
    ///
    /// # Errors
    /// When it is too short.
    pub fn chosen(text: &str) -> Result<Token, ServeError> {
        let text = text.trim();
        if text.chars().count() < Token::SHORTEST {
            return Err(ServeError::ShortToken);
        }
        Ok(Token(text.to_owned()))
    }

    /// An address of the site that brings it.
    pub fn address(&self, site: &str) -> String {
        let token: String = form_urlencoded::byte_serialize(self.0.as_bytes()).collect();
        format!("{site}?{PARAMETER}={token}")
    }
}

/// Who may ask for what.
#[derive(Clone)]
pub struct Admission {
    token: Option<TokenHash>,
    /// What the cookie is called and holds. Browsers send cookies to all ports of a machine.
    cookie: (String, String),
    /// Whether reading needs the token too.
    reading: bool,
    actions: bool,
    /// Names of the site beside `localhost` and addresses.
    names: Vec<String>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is answered.
    Pass,
    /// It brought the token: the cookie to set, and where to go on without it.
    Enter { cookie: String, to: String },
    /// The site is not called that.
    Misdirected,
    /// It comes from a page of another site.
    Foreign,
    /// The token is missing or wrong.
    Unknown,
    /// Nothing may be changed here.
    ReadOnly,
}

impl Admission {
    /// For a site on this port: `token` where there is one, needed for reading or only for
    /// actions, which may be allowed at all.
    pub fn new(
        port: u16,
        token: Option<&Token>,
        reading: bool,
        actions: bool,
        names: Vec<String>,
    ) -> Admission {
        // A cookie shows less than the token: with it one can ask, not tell others how.
        let held = token.map(|token| digest(&SHA256, format!("walwright {}", token.0).as_bytes()));
        let hex = |of: Digest| of.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Admission {
            token: token.map(|token| TokenHash::of(&token.0)),
            cookie: (format!("walwright-{port}"), held.map(hex).unwrap_or_default()),
            reading,
            actions,
            names,
        }
    }

    /// Whether things may be done here.
    pub fn allows_actions(&self) -> bool {
        self.actions
    }

    pub(crate) fn decide(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Decision {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
            (Some(host), None) if self.is_called(host) => host,
            _ => return Decision::Misdirected,
        };
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let knows = self.has_token(headers);
        match headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) {
            Some(origin) if !is_of(origin, host) => return Decision::Foreign,
            Some(_) => {}
            // Programs name none; they bring the token themselves, which no browser does.
            None if reads || headers.contains_key(AUTHORIZATION) => {}
            None => return Decision::Foreign,
        }
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        if !reads && site.is_some_and(|site| site != b"same-origin") {
            return Decision::Foreign;
        }
        if reads && let Some((token, to)) = brought(uri) {
            let Some(known) = &self.token else { return Decision::Pass };
            if !known.is_of(&token) {
                return Decision::Unknown;
            }
            let (name, value) = &self.cookie;
            let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict");
            return Decision::Enter { cookie, to };
        }
        if !reads && !self.actions {
            return Decision::ReadOnly;
        }
        if (self.reading || !reads) && !knows {
            return Decision::Unknown;
        }
        Decision::Pass
    }

    /// Whether a request may do things.
    pub(crate) fn may_act(&self, headers: &HeaderMap) -> bool {
        self.actions && self.has_token(headers)
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(known) = &self.token else { return false };
        let bearer = walwright_http::bearer_tokens(headers).any(|token| known.is_of(token));
        let (name, value) = &self.cookie;
        let expected = TokenHash::of(value);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|cookies| cookies.split(';'));
        let mut pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        bearer || pairs.any(|(called, given)| called == name && expected.is_of(given))
    }

    fn is_called(&self, host: &str) -> bool {
        let name = host_name(host);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The name in a `Host`, which has a port mostly.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a page of this origin is one of the site that is called `host`.
fn is_of(origin: &str, host: &str) -> bool {
    let at = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    at.is_some_and(|at| at.eq_ignore_ascii_case(host))
}

/// The token in an address, and the address without it.
fn brought(uri: &Uri) -> Option<(String, String)> {
    let parts = || form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let token = parts().find(|(name, _)| name == PARAMETER)?.1.into_owned();
    let mut rest = form_urlencoded::Serializer::new(String::new());
    rest.extend_pairs(parts().filter(|(name, _)| name != PARAMETER));
    // Two slashes would begin the name of another site.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let to = match rest.finish() {
        rest if rest.is_empty() => path,
        rest => format!("{path}?{rest}"),
    };
    Some((token, to))
}

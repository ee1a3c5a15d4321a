//! Secrets that whoever asks brings along.

use hyper::header::{AUTHORIZATION, HeaderMap};
use ring::digest::{Digest, SHA256, digest};

/// A secret, known by its hash: how long a comparison of hashes takes tells nothing.
#[derive(Clone)]
pub struct TokenHash(Digest);

impl TokenHash {
    /// Of a secret.
    pub fn of(secret: &str) -> Self {
        Self(digest(&SHA256, secret.as_bytes()))
    }

    /// Whether it is this secret's.
    pub fn is_of(&self, given: &str) -> bool {
        digest(&SHA256, given.as_bytes()).as_ref() == self.0.as_ref()
    }
}

/// The bearer tokens that a request brings.
pub fn bearer_tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let given = headers.get_all(AUTHORIZATION).iter().filter_map(|value| value.to_str().ok());
    given.filter_map(|given| {
        let (scheme, token) = given.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    })
}

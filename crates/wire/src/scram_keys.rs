//! SCRAM-SHA-256 by keys instead of a password: for who has seen a client prove itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

/// A key of SHA-256's length.
type Key = [u8; 32];

/// The keys that a password and a server's stored verifier make: with them one can log in where
/// that verifier is stored, and nowhere else. They are as secret as the password there.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// `ClientKey` of RFC 5802.
    pub client: Key,
    /// `ServerKey`.
    pub server: Key,
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScramKeys(hidden)")
    }
}

/// An exchange by keys. It binds to no channel, which `channel_binding=require` then refuses.
pub(crate) struct KeyExchange {
    keys: ScramKeys,
    /// The first message without its header, and later all that was said.
    said: String,
    nonce: String,
    message: Vec<u8>,
}

impl KeyExchange {
    /// Begins; `nonce` is random printable text.
    pub(crate) fn new(keys: ScramKeys, nonce: String) -> KeyExchange {
        let said = format!("n=,r={nonce}");
        KeyExchange { keys, message: format!("n,,{said}").into_bytes(), said, nonce }
    }

    /// The message to send.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Answers the challenge.
    pub(crate) fn update(&mut self, challenge: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(challenge).map_err(|_| "the challenge is not UTF-8")?;
        let nonce = text.split(',').next().and_then(|field| field.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce)).ok_or("a wrong nonce")?;
        let last = format!("c=biws,r={nonce}");
        self.said = format!("{},{text},{last}", self.said);
        let signature = mac(&hash(&self.keys.client), self.said.as_bytes());
        let mut proof = self.keys.client;
        proof.iter_mut().zip(signature).for_each(|(byte, of)| *byte ^= of);
        self.message = format!("{last},p={}", STANDARD.encode(proof)).into_bytes();
        Ok(())
    }

    /// Checks that the server has the verifier too.
    pub(crate) fn finish(&self, verdict: &[u8]) -> Result<(), String> {
        let proof = verdict.strip_prefix(b"v=").and_then(|text| STANDARD.decode(text).ok());
        let proof = proof.ok_or("the server did not prove itself")?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.keys.server);
        hmac::verify(&key, self.said.as_bytes(), &proof)
            .map_err(|_| "the server's proof is wrong".to_owned())
    }
}

fn mac(key: &Key, text: &[u8]) -> Key {
    let mut out = [0; 32];
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    out.copy_from_slice(tag.as_ref());
    out
}

fn hash(of: &Key) -> Key {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, of).as_ref());
    out
}

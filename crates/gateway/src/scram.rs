//! SCRAM-SHA-256, the server's side (RFC 5802 and 7677), with stored verifiers.
//!
//! What a client proves itself with also gives its `ClientKey`, with which the gateway can log
//! in at a server that has the same verifier, without ever having seen the password.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};
use thiserror::Error;

/// Name of the mechanism without and with channel binding.
pub const SCRAM: &str = "SCRAM-SHA-256";
/// Name of the mechanism with channel binding.
pub const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Rounds of hashing, as PostgreSQL has them unless told otherwise.
const ITERATIONS: u32 = 4096;
/// Longest message of a client.
const LONGEST: usize = 2048;

/// A key of SHA-256's length.
pub type Key = [u8; 32];

/// What a server stores of a password, as in `pg_authid.rolpassword`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Rounds of hashing.
    pub iterations: NonZeroU32,
    /// Salt.
    pub salt: Vec<u8>,
    /// Hash of the client's key.
    pub stored_key: Key,
    /// Key with which the server proves itself.
    pub server_key: Key,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

/// Why a client is not let in, or a verifier cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ScramError {
    /// The stored verifier is none.
    #[error("the stored password is no SCRAM-SHA-256 verifier")]
    Verifier,
    /// A message that breaks the rules.
    #[error("malformed SCRAM message ({0})")]
    Malformed(&'static str),
    /// The channel that the client sees is another than the gateway's: somebody is in between.
    #[error("SCRAM channel binding check failed")]
    Binding,
    /// The proof is wrong.
    #[error("password authentication failed")]
    Proof,
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$iterations:salt$stored:server`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Verifier, ScramError> {
        let parts = || {
            let rest = text.strip_prefix("SCRAM-SHA-256$")?;
            let (front, keys) = rest.split_once('$')?;
            let (iterations, salt) = front.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
            Some(Verifier {
                // However many: they are the client's to do, which may refuse to.
                iterations: iterations.parse().ok()?,
                salt: STANDARD.decode(salt).ok()?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        parts().ok_or(ScramError::Verifier)
    }

    /// A new verifier of a password.
    ///
    /// # Errors
    /// Never, as long as the library that makes it and this one agree.
    pub fn of_password(password: &str) -> Result<Verifier, ScramError> {
        Verifier::parse(&postgres_protocol::password::scram_sha_256(password.as_bytes()))
    }

    /// What stands for the verifier of a name that nobody has: the same each time, as a name
    /// that somebody has would have; `rounds` is how many those have, where that is known.
    pub fn made_up(secret: &Key, name: &str, rounds: Option<NonZeroU32>) -> Verifier {
        let key = |what: &str| mac(secret, format!("{what} {name}").as_bytes());
        Verifier {
            iterations: rounds.or(NonZeroU32::new(ITERATIONS)).unwrap_or(NonZeroU32::MIN),
            salt: key("salt")[..16].to_vec(),
            stored_key: key("stored key"),
            server_key: key("server key"),
        }
    }
}

fn mac(key: &[u8], text: &[u8]) -> Key {
    let mut out = [0; 32];
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    out.copy_from_slice(tag.as_ref());
    out
}

fn hash(of: &[u8]) -> Key {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, of).as_ref());
    out
}

/// An exchange with one client.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    /// Whether somebody has the name that the client gave: if not, no proof is right.
    is_known: bool,
    /// Hash of the gateway's certificate, where the client may bind to it.
    end_point: Option<Vec<u8>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Start,
    Challenged { nonce: String, binding: Vec<u8>, messages: String },
    Ended,
}

/// A client that proved itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Proven {
    /// The message with which the gateway proves itself.
    pub answer: Vec<u8>,
    /// The client's key.
    pub client_key: Key,
}

impl Exchange {
    /// An exchange with a client that claims a name with this verifier. For a name that nobody
    /// has, `verifier` is made up, always the same for one name, and no proof is accepted.
    pub fn new(verifier: Verifier, is_known: bool, end_point: Option<Vec<u8>>) -> Exchange {
        Exchange { verifier, is_known, end_point, state: State::Start }
    }

    /// Whether the challenge was sent.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.state, State::Start)
    }

    /// Key with which the server proves itself.
    pub fn server_key(&self) -> Key {
        self.verifier.server_key
    }

    /// Answers the client's first message with the challenge; `nonce` is random printable text.
    ///
    /// # Errors
    /// When the message breaks the rules.
    pub fn challenge(
        &mut self,
        mechanism: &str,
        message: &[u8],
        nonce: &str,
    ) -> Result<Vec<u8>, ScramError> {
        if !matches!(self.state, State::Start) || message.len() > LONGEST {
            return Err(ScramError::Malformed("a message out of turn"));
        }
        let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let (flag, rest) =
            text.split_once(',').ok_or(ScramError::Malformed("no channel binding flag"))?;
        let (name, bare) =
            rest.split_once(',').ok_or(ScramError::Malformed("no authorization identity"))?;
        if !name.is_empty() {
            return Err(ScramError::Malformed("an authorization identity"));
        }
        let plus = mechanism == SCRAM_PLUS;
        let binding = match (flag, &self.end_point) {
            ("n", _) if !plus => Vec::new(),
            // It could bind and was told that the gateway cannot: somebody hid the offer.
            ("y", Some(_)) if !plus => return Err(ScramError::Binding),
            ("y", None) if !plus => Vec::new(),
            ("p=tls-server-end-point", Some(hash)) if plus => hash.clone(),
            _ => return Err(ScramError::Malformed("unexpected channel binding flag")),
        };
        let mut fields = bare.split(',');
        // The name in it is not looked at: that of the startup packet counts.
        let user = fields.next().and_then(|field| field.strip_prefix("n="));
        user.ok_or(ScramError::Malformed("no user name"))?;
        let theirs = fields.next().and_then(|field| field.strip_prefix("r="));
        let theirs = theirs.filter(|nonce| nonce.bytes().all(|b| b.is_ascii_graphic()));
        let theirs = theirs.filter(|nonce| !nonce.is_empty());
        let nonce = format!("{}{nonce}", theirs.ok_or(ScramError::Malformed("no nonce"))?);
        let challenge = format!(
            "r={nonce},s={},i={}",
            STANDARD.encode(&self.verifier.salt),
            self.verifier.iterations
        );
        let mut header = format!("{flag},,").into_bytes();
        header.extend(binding);
        self.state =
            State::Challenged { nonce, binding: header, messages: format!("{bare},{challenge}") };
        Ok(challenge.into_bytes())
    }

    /// Checks the client's proof.
    ///
    /// # Errors
    /// When it is wrong.
    pub fn finish(&mut self, message: &[u8]) -> Result<Proven, ScramError> {
        let State::Challenged { nonce, binding, messages } =
            std::mem::replace(&mut self.state, State::Ended)
        else {
            return Err(ScramError::Malformed("a message out of turn"));
        };
        if message.len() > LONGEST {
            return Err(ScramError::Malformed("a message too long"));
        }
        let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let (before, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed("no proof"))?;
        let mut fields = before.split(',');
        let channel = fields.next().and_then(|field| field.strip_prefix("c="));
        let channel = channel.and_then(|field| STANDARD.decode(field).ok());
        if channel.ok_or(ScramError::Malformed("no channel binding"))? != binding {
            return Err(ScramError::Binding);
        }
        if fields.next().and_then(|field| field.strip_prefix("r=")) != Some(&nonce) {
            return Err(ScramError::Malformed("another nonce"));
        }
        let proof: Key = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed("a proof of another length"))?;
        let said = format!("{messages},{before}");
        let signature = mac(&self.verifier.stored_key, said.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, of)| *byte ^= of);
        let right = same(&hash(&client_key), &self.verifier.stored_key);
        if !right || !self.is_known {
            return Err(ScramError::Proof);
        }
        let proven = mac(&self.verifier.server_key, said.as_bytes());
        let answer = format!("v={}", STANDARD.encode(proven)).into_bytes();
        Ok(Proven { answer, client_key })
    }
}

/// Compares in the same time whatever is equal.
fn same(a: &Key, b: &Key) -> bool {
    a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use proptest::prelude::*;

    use super::*;

    const PASSWORD: &str = "it's a: s%cret\\";

    /// The exchange with a client that another library plays.
    fn exchange(
        password: &str,
        is_known: bool,
        (mechanism, binding): (&str, ChannelBinding),
        end_point: Option<Vec<u8>>,
    ) -> Result<(), ScramError> {
        let verifier = Verifier::of_password(PASSWORD)?;
        let mut ours = Exchange::new(verifier.clone(), is_known, end_point);
        let mut client = ScramSha256::new(password.as_bytes(), binding);
        let challenge = ours.challenge(mechanism, client.message(), "0123456789")?;
        client.update(&challenge).unwrap();
        let last = client.message().to_vec();
        let proven = ours.finish(&last)?;
        client.finish(&proven.answer).expect("the gateway proves itself");
        assert!(ours.finish(&last).is_err(), "once only");
        assert_eq!(hash(&proven.client_key), verifier.stored_key);
        Ok(())
    }

    #[test]
    fn who_knows_the_password_is_let_in_and_nobody_else() {
        let plain = || (SCRAM, ChannelBinding::unsupported());
        assert_eq!(exchange(PASSWORD, true, plain(), None), Ok(()));
        assert_eq!(exchange("wrong", true, plain(), None), Err(ScramError::Proof));
        assert_eq!(exchange(PASSWORD, false, plain(), None), Err(ScramError::Proof));
    }

    #[test]
    fn a_channel_that_is_not_the_gateways_is_refused() {
        let bound = |hash: u8| (SCRAM_PLUS, ChannelBinding::tls_server_end_point(vec![hash; 32]));
        assert!(exchange(PASSWORD, true, bound(7), Some(vec![7; 32])).is_ok());
        assert_eq!(exchange(PASSWORD, true, bound(8), Some(vec![7; 32])), Err(ScramError::Binding));
        // The client could have bound, and believes that the gateway cannot.
        let hidden = (SCRAM, ChannelBinding::unrequested());
        assert_eq!(exchange(PASSWORD, true, hidden, Some(vec![7; 32])), Err(ScramError::Binding));
    }

    #[test]
    fn a_verifier_is_read_as_the_server_stores_it() {
        // RFC 7677's own example: user "user", password "pencil".
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                    WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let verifier = Verifier::parse(text).unwrap();
        let mut exchange = Exchange::new(verifier.clone(), true, None);
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let challenge = exchange.challenge(SCRAM, first, nonce).unwrap();
        assert_eq!(
            String::from_utf8(challenge).unwrap(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let proven = exchange.finish(last).unwrap();
        assert_eq!(proven.answer, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        for bad in ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:x"] {
            assert_eq!(Verifier::parse(bad), Err(ScramError::Verifier), "{bad}");
        }
        assert!(!format!("{verifier:?}").contains('['), "keys are not shown");
        let many = Verifier::parse(&text.replace("4096", "789123456")).unwrap();
        assert_eq!(many.iterations.get(), 789_123_456);
    }

    proptest! {
        #[test]
        fn no_message_panics(first in ".{0,80}", second in ".{0,80}", plus in any::<bool>()) {
            let verifier = Verifier::made_up(&[7; 32], "x", None);
            let mut exchange = Exchange::new(verifier, true, plus.then(|| vec![1; 32]));
            let mechanism = if plus { SCRAM_PLUS } else { SCRAM };
            for first in [first.clone(), format!("n,,n=,r={first}")] {
                if exchange.challenge(mechanism, first.as_bytes(), "abc").is_ok() {
                    let _ = exchange.finish(second.as_bytes());
                }
            }
        }
    }
}

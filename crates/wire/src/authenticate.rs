//! Logging in: the answers to what the server asks for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding as Binding, ScramSha256};
use postgres_protocol::message::frontend;
use ring::rand::{SecureRandom, SystemRandom};

use crate::backend::Authentication;
use crate::require_auth::AuthMethod;
use crate::scram_keys::KeyExchange;
use crate::{ChannelBinding, ConnectOptions, Secret, WireError};

const SCRAM: &str = "SCRAM-SHA-256";
const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// What the messages travel on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Channel {
    /// A unix socket, which nobody else can read.
    Local,
    /// A network, without TLS.
    Plain,
    /// TLS; the server's end point is what SCRAM can bind to, where its certificate
    /// gives one.
    Tls { end_point: Option<Vec<u8>> },
}

/// Where the exchange stands.
#[derive(Default)]
enum Step {
    #[default]
    Start,
    Scram(ScramSha256),
    /// SCRAM by keys.
    Keys(KeyExchange),
    /// The proof or password is sent, or the server's proof seen.
    Done,
}

/// Answers authentication requests until the server is content.
pub(crate) struct Login<'a> {
    options: &'a ConnectOptions,
    channel: Channel,
    step: Step,
    /// Whether SCRAM is bound to the channel.
    bound: bool,
}

impl<'a> Login<'a> {
    pub(crate) fn new(options: &'a ConnectOptions, channel: Channel) -> Self {
        Login { options, channel, step: Step::Start, bound: false }
    }

    /// Appends the answer to a request; `true` when the server let us in.
    pub(crate) fn answer(
        &mut self,
        request: &Authentication,
        out: &mut BytesMut,
    ) -> Result<bool, WireError> {
        self.check_required(request)?;
        self.check_binding(request)?;
        match (request, &mut self.step) {
            // It would let us in without proving that it knows the password.
            (Authentication::Ok, Step::Scram(_) | Step::Keys(_)) => {
                return Err(WireError::Scram(
                    "the server let us in without proving that it knows the password".into(),
                ));
            }
            (Authentication::Ok, _) => return Ok(true),
            (Authentication::CleartextPassword, Step::Start) => {
                self.check_clear_text()?;
                frontend::password_message(self.password()?.as_bytes(), out)?;
                self.step = Step::Done;
            }
            (Authentication::Md5Password { salt }, Step::Start) => {
                let hash =
                    md5_hash(self.options.user.as_bytes(), self.password()?.as_bytes(), *salt);
                frontend::password_message(hash.as_bytes(), out)?;
                self.step = Step::Done;
            }
            (Authentication::Sasl(mechanisms), Step::Start) => {
                self.start_scram(mechanisms, out)?;
            }
            (Authentication::SaslContinue(challenge), Step::Scram(scram)) => {
                scram.update(challenge).map_err(|e| WireError::Scram(e.to_string()))?;
                frontend::sasl_response(scram.message(), out)?;
            }
            (Authentication::SaslFinal(verdict), Step::Scram(scram)) => {
                scram.finish(verdict).map_err(|e| WireError::Scram(e.to_string()))?;
                self.step = Step::Done;
            }
            (Authentication::SaslContinue(challenge), Step::Keys(keys)) => {
                keys.update(challenge).map_err(WireError::Scram)?;
                frontend::sasl_response(keys.message(), out)?;
            }
            (Authentication::SaslFinal(verdict), Step::Keys(keys)) => {
                keys.finish(verdict).map_err(WireError::Scram)?;
                self.step = Step::Done;
            }
            (Authentication::Other(_), _) => {
                return Err(WireError::Authentication { method: request.name() });
            }
            _ => return Err(WireError::Scram("the server sent its messages out of turn".into())),
        }
        Ok(false)
    }

    /// Whether `require_auth` allows the request; the sentences are libpq's.
    fn check_required(&self, request: &Authentication) -> Result<(), WireError> {
        let required = &self.options.require_auth;
        let allowed = match request {
            // Trust, or an exchange that was not brought to its end.
            Authentication::Ok => {
                matches!(self.step, Step::Done) || required.allows(AuthMethod::None)
            }
            Authentication::CleartextPassword => required.allows(AuthMethod::Password),
            Authentication::Md5Password { .. } => required.allows(AuthMethod::Md5),
            Authentication::Sasl(_)
            | Authentication::SaslContinue(_)
            | Authentication::SaslFinal(_) => required.allows(AuthMethod::ScramSha256),
            Authentication::Other(7 | 8) => required.allows(AuthMethod::Gss),
            Authentication::Other(9) => required.allows(AuthMethod::Sspi),
            Authentication::Other(_) => required.is_anything(),
        };
        if allowed {
            return Ok(());
        }
        let what = match request {
            Authentication::Ok => "server did not complete authentication",
            Authentication::CleartextPassword => "server requested a cleartext password",
            Authentication::Md5Password { .. } => "server requested a hashed password",
            Authentication::Sasl(_)
            | Authentication::SaslContinue(_)
            | Authentication::SaslFinal(_) => "server requested SASL authentication",
            Authentication::Other(7 | 8) => "server requested GSSAPI authentication",
            Authentication::Other(9) => "server requested SSPI authentication",
            Authentication::Other(_) => "server requested an unknown authentication type",
        };
        Err(WireError::Refused(format!(
            "authentication method requirement \"{required}\" failed: {what}"
        )))
    }

    /// Whether `channel_binding` allows the request: under `require` nothing is sent that
    /// is not bound, and who lets us in must have proved that it is the other end.
    fn check_binding(&self, request: &Authentication) -> Result<(), WireError> {
        if self.options.tls.channel_binding != ChannelBinding::Require {
            return Ok(());
        }
        let what = match request {
            Authentication::Sasl(_)
            | Authentication::SaslContinue(_)
            | Authentication::SaslFinal(_) => return Ok(()),
            Authentication::Ok if self.bound && matches!(self.step, Step::Done) => return Ok(()),
            Authentication::Ok => {
                "channel binding required, but server authenticated client without channel binding"
            }
            _ => "channel binding required but not supported by server's authentication request",
        };
        Err(WireError::Refused(what.into()))
    }

    /// Whether a password may go as it is: on the network only where it was asked for.
    fn check_clear_text(&self) -> Result<(), WireError> {
        if self.channel != Channel::Plain || self.options.require_auth.names(AuthMethod::Password) {
            return Ok(());
        }
        Err(WireError::Refused(
            "the server asks for the password in clear text on a connection that is not \
             encrypted, so it was not sent: use sslmode=verify-full (or require), or \
             scram-sha-256 in the server's pg_hba.conf, or allow it with require_auth=password"
                .into(),
        ))
    }

    fn start_scram(&mut self, mechanisms: &[String], out: &mut BytesMut) -> Result<(), WireError> {
        let offers = |name: &str| mechanisms.iter().any(|offered| offered == name);
        if let Some(keys) = self.options.scram_keys.as_ref().filter(|_| offers(SCRAM)) {
            let nonce = STANDARD.encode(nonce()?);
            let exchange = KeyExchange::new(keys.clone(), nonce);
            frontend::sasl_initial_response(SCRAM, exchange.message(), out)?;
            self.step = Step::Keys(exchange);
            return Ok(());
        }
        let wanted = self.options.tls.channel_binding;
        let required = wanted == ChannelBinding::Require;
        let (mechanism, binding) = match &self.channel {
            Channel::Local | Channel::Plain if required => {
                return Err(WireError::Refused(
                    "channel binding required, but SSL not in use; use sslmode=require or more"
                        .into(),
                ));
            }
            // The server believes that it talks TLS: someone in between took it off.
            Channel::Local | Channel::Plain if offers(SCRAM_PLUS) => {
                return Err(WireError::Scram(format!(
                    "server offered {SCRAM_PLUS} authentication over a non-SSL connection"
                )));
            }
            Channel::Tls { end_point: Some(hash) }
                if offers(SCRAM_PLUS) && wanted != ChannelBinding::Disable =>
            {
                self.bound = true;
                (SCRAM_PLUS, Binding::tls_server_end_point(hash.clone()))
            }
            _ if required => {
                return Err(WireError::Refused(
                    "channel binding is required, but server did not offer an authentication \
                     method that supports channel binding"
                        .into(),
                ));
            }
            // "y" tells a server that does support binding that someone in
            // between must have hidden its offer.
            Channel::Tls { end_point: Some(_) }
                if wanted != ChannelBinding::Disable && offers(SCRAM) =>
            {
                (SCRAM, Binding::unrequested())
            }
            _ if offers(SCRAM) => (SCRAM, Binding::unsupported()),
            _ => return Err(WireError::Authentication { method: mechanisms.join(" or ") }),
        };
        let scram = ScramSha256::new(self.password()?.as_bytes(), binding);
        frontend::sasl_initial_response(mechanism, scram.message(), out)?;
        self.step = Step::Scram(scram);
        Ok(())
    }

    fn password(&self) -> Result<&'a str, WireError> {
        match self.options.password.as_ref().map(Secret::expose) {
            // libpq sends no empty password either.
            None | Some("") => Err(WireError::PasswordNeeded { user: self.options.user.clone() }),
            Some(password) if password.contains('\0') => {
                Err(WireError::Options("the password contains a NUL byte".into()))
            }
            Some(password) => Ok(password),
        }
    }
}

/// Random bytes of an exchange.
fn nonce() -> Result<[u8; 18], WireError> {
    let mut nonce = [0; 18];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| WireError::Scram("the system gives no random bytes".into()))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Host;

    fn options(password: Option<&str>) -> ConnectOptions {
        let mut options = ConnectOptions::new(Host::Tcp("db".into()), 5432, "alice", "app");
        options.password = password.map(Secret::new);
        options
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    fn tls() -> Channel {
        Channel::Tls { end_point: Some(vec![7; 32]) }
    }

    fn sasl(names: &[&str]) -> Authentication {
        Authentication::Sasl(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn md5_gives_the_hash_the_documentation_describes() {
        let options = options(Some("secret"));
        let mut out = BytesMut::new();
        let request = Authentication::Md5Password { salt: [1, 2, 3, 4] };
        assert!(!Login::new(&options, Channel::Plain).answer(&request, &mut out).unwrap());
        // md5(md5("secretalice") || 01020304), computed with another tool.
        let mut expected = BytesMut::new();
        frontend::password_message(b"md598a0412b9c31436fc53776e863350083", &mut expected).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn a_missing_password_is_said() {
        let options = options(None);
        let error = Login::new(&options, Channel::Local)
            .answer(&Authentication::CleartextPassword, &mut BytesMut::new())
            .unwrap_err();
        assert!(error.to_string().contains("PGPASSWORD"), "{error}");
    }

    #[test]
    fn the_channel_is_bound_where_it_can_be() {
        let chosen = |channel: Channel, offered: &[&str]| {
            let options = options(Some("x"));
            let mut out = BytesMut::new();
            Login::new(&options, channel).answer(&sasl(offered), &mut out).unwrap();
            // Type and length, the mechanism and its NUL, a length, the data.
            let (mechanism, data) =
                out[5..].split_at(out[5..].iter().position(|b| *b == 0).unwrap());
            (String::from_utf8(mechanism.to_vec()).unwrap(), char::from(data[5]))
        };
        let both = [SCRAM_PLUS, SCRAM];
        assert_eq!(chosen(tls(), &both), (SCRAM_PLUS.into(), 'p'));
        assert_eq!(chosen(tls(), &[SCRAM]), (SCRAM.into(), 'y'));
        let unbindable = Channel::Tls { end_point: None };
        assert_eq!(chosen(unbindable, &both), (SCRAM.into(), 'n'));
        assert_eq!(chosen(Channel::Plain, &[SCRAM]), (SCRAM.into(), 'n'));
    }

    fn refusal(options: &ConnectOptions, channel: Channel, request: &Authentication) -> String {
        let mut out = BytesMut::new();
        let error = Login::new(options, channel).answer(request, &mut out).unwrap_err();
        assert!(out.is_empty(), "nothing is sent");
        assert!(matches!(error, WireError::Refused(_)), "{error:?}");
        error.to_string()
    }

    #[test]
    fn required_binding_accepts_nothing_less() {
        let mut options = options(Some("x"));
        options.tls.channel_binding = ChannelBinding::Require;
        let refused = |channel, request| refusal(&options, channel, &request);
        assert!(refused(Channel::Plain, sasl(&[SCRAM])).contains("SSL not in use"));
        assert!(refused(Channel::Local, sasl(&[SCRAM])).contains("SSL not in use"));
        assert!(refused(tls(), sasl(&[SCRAM])).contains("did not offer"));
        assert!(refused(tls(), Authentication::Ok).contains("without channel binding"));
        for request in [
            Authentication::CleartextPassword,
            Authentication::Md5Password { salt: [0; 4] },
            Authentication::Other(7),
        ] {
            assert!(refused(tls(), request).contains("not supported"));
        }
    }

    #[test]
    fn required_methods_accept_nothing_else() {
        let refused = |required: &str, channel, request| {
            let mut options = options(Some("x"));
            options.require_auth = required.parse().unwrap();
            refusal(&options, channel, &request)
        };
        for (request, words) in [
            (Authentication::CleartextPassword, "server requested a cleartext password"),
            (Authentication::Md5Password { salt: [0; 4] }, "server requested a hashed password"),
            (Authentication::Ok, "server did not complete authentication"),
            (Authentication::Other(7), "server requested GSSAPI authentication"),
            (Authentication::Other(9), "server requested SSPI authentication"),
            (Authentication::Other(99), "server requested an unknown authentication type"),
        ] {
            let said = refused("scram-sha-256", tls(), request);
            let expected =
                format!("authentication method requirement \"scram-sha-256\" failed: {words}");
            assert_eq!(said, expected);
        }
        assert!(refused("none", tls(), sasl(&[SCRAM])).contains("SASL"));
        assert!(refused("!password", tls(), Authentication::CleartextPassword).contains("clear"));
        assert!(refused("!none", tls(), Authentication::Ok).contains("did not complete"));
    }

    #[test]
    fn a_password_goes_in_clear_only_where_nobody_can_read_it_or_where_that_was_asked_for() {
        let mut options = options(Some("open sesame"));
        let sent = |options: &ConnectOptions, channel| {
            let mut out = BytesMut::new();
            let request = Authentication::CleartextPassword;
            Login::new(options, channel).answer(&request, &mut out).map(|_| out)
        };
        for channel in [Channel::Local, tls(), Channel::Tls { end_point: None }] {
            assert!(contains(&sent(&options, channel).unwrap(), b"open sesame"));
        }
        let said = refusal(&options, Channel::Plain, &Authentication::CleartextPassword);
        assert!(said.contains("require_auth=password") && !said.contains("sesame"), "{said}");
        options.require_auth = "!md5".parse().unwrap();
        assert!(sent(&options, Channel::Plain).is_err(), "not forbidden is not asked for");
        options.require_auth = "scram-sha-256,password".parse().unwrap();
        assert!(contains(&sent(&options, Channel::Plain).unwrap(), b"open sesame"));
    }

    #[test]
    fn an_offer_of_binding_without_tls_is_a_sign_of_someone_in_between() {
        let options = options(Some("x"));
        let request = sasl(&[SCRAM_PLUS, SCRAM]);
        let error = Login::new(&options, Channel::Plain)
            .answer(&request, &mut BytesMut::new())
            .unwrap_err();
        assert!(error.to_string().contains("over a non-SSL connection"), "{error}");
    }

    #[test]
    fn a_server_may_not_ask_for_a_million_rounds_of_hashing() {
        let options = options(Some("x"));
        let mut login = Login::new(&options, Channel::Plain);
        let mut out = BytesMut::new();
        login.answer(&sasl(&[SCRAM]), &mut out).unwrap();
        let nonce = String::from_utf8_lossy(&out).split("r=").nth(1).unwrap().to_owned();
        let challenge = format!("r={nonce}x,s=c2FsdA==,i=4294967295").into_bytes();
        let error = login.answer(&Authentication::SaslContinue(challenge), &mut out).unwrap_err();
        assert!(error.to_string().contains("iteration"), "{error}");
    }

    #[test]
    fn a_server_that_skips_its_proof_is_refused() {
        let options = options(Some("x"));
        let mut login = Login::new(&options, Channel::Plain);
        let mut out = BytesMut::new();
        login.answer(&sasl(&[SCRAM]), &mut out).unwrap();
        assert!(login.answer(&Authentication::Ok, &mut out).is_err());
        assert!(
            Login::new(&options, Channel::Plain)
                .answer(&Authentication::SaslFinal(Vec::new()), &mut out)
                .is_err()
        );
    }

    #[test]
    fn unsupported_methods_are_named() {
        let options = options(Some("x"));
        let error = Login::new(&options, Channel::Plain)
            .answer(&Authentication::Other(7), &mut BytesMut::new())
            .unwrap_err();
        assert!(error.to_string().contains("GSSAPI"));
    }

    fn request() -> impl Strategy<Value = Authentication> {
        let challenge = prop_oneof![
            "r=[a-z]{0,9},s=c2FsdA==,i=[0-9]{1,3}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..20),
        ];
        let mechanism = prop::sample::select(vec![SCRAM, SCRAM_PLUS, "OAUTHBEARER", ""]);
        prop_oneof![
            Just(Authentication::Ok),
            Just(Authentication::CleartextPassword),
            any::<[u8; 4]>().prop_map(|salt| Authentication::Md5Password { salt }),
            prop::collection::vec(mechanism.prop_map(str::to_owned), 0..3)
                .prop_map(Authentication::Sasl),
            challenge.clone().prop_map(Authentication::SaslContinue),
            challenge.prop_map(Authentication::SaslFinal),
            any::<u32>().prop_map(Authentication::Other),
        ]
    }

    proptest! {
        #[test]
        fn whatever_a_server_asks_a_password_goes_at_most_once_and_never_where_it_must_not(
            requests in prop::collection::vec(request(), 0..6),
            channel in prop::sample::select(vec![Channel::Local, Channel::Plain, tls()]),
            binding in prop::sample::select(vec![
                ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require,
            ]),
            required in prop::sample::select(vec!["", "password", "scram-sha-256", "!md5", "md5"]),
        ) {
            let mut options = options(Some("open sesame"));
            options.tls.channel_binding = binding;
            if !required.is_empty() {
                options.require_auth = required.parse().unwrap();
            }
            let mut login = Login::new(&options, channel.clone());
            let mut out = BytesMut::new();
            let mut admitted = false;
            for request in &requests {
                match login.answer(request, &mut out) {
                    Ok(done) => admitted = done,
                    Err(_) => break,
                }
                if admitted {
                    break;
                }
            }
            let clear = out.windows(11).filter(|window| window == b"open sesame").count();
            let hashed = out.windows(4).filter(|window| window == b"(md5")
                .count();
            prop_assert!(clear + hashed <= 1);
            if channel == Channel::Plain && required != "password" {
                prop_assert_eq!(clear, 0);
            }
            if binding == ChannelBinding::Require || required == "scram-sha-256" {
                prop_assert_eq!(clear + hashed, 0);
                // Nobody here knows the password, so nobody proves it.
                prop_assert!(!admitted);
            }
        }
    }
}

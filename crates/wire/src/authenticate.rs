//! Logging in: the answers to what the server asks for.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding as Binding, ScramSha256};

use crate::backend::Authentication;
use crate::frontend::{Password, SaslInitialResponse, SaslResponse};
use crate::{ChannelBinding, ConnectOptions, WireError};

const SCRAM: &str = "SCRAM-SHA-256";
const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Where the exchange stands.
#[derive(Default)]
enum Step {
    #[default]
    Start,
    Scram(ScramSha256),
    ScramDone,
}

/// Answers authentication requests until the server is content.
pub(crate) struct Login<'a> {
    options: &'a ConnectOptions,
    /// The server's end point when the stream is encrypted; outer `None` when not.
    end_point: Option<Option<Vec<u8>>>,
    step: Step,
    bound: bool,
}

impl<'a> Login<'a> {
    /// `end_point` is `None` without TLS, `Some(None)` with TLS whose
    /// certificate gives nothing to bind to.
    pub(crate) fn new(options: &'a ConnectOptions, end_point: Option<Option<Vec<u8>>>) -> Self {
        Login { options, end_point, step: Step::Start, bound: false }
    }

    /// Appends the answer to a request; `true` when the server let us in.
    pub(crate) fn answer(
        &mut self,
        request: &Authentication,
        out: &mut Vec<u8>,
    ) -> Result<bool, WireError> {
        match request {
            Authentication::Ok => return self.admitted().map(|()| true),
            Authentication::CleartextPassword => {
                Password { password: self.password()? }.write(out);
            }
            Authentication::Md5Password { salt } => {
                let hash =
                    md5_hash(self.options.user.as_bytes(), self.password()?.as_bytes(), *salt);
                Password { password: &hash }.write(out);
            }
            Authentication::Sasl(mechanisms) => self.start_scram(mechanisms, out)?,
            Authentication::SaslContinue(challenge) => match &mut self.step {
                Step::Scram(scram) => {
                    scram.update(challenge).map_err(|e| WireError::Scram(e.to_string()))?;
                    SaslResponse { data: scram.message() }.write(out);
                }
                _ => return Err(out_of_turn()),
            },
            Authentication::SaslFinal(verdict) => match &mut self.step {
                Step::Scram(scram) => {
                    scram.finish(verdict).map_err(|e| WireError::Scram(e.to_string()))?;
                    self.step = Step::ScramDone;
                }
                _ => return Err(out_of_turn()),
            },
            Authentication::Other(_) => {
                return Err(WireError::Authentication { method: request.name() });
            }
        }
        Ok(false)
    }

    /// Whether the server may let us in now.
    fn admitted(&self) -> Result<(), WireError> {
        if matches!(self.step, Step::Scram(_)) {
            return Err(WireError::Scram(
                "the server let us in without proving that it knows the password".into(),
            ));
        }
        if self.options.tls.channel_binding == ChannelBinding::Require && !self.bound {
            return Err(WireError::Scram(
                "channel binding is required and the server did not use it".into(),
            ));
        }
        Ok(())
    }

    fn start_scram(&mut self, mechanisms: &[String], out: &mut Vec<u8>) -> Result<(), WireError> {
        if !matches!(self.step, Step::Start) {
            return Err(out_of_turn());
        }
        let offers = |name: &str| mechanisms.iter().any(|offered| offered == name);
        let wanted = self.options.tls.channel_binding;
        let (mechanism, binding) = match &self.end_point {
            Some(Some(hash)) if offers(SCRAM_PLUS) && wanted != ChannelBinding::Disable => {
                self.bound = true;
                (SCRAM_PLUS, Binding::tls_server_end_point(hash.clone()))
            }
            _ if wanted == ChannelBinding::Require => {
                return Err(WireError::Scram(
                    "channel binding is required and cannot be had on this connection".into(),
                ));
            }
            // "y" tells a server that does support binding that someone in
            // between must have hidden its offer.
            Some(Some(_)) if wanted != ChannelBinding::Disable && offers(SCRAM) => {
                (SCRAM, Binding::unrequested())
            }
            _ if offers(SCRAM) => (SCRAM, Binding::unsupported()),
            _ => return Err(WireError::Authentication { method: mechanisms.join(" or ") }),
        };
        let scram = ScramSha256::new(self.password()?.as_bytes(), binding);
        SaslInitialResponse { mechanism, data: scram.message() }.write(out);
        self.step = Step::Scram(scram);
        Ok(())
    }

    fn password(&self) -> Result<&'a str, WireError> {
        match &self.options.password {
            Some(password) if !password.expose().contains('\0') => Ok(password.expose()),
            Some(_) => Err(WireError::Options("the password contains a NUL byte".into())),
            None => Err(WireError::PasswordNeeded { user: self.options.user.clone() }),
        }
    }
}

fn out_of_turn() -> WireError {
    WireError::Scram("the server sent its messages out of turn".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Secret};

    fn options(password: Option<&str>) -> ConnectOptions {
        let mut options = ConnectOptions::new(Host::Tcp("db".into()), 5432, "alice", "app");
        options.password = password.map(Secret::new);
        options
    }

    fn sasl(names: &[&str]) -> Authentication {
        Authentication::Sasl(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn md5_gives_the_hash_the_documentation_describes() {
        let options = options(Some("secret"));
        let mut out = Vec::new();
        let request = Authentication::Md5Password { salt: [1, 2, 3, 4] };
        assert!(!Login::new(&options, None).answer(&request, &mut out).unwrap());
        // md5(md5("secretalice") || 01020304), computed with another tool.
        let mut expected = Vec::new();
        Password { password: "md598a0412b9c31436fc53776e863350083" }.write(&mut expected);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn a_missing_password_is_said() {
        let options = options(None);
        let error = Login::new(&options, None)
            .answer(&Authentication::CleartextPassword, &mut Vec::new())
            .unwrap_err();
        assert!(error.to_string().contains("PGPASSWORD"), "{error}");
    }

    #[test]
    fn the_channel_is_bound_where_it_can_be() {
        let chosen = |end_point: Option<Option<Vec<u8>>>, offered: &[&str]| {
            let options = options(Some("x"));
            let mut out = Vec::new();
            Login::new(&options, end_point).answer(&sasl(offered), &mut out).unwrap();
            // Type and length, the mechanism and its NUL, a length, the data.
            let (mechanism, data) =
                out[5..].split_at(out[5..].iter().position(|b| *b == 0).unwrap());
            (String::from_utf8(mechanism.to_vec()).unwrap(), char::from(data[5]))
        };
        let bound = Some(Some(vec![7; 32]));
        let both = [SCRAM_PLUS, SCRAM];
        assert_eq!(chosen(bound.clone(), &both), (SCRAM_PLUS.into(), 'p'));
        assert_eq!(chosen(bound, &[SCRAM]), (SCRAM.into(), 'y'));
        assert_eq!(chosen(Some(None), &both), (SCRAM.into(), 'n'));
        assert_eq!(chosen(None, &[SCRAM]), (SCRAM.into(), 'n'));
    }

    #[test]
    fn required_binding_accepts_nothing_less() {
        let mut options = options(Some("x"));
        options.tls.channel_binding = ChannelBinding::Require;
        let mut out = Vec::new();
        assert!(Login::new(&options, None).answer(&sasl(&[SCRAM]), &mut out).is_err());
        assert!(Login::new(&options, None).answer(&Authentication::Ok, &mut out).is_err());
    }

    #[test]
    fn a_server_that_skips_its_proof_is_refused() {
        let options = options(Some("x"));
        let mut login = Login::new(&options, None);
        let mut out = Vec::new();
        login.answer(&sasl(&[SCRAM]), &mut out).unwrap();
        assert!(login.answer(&Authentication::Ok, &mut out).is_err());
        assert!(
            Login::new(&options, None)
                .answer(&Authentication::SaslFinal(Vec::new()), &mut out)
                .is_err()
        );
    }

    #[test]
    fn unsupported_methods_are_named() {
        let options = options(Some("x"));
        let error = Login::new(&options, None)
            .answer(&Authentication::Other(7), &mut Vec::new())
            .unwrap_err();
        assert!(error.to_string().contains("GSSAPI"));
    }
}

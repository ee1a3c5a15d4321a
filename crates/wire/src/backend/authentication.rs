//! What the server asks for before it lets a client in.

use crate::read::{Malformed, Reader, text};

/// Authentication request ('R').
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Done.
    Ok,
    /// The password in clear.
    CleartextPassword,
    /// An MD5 hash of password, user and salt.
    Md5Password {
        /// The salt.
        salt: [u8; 4],
    },
    /// SASL; names of the mechanisms offered, the preferred one first.
    Sasl(Vec<String>),
    /// The server's challenge in a SASL exchange.
    SaslContinue(Vec<u8>),
    /// The server's last message in a SASL exchange.
    SaslFinal(Vec<u8>),
    /// A method that is not built in, by its code.
    Other(u32),
}

impl Authentication {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "AuthenticationRequest");
        Ok(match reader.u32()? {
            0 => Authentication::Ok,
            3 => Authentication::CleartextPassword,
            5 => {
                let salt = reader.u32()?.to_be_bytes();
                Authentication::Md5Password { salt }
            }
            10 => {
                let mut mechanisms = Vec::new();
                loop {
                    let name = reader.cstr()?;
                    if name.is_empty() {
                        break Authentication::Sasl(mechanisms);
                    }
                    mechanisms.push(text(name));
                }
            }
            11 => Authentication::SaslContinue(reader.rest().to_vec()),
            12 => Authentication::SaslFinal(reader.rest().to_vec()),
            code => Authentication::Other(code),
        })
    }

    /// Name of the method, for messages to people.
    pub fn name(&self) -> String {
        match self {
            Authentication::Ok => "no".into(),
            Authentication::CleartextPassword => "password".into(),
            Authentication::Md5Password { .. } => "md5".into(),
            Authentication::Sasl(mechanisms) => mechanisms.join(" or "),
            Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => "SASL".into(),
            Authentication::Other(2) => "Kerberos V5".into(),
            Authentication::Other(7 | 8) => "GSSAPI".into(),
            Authentication::Other(9) => "SSPI".into(),
            Authentication::Other(code) => format!("unknown (code {code})"),
        }
    }
}

//! Answers to an authentication request. All of them have type 'p'.

use super::{cstr, message};

/// PasswordMessage: a password in clear or its MD5 hash.
#[derive(Clone, Copy)]
pub struct Password<'a> {
    /// The password or `md5` and the hash in hexadecimal.
    pub password: &'a str,
}

impl Password<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'p', |out| cstr(out, self.password));
    }
}

/// SASLInitialResponse: the mechanism chosen and the client's first message.
#[derive(Clone, Copy)]
pub struct SaslInitialResponse<'a> {
    /// `SCRAM-SHA-256` or `SCRAM-SHA-256-PLUS`.
    pub mechanism: &'a str,
    /// The client-first-message.
    pub data: &'a [u8],
}

impl SaslInitialResponse<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'p', |out| {
            cstr(out, self.mechanism);
            out.extend_from_slice(&(self.data.len() as u32).to_be_bytes());
            out.extend_from_slice(self.data);
        });
    }
}

/// SASLResponse: the client's later messages.
#[derive(Clone, Copy)]
pub struct SaslResponse<'a> {
    /// The client-final-message.
    pub data: &'a [u8],
}

impl SaslResponse<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'p', |out| out.extend_from_slice(self.data));
    }
}

//! The packets a connection opens with. They have no type byte.

use super::{cstr, with_length};

/// Protocol 3.0. Version 3.2 (PostgreSQL 18) only lengthens cancel keys.
const PROTOCOL: u32 = 3 << 16;
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;

/// StartupMessage.
#[derive(Debug, Clone, Copy)]
pub struct Startup<'a> {
    /// Parameters: `user`, `database` and run-time settings.
    pub parameters: &'a [(&'a str, &'a str)],
}

impl Startup<'_> {
    /// The first parameter that cannot be sent: an empty name or a NUL inside.
    pub fn check(&self) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(name, value)| name.is_empty() || name.contains('\0') || value.contains('\0'))
            .map(|(name, _)| *name)
    }

    /// Appends the packet.
    pub fn write(&self, out: &mut Vec<u8>) {
        with_length(out, |out| {
            out.extend_from_slice(&PROTOCOL.to_be_bytes());
            for (name, value) in self.parameters {
                cstr(out, name);
                cstr(out, value);
            }
            out.push(0);
        });
    }
}

/// SSLRequest: answered with one byte, `S` (go on with TLS) or `N`.
#[derive(Debug, Clone, Copy)]
pub struct SslRequest;

impl SslRequest {
    /// Appends the packet.
    pub fn write(&self, out: &mut Vec<u8>) {
        with_length(out, |out| out.extend_from_slice(&SSL_REQUEST.to_be_bytes()));
    }
}

/// CancelRequest: on a connection of its own, answered with nothing.
#[derive(Clone, Copy)]
pub struct CancelRequest<'a> {
    /// Process of the backend.
    pub process: u32,
    /// Its secret key.
    pub key: &'a [u8],
}

impl CancelRequest<'_> {
    /// Appends the packet.
    pub fn write(&self, out: &mut Vec<u8>) {
        with_length(out, |out| {
            out.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
            out.extend_from_slice(&self.process.to_be_bytes());
            out.extend_from_slice(self.key);
        });
    }
}

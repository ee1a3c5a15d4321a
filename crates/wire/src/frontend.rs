//! Messages a client sends.
//!
//! Most are written by `postgres-protocol`; here are those that never change, and the two
//! packets that it writes for keys of four bytes and for parameters without names.

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::{TagSet, WireError};

/// Every type byte a client may send.
pub const TAGS: TagSet = TagSet::of(b"BCDEFHPQSXcdfp");
/// Sync ('S'): ends an implicit transaction and asks for ReadyForQuery.
pub const SYNC: [u8; 5] = *b"S\0\0\0\x04";
/// Terminate ('X').
pub const TERMINATE: [u8; 5] = *b"X\0\0\0\x04";
/// Query ('Q') that rolls back.
pub const ROLLBACK: [u8; 14] = *b"Q\0\0\0\x0dROLLBACK\0";
/// CopyFail ('f') of a client that has nothing to copy.
pub const NOTHING_TO_COPY: [u8; 42] = *b"f\0\0\0\x29a load script cannot COPY FROM STDIN\0";

/// CopyDone ('c'): all that is to be copied was sent.
pub const COPY_DONE: [u8; 5] = *b"c\0\0\0\x04";

const CANCEL_REQUEST: u32 = 80_877_102;

/// Most bytes of what is copied in one message: the server reads each whole before it looks
/// into it.
const COPY_CHUNK: usize = 64 * 1024;

/// Appends CopyData ('d') with these bytes, in as many messages as they take.
pub fn copy_data(data: &[u8], out: &mut Vec<u8>) {
    for chunk in data.chunks(COPY_CHUNK) {
        out.push(b'd');
        out.extend_from_slice(&(4 + chunk.len() as u32).to_be_bytes());
        out.extend_from_slice(chunk);
    }
}

/// StartupMessage with `user`, `database` and run-time settings.
///
/// # Errors
/// When a name is empty, or a name or value holds a NUL.
pub(crate) fn startup(parameters: &[(&str, &str)]) -> Result<BytesMut, WireError> {
    let unfit = |(name, value): &&(&str, &str)| {
        name.is_empty() || name.contains('\0') || value.contains('\0')
    };
    if let Some((name, _)) = parameters.iter().find(unfit) {
        return Err(WireError::Options(format!("parameter \"{name}\" cannot be sent")));
    }
    let mut out = BytesMut::new();
    frontend::startup_message(parameters.iter().copied(), &mut out)?;
    Ok(out)
}

/// CancelRequest: on a connection of its own, answered with nothing. Protocol 3.2
/// (PostgreSQL 18) has longer keys.
pub(crate) fn cancel_request(process: u32, key: &[u8]) -> Vec<u8> {
    let length = 12 + key.len() as u32;
    [&length.to_be_bytes(), &CANCEL_REQUEST.to_be_bytes(), &process.to_be_bytes(), key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<E: std::fmt::Debug>(write: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(&mut out).unwrap();
        out.to_vec()
    }

    #[test]
    fn what_never_changes_is_what_the_library_writes() {
        let always = |write: fn(&mut BytesMut)| {
            written(|out| {
                write(out);
                Ok::<_, ()>(())
            })
        };
        assert_eq!(SYNC.as_slice(), always(frontend::sync));
        assert_eq!(TERMINATE.as_slice(), always(frontend::terminate));
        assert_eq!(COPY_DONE.as_slice(), always(frontend::copy_done));
        assert_eq!(ROLLBACK.as_slice(), written(|out| frontend::query("ROLLBACK", out)));
        let reason = "a load script cannot COPY FROM STDIN";
        assert_eq!(NOTHING_TO_COPY.as_slice(), written(|out| frontend::copy_fail(reason, out)));
        assert_eq!(
            cancel_request(258, &[1, 2, 3, 4]),
            always(|out| frontend::cancel_request(258, 0x0102_0304, out))
        );
    }

    #[test]
    fn what_is_copied_goes_in_messages_of_bounded_length() {
        let data: Vec<u8> = (0..COPY_CHUNK + 10).map(|place| place as u8).collect();
        let mut out = Vec::new();
        copy_data(&data, &mut out);
        let expected = written(|out| {
            for chunk in [&data[..COPY_CHUNK], &data[COPY_CHUNK..]] {
                frontend::CopyData::new(chunk)?.write(out);
            }
            Ok::<_, std::io::Error>(())
        });
        assert_eq!(out, expected);
    }

    #[test]
    fn a_parameter_that_cannot_be_sent_is_named() {
        let sent = startup(&[("user", "me")]).unwrap();
        assert_eq!(&sent[..], b"\0\0\0\x11\0\x03\0\0user\0me\0\0");
        for bad in [("b", "c\0d"), ("", "x"), ("b\0", "")] {
            let error = startup(&[("user", "a"), bad]).unwrap_err().to_string();
            assert!(error.contains("cannot be sent"), "{error}");
        }
    }
}

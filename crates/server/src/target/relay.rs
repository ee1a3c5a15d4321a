//! The stream of a session that is logged in, as tokio-postgres sees it.
//!
//! `wire` connects, encrypts and authenticates; what follows is handed to
//! tokio-postgres, which wants to do that itself. So its startup message is
//! swallowed and the server's answers at login are given to it once more.
//!
//! On the way every message is looked at: what a server merely announces must not
//! fill memory, nor what it sends without end, and its errors must be readable
//! whatever their encoding.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use walwright_wire::{Connection, Stream};

use super::text::readable;

/// Bytes of one message: the longest a control query is answered with is the text of
/// a statement, of which no more than some kilobytes are asked for.
const LONGEST_MESSAGE: usize = 16 << 20;
/// Bytes of memory that the whole answer to one query may take.
const LARGEST_ANSWER: usize = 40 << 20;
/// Bytes of memory that a row takes beside what was sent, and each of its values: a
/// server that sends many small ones must not get more than others.
const OF_ROW: usize = 160;
const OF_VALUE: usize = 48;
/// The same for each column that is described.
const OF_COLUMN: usize = 160;
/// Bytes of an error, which is held until it is whole.
const LONGEST_ERROR: usize = 1 << 20;
/// Bytes of a message before its contents: a tag and a length.
const HEADER: usize = 5;
/// Bytes asked of the socket at once.
const CHUNK: usize = 16 * 1024;

/// A logged-in stream that plays the login once more.
#[derive(Debug)]
pub(super) struct Relay {
    socket: AsyncFd<Stream>,
    messages: Messages,
    startup: Startup,
}

impl Relay {
    /// Takes a connection over. Needs a tokio runtime.
    pub(super) fn new(connection: Connection) -> io::Result<Relay> {
        let mut messages = Messages::default();
        let greeting = &mut messages.admitted;
        put(greeting, b'R', &0_u32.to_be_bytes());
        for (name, value) in connection.parameters() {
            put(greeting, b'S', &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        if let Some(key) = connection.key_data() {
            // Of a key longer than the four bytes of protocol 3.0 nothing depends on the
            // rest here: `wire` cancels.
            let secret = key.key.first_chunk::<4>().copied().unwrap_or_default();
            put(greeting, b'K', &[key.process.to_be_bytes(), secret].concat());
        }
        put(greeting, b'Z', b"I");
        messages.arrived.extend_from_slice(connection.leftover());
        messages.admit()?;
        let (stream, _) = connection.into_nonblocking().map_err(io::Error::other)?;
        // SAFETY: the stream owns its socket, gives out the same descriptor for as long as
        // it lives, and is never taken out of the `AsyncFd`, which is dropped before it.
        let socket = unsafe { AsyncFd::register(stream) }.map_err(|error| error.into_parts().1)?;
        Ok(Relay { socket, messages, startup: Startup::default() })
    }
}

fn put(into: &mut BytesMut, tag: u8, body: &[u8]) {
    into.put_u8(tag);
    into.put_u32(u32::try_from(body.len() + 4).unwrap_or(u32::MAX));
    into.put_slice(body);
}

/// How much of the startup message, which the server has had already, is still to be
/// swallowed.
#[derive(Debug, Default)]
enum Startup {
    #[default]
    Length,
    Body(usize),
    Over,
}

impl Startup {
    /// Bytes at the head of `written` that belong to it. tokio-postgres writes the
    /// message whole, so its length comes in one piece.
    fn swallowed(&mut self, written: &[u8]) -> usize {
        if let (Startup::Length, Some(length)) = (&self, written.first_chunk::<4>()) {
            *self = Startup::Body(u32::from_be_bytes(*length) as usize);
        }
        let Startup::Body(left) = self else { return 0 };
        let taken = written.len().min(*left);
        *left -= taken;
        if *left == 0 {
            *self = Startup::Over;
        }
        taken
    }
}

/// What has come from the server, message by message.
#[derive(Debug, Default)]
struct Messages {
    /// Bytes of which it is not yet known what they belong to.
    arrived: BytesMut,
    /// Bytes that may be read.
    admitted: BytesMut,
    /// Bytes of the message under way that are still to come.
    left: usize,
    /// Whether the message under way is of no interest.
    dropped: bool,
    /// Bytes of memory of the answer under way.
    answer: usize,
}

impl Messages {
    /// Moves on what may be read.
    fn admit(&mut self) -> io::Result<()> {
        loop {
            if self.left > 0 {
                let piece = self.arrived.len().min(self.left);
                let piece = self.arrived.split_to(piece);
                self.left -= piece.len();
                if !self.dropped {
                    self.admitted.unsplit(piece);
                }
            }
            let Some(header) = self.arrived.first_chunk::<HEADER>().filter(|_| self.left == 0)
            else {
                return Ok(());
            };
            let [tag, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            if length < 4 {
                return Err(damaged(format!("a message of length {length}, and 4 is the least")));
            }
            if length > LONGEST_MESSAGE {
                return Err(damaged(format!(
                    "a message of {} MB, and no answer to walwright is that long",
                    length >> 20
                )));
            }
            let whole = length + 1;
            let waits = match tag {
                b'E' => whole,
                b'D' | b'T' => whole.min(HEADER + 2),
                _ => HEADER,
            };
            if tag == b'E' && whole > LONGEST_ERROR {
                return Err(damaged("an error message of more than 1 MB".to_owned()));
            }
            if self.arrived.len() < waits {
                return Ok(());
            }
            self.answer += whole + self.beside(tag);
            if self.answer > LARGEST_ANSWER {
                return Err(damaged(format!(
                    "an answer to one query that takes more than {} MB",
                    LARGEST_ANSWER >> 20
                )));
            }
            if tag == b'E' {
                let message = self.arrived.split_to(whole);
                // Fields are strings that end in a zero byte, which stays.
                put(&mut self.admitted, tag, readable(&message[HEADER..]).as_bytes());
                continue;
            }
            if tag == b'Z' {
                self.answer = 0;
            }
            // Notices, settings that the server reports and notifications are nobody's
            // here, and would be kept.
            self.dropped = matches!(tag, b'N' | b'S' | b'A');
            self.left = whole;
        }
    }

    /// Bytes of memory that the message at hand will take beside itself.
    fn beside(&self, tag: u8) -> usize {
        let count = match self.arrived.get(HEADER..HEADER + 2) {
            Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        match tag {
            b'D' => OF_ROW + OF_VALUE * count,
            b'T' => OF_COLUMN * count,
            _ => 0,
        }
    }

    /// Whether a message has begun and not ended.
    fn is_inside(&self) -> bool {
        self.left > 0 || !self.arrived.is_empty()
    }
}

fn damaged(what: String) -> io::Error {
    let text = format!("the server sent {what}; the connection was given up");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl AsyncRead for Relay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.messages.admitted.is_empty() {
                let count = this.messages.admitted.len().min(into.remaining());
                into.put_slice(&this.messages.admitted[..count]);
                this.messages.admitted.advance(count);
                return Poll::Ready(Ok(()));
            }
            let mut ready = ready!(this.socket.poll_read_ready_mut(cx))?;
            let mut chunk = [0; CHUNK];
            match ready.get_inner_mut().read(&mut chunk) {
                Ok(0) if this.messages.is_inside() => {
                    return Poll::Ready(Err(damaged("half a message and closed".to_owned())));
                }
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(count) => {
                    this.messages.arrived.extend_from_slice(&chunk[..count]);
                    this.messages.admit()?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Relay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let swallowed = this.startup.swallowed(from);
        if swallowed > 0 {
            return Poll::Ready(Ok(swallowed));
        }
        loop {
            let mut ready = ready!(this.socket.poll_write_ready_mut(cx))?;
            match ready.get_inner_mut().write(from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.socket.get_mut().flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(this.socket.poll_write_ready_mut(cx))?.clear_ready();
                }
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        put(&mut bytes, tag, body);
        bytes.to_vec()
    }

    fn admitted(pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut messages = Messages::default();
        for piece in pieces {
            messages.arrived.extend_from_slice(piece);
            messages.admit()?;
        }
        Ok(messages.admitted.to_vec())
    }

    proptest! {
        #[test]
        fn whole_messages_pass_however_they_are_cut_but_those_for_nobody(
            bodies in prop::collection::vec((0_u8..8, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
            cut in 1_usize..50,
        ) {
            let mut all = Vec::new();
            let mut expected = Vec::new();
            for (kind, body) in &bodies {
                let tag = b"DTZECSNA"[usize::from(*kind)];
                all.extend(message(tag, body));
                let shown = readable(body).into_bytes();
                if !b"SNA".contains(&tag) {
                    expected.extend(message(tag, if tag == b'E' { &shown } else { body }));
                }
            }
            let pieces: Vec<&[u8]> = all.chunks(cut).collect();
            prop_assert_eq!(admitted(&pieces).unwrap(), expected);
        }

        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = admitted(&[&bytes]);
        }
    }

    #[test]
    fn what_is_announced_too_long_is_refused_before_it_comes() {
        let said = |bytes: &[u8]| admitted(&[bytes]).unwrap_err().to_string();
        assert!(said(b"D\x7f\xff\xff\xff").contains("a message of 2047 MB"));
        assert!(said(b"D\0\0\0\x03").contains("length 3"));
        assert!(said(b"E\0\x20\0\0").contains("error message"));
    }

    #[test]
    fn an_answer_without_end_is_refused_and_many_answers_are_not() {
        let row = message(b'D', &vec![0; 1 << 20]);
        let endless = |message: &[u8], times| {
            let said = admitted(&vec![message; times]).unwrap_err().to_string();
            assert!(said.contains("more than 40 MB"), "{said}");
        };
        endless(&row, 50);
        // In memory a small row is many times as large.
        endless(&message(b'D', b"\0\x01\0\0\0\x01x"), 250_000);
        endless(&message(b'D', &[&[0x75, 0x30], [0xff; 120_000].as_slice()].concat()), 40);
        let mut messages = Messages::default();
        let ready = message(b'Z', b"I");
        for _ in 0..60 {
            messages.arrived.extend_from_slice(&row);
            messages.arrived.extend_from_slice(&ready);
            messages.admit().unwrap();
            messages.admitted.clear();
        }
    }

    #[test]
    fn an_error_in_another_encoding_can_be_read() {
        let sent = message(b'E', b"Mcaf\xe9\0\0");
        assert_eq!(admitted(&[&sent]).unwrap(), message(b'E', b"Mcaf\\xe9\0\0"));
    }

    #[test]
    fn the_startup_message_is_swallowed_and_nothing_else() {
        let mut startup = Startup::default();
        let mut sent = 20_u32.to_be_bytes().to_vec();
        sent.extend([7; 16]);
        sent.extend(b"Q");
        assert_eq!(startup.swallowed(&sent[..10]), 10);
        assert_eq!(startup.swallowed(&sent[10..]), 10);
        assert_eq!(startup.swallowed(b"Q"), 0);
    }
}

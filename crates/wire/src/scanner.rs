//! Finding message boundaries in a stream of bytes.
//!
//! A [`Scanner`] reads only type and length of each message and hands out those
//! bodies that were asked for. It keeps what it needs of a message that is split
//! between two reads, so the bytes can come in a buffer shared by many
//! connections, and the result does not depend on how they were split.

use thiserror::Error;

use crate::TagSet;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type byte.
    pub tag: u8,
    /// Length of its body in bytes.
    pub length: usize,
    /// Its body, if its type was wanted; else `None`, however it arrived.
    pub body: Option<&'a [u8]>,
}

/// Bytes that cannot be the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A type byte no message has.
    #[error("message type 0x{0:02x} does not exist")]
    UnknownType(u8),
    /// A length that no message can have.
    #[error("message '{}' claims a length of {length} bytes", char::from(*.tag))]
    Length {
        /// Its type byte.
        tag: u8,
        /// The length field, which counts itself.
        length: u32,
    },
    /// A message that would have to be kept and is longer than allowed.
    #[error("message '{}' of {length} bytes is longer than the limit of {limit}", char::from(*.tag))]
    TooLong {
        /// Its type byte.
        tag: u8,
        /// Length of its body.
        length: usize,
        /// Longest body that is kept.
        limit: usize,
    },
}

/// Longest message PostgreSQL sends or takes (`MaxAllocSize`, 1 GiB - 1).
const LONGEST: u32 = 0x3fff_ffff;
/// Longest body handed out unless told otherwise.
const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;
/// Memory kept for split messages between two of them.
const KEEP_CAPACITY: usize = 64 * 1024;
const HEADER: usize = 5;

/// Where the scanner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the header; so many bytes of it are in `header`.
    Header(u8),
    /// In a body that is wanted and goes to `kept`.
    Keeping { tag: u8, length: usize },
    /// In a body nobody wants; so many bytes are still to come.
    Skipping { tag: u8, length: usize, remaining: usize },
}

/// Finds messages in bytes that arrive in pieces.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    header: [u8; HEADER],
    kept: Vec<u8>,
    known: TagSet,
    limit: usize,
}

impl Scanner {
    /// A scanner for what servers send.
    pub fn backend() -> Self {
        Scanner::new(crate::backend::TAGS)
    }

    /// A scanner for what clients send after the startup packet.
    pub fn frontend() -> Self {
        Scanner::new(crate::frontend::TAGS)
    }

    fn new(known: TagSet) -> Self {
        Scanner {
            state: State::Header(0),
            header: [0; HEADER],
            kept: Vec::new(),
            known,
            limit: DEFAULT_LIMIT,
        }
    }

    /// Sets the longest body that is handed out, in bytes; 16 MiB unless set.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether the scanner stands between two messages.
    pub fn at_boundary(&self) -> bool {
        self.state == State::Header(0)
    }

    /// The next message that is complete, or `None` when more bytes are needed.
    ///
    /// `input` is moved past what was read. A body is handed out for types in
    /// `wanted`, and that is decided when the message's header is complete.
    ///
    /// # Errors
    /// When the bytes cannot be the protocol; the stream is of no use after that.
    #[inline]
    pub fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
        wanted: TagSet,
    ) -> Result<Option<Frame<'s>>, FrameError> {
        // Nearly always a message lies whole in the input.
        if self.state == State::Header(0)
            && let Some((header, rest)) = input.split_first_chunk::<HEADER>()
        {
            let (tag, length) = self.check(*header)?;
            if let Some((body, rest)) = rest.split_at_checked(length) {
                *input = rest;
                let body = if wanted.contains(tag) {
                    self.admit(tag, length)?;
                    Some(body)
                } else {
                    None
                };
                return Ok(Some(Frame { tag, length, body }));
            }
        }
        self.next_split(input, wanted)
    }

    /// The same for a message that does not lie whole in the input.
    fn next_split<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
        wanted: TagSet,
    ) -> Result<Option<Frame<'s>>, FrameError> {
        if let State::Header(have) = self.state {
            let have = usize::from(have);
            let take = input.len().min(HEADER - have);
            let (head, rest) = input.split_at(take);
            self.header[have..have + take].copy_from_slice(head);
            *input = rest;
            if have + take < HEADER {
                // At most 4, so it fits.
                self.state = State::Header((have + take) as u8);
                return Ok(None);
            }
            let (tag, length) = self.check(self.header)?;
            self.state = if wanted.contains(tag) {
                self.admit(tag, length)?;
                self.kept.clear();
                self.kept.shrink_to(KEEP_CAPACITY);
                State::Keeping { tag, length }
            } else {
                State::Skipping { tag, length, remaining: length }
            };
        }
        match self.state {
            State::Header(_) => Ok(None),
            State::Keeping { tag, length } => {
                let take = input.len().min(length - self.kept.len());
                let (part, rest) = input.split_at(take);
                self.kept.extend_from_slice(part);
                *input = rest;
                if self.kept.len() < length {
                    return Ok(None);
                }
                self.state = State::Header(0);
                Ok(Some(Frame { tag, length, body: Some(&self.kept) }))
            }
            State::Skipping { tag, length, remaining } => {
                let take = input.len().min(remaining);
                *input = &input[take..];
                if take < remaining {
                    self.state = State::Skipping { tag, length, remaining: remaining - take };
                    return Ok(None);
                }
                self.state = State::Header(0);
                Ok(Some(Frame { tag, length, body: None }))
            }
        }
    }

    /// Type and body length of a header, if they are possible.
    #[inline]
    fn check(&self, header: [u8; HEADER]) -> Result<(u8, usize), FrameError> {
        let [tag, a, b, c, d] = header;
        let length = u32::from_be_bytes([a, b, c, d]);
        if !self.known.contains(tag) {
            return Err(FrameError::UnknownType(tag));
        }
        if !(4..=LONGEST).contains(&length) {
            return Err(FrameError::Length { tag, length });
        }
        Ok((tag, length as usize - 4))
    }

    #[inline]
    fn admit(&self, tag: u8, length: usize) -> Result<(), FrameError> {
        if length > self.limit {
            return Err(FrameError::TooLong { tag, length, limit: self.limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::{COMMAND_COMPLETE, DATA_ROW, READY_FOR_QUERY, TAGS};

    type Owned = (u8, usize, Option<Vec<u8>>);

    /// Scans pieces one after the other until their end or an error.
    fn scan(pieces: &[&[u8]], wanted: TagSet) -> (Vec<Owned>, Option<FrameError>) {
        let mut scanner = Scanner::backend().with_limit(4096);
        let mut found = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match scanner.next(&mut input, wanted) {
                    Ok(Some(frame)) => {
                        found.push((frame.tag, frame.length, frame.body.map(<[u8]>::to_vec)));
                    }
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
            assert!(input.is_empty(), "the scanner left bytes and asked for more");
        }
        (found, None)
    }

    /// Cuts bytes at the given places.
    fn split<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    fn message() -> impl Strategy<Value = Vec<u8>> {
        let tags: Vec<u8> = (0..128).filter(|&tag| TAGS.contains(tag)).collect();
        (prop::sample::select(tags), prop::collection::vec(any::<u8>(), 0..200)).prop_map(
            |(tag, body)| {
                let mut bytes = vec![tag];
                bytes.extend((body.len() as u32 + 4).to_be_bytes());
                bytes.extend(body);
                bytes
            },
        )
    }

    proptest! {
        #[test]
        fn scanning_does_not_depend_on_the_split(
            messages in prop::collection::vec(message(), 0..20),
            cuts in prop::collection::vec(any::<usize>(), 0..30),
            wanted in any::<u128>(),
        ) {
            let bytes = messages.concat();
            let whole = scan(&[&bytes], TagSet(wanted));
            prop_assert_eq!(whole.0.len(), messages.len());
            prop_assert_eq!(whole.1, None);
            prop_assert_eq!(scan(&split(&bytes, &cuts), TagSet(wanted)), whole);
        }

        #[test]
        fn arbitrary_bytes_give_the_same_error_however_split(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(any::<usize>(), 0..30),
        ) {
            let whole = scan(&[&bytes], TagSet::ALL);
            prop_assert_eq!(scan(&split(&bytes, &cuts), TagSet::ALL), whole);
        }

        #[test]
        fn a_truncated_stream_gives_a_prefix(
            messages in prop::collection::vec(message(), 1..10),
            cut in any::<usize>(),
        ) {
            let bytes = messages.concat();
            let cut = cut % bytes.len();
            let (found, error) = scan(&[&bytes[..cut]], TagSet::ALL);
            let (all, _) = scan(&[&bytes], TagSet::ALL);
            prop_assert_eq!(error, None);
            prop_assert!(found.len() < all.len());
            prop_assert_eq!(&found[..], &all[..found.len()]);
        }
    }

    #[test]
    fn bodies_are_given_only_where_wanted() {
        let bytes = b"D\0\0\0\x06\0\0C\0\0\0\x09UP 1\0Z\0\0\0\x05I";
        let (found, error) = scan(&[bytes], TagSet::of(&[READY_FOR_QUERY]));
        assert_eq!(error, None);
        let expected = [
            (DATA_ROW, 2, None),
            (COMMAND_COMPLETE, 5, None),
            (READY_FOR_QUERY, 1, Some(b"I".to_vec())),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn impossible_lengths_and_types_are_refused() {
        let of = |bytes: &[u8]| scan(&[bytes], TagSet::ALL).1;
        assert_eq!(of(b"Z\0\0\0\x03"), Some(FrameError::Length { tag: b'Z', length: 3 }));
        assert_eq!(
            of(b"Z\xff\xff\xff\xff"),
            Some(FrameError::Length { tag: b'Z', length: u32::MAX })
        );
        assert_eq!(of(b"\x16\x03\x01\0\x02"), Some(FrameError::UnknownType(0x16)));
        assert_eq!(
            of(b"D\0\0\xff\xff"),
            Some(FrameError::TooLong { tag: b'D', length: 65_531, limit: 4096 })
        );
    }

    #[test]
    fn a_long_body_nobody_wants_takes_no_memory() {
        let mut scanner = Scanner::backend();
        let header = b"d\x20\0\0\0";
        let mut input = &header[..];
        assert_eq!(scanner.next(&mut input, TagSet::EMPTY), Ok(None));
        let block = vec![0; 1 << 20];
        for _ in 0..3 {
            let mut input = &block[..];
            assert_eq!(scanner.next(&mut input, TagSet::EMPTY), Ok(None));
        }
        assert_eq!(scanner.kept.capacity(), 0);
    }
}

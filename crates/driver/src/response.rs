//! Answers of HTTP/1.1 (RFC 9112), read from the bytes of a connection.

use thiserror::Error;

/// Longest head of an answer: status line and header fields.
const LONGEST_HEAD: usize = 64 * 1024;
/// Most header fields of an answer.
const MOST_FIELDS: usize = 128;
/// Longest body of an answer.
const LONGEST_BODY: u64 = 256 * 1024 * 1024;
/// Longest line between the chunks of a body.
const LONGEST_LINE: usize = 4096;
/// Bytes kept of the body of an answer that is an error.
const SAMPLE: usize = 512;
/// Longest body that is kept whole.
const LONGEST_KEPT: usize = 16 * 1024 * 1024;

/// Bytes that are no answer, or one that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ResponseError {
    #[error("the server sent something when nothing was asked of it")]
    Unasked,
    #[error("the server's answer is not HTTP/1.1: {0}")]
    NotHttp(httparse::Error),
    #[error("the head of the server's answer is longer than {} KiB", LONGEST_HEAD / 1024)]
    LongHead,
    #[error("the body of the server's answer is longer than {} MiB", LONGEST_BODY / (1024 * 1024))]
    LongBody,
    #[error("the server's answer has a Content-Length that is none, or two that differ")]
    Length,
    #[error("a chunk of the server's answer has no length, or no end")]
    Chunk,
    #[error("the server changes to another protocol (status 101)")]
    Upgrade,
}

/// What is asked of an answer beside its status.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    /// Whether the request was HEAD, whose answer has no body whatever its head says.
    pub(crate) head_only: bool,
    /// Header fields that are kept, in this order.
    pub(crate) headers: &'a [String],
    /// Whether the whole body is kept.
    pub(crate) body: bool,
}

/// An answer, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Response {
    at: Place,
    pub(crate) status: u16,
    /// Whether the connection is of no more use behind it.
    pub(crate) closes: bool,
    /// Values of the fields that were wanted.
    pub(crate) headers: Vec<Option<String>>,
    /// As much of the body as was wanted; of an error its beginning.
    pub(crate) body: Vec<u8>,
    /// Bytes of a head or a line that is not whole.
    held: Vec<u8>,
    /// Bytes of the body so far.
    length: u64,
    keep: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Head,
    /// So many bytes of the body.
    Body(u64),
    /// The body ends with the connection.
    UntilClosed,
    ChunkSize,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The line break behind a chunk.
    ChunkEnd,
    Trailer,
}

impl Response {
    /// Takes in bytes; true once the answer is whole. What follows it stays in `input`.
    ///
    /// # Errors
    /// Where they are no answer: nothing can be told of what follows then.
    pub(crate) fn take(
        &mut self,
        input: &mut &[u8],
        wanted: Wanted<'_>,
    ) -> Result<bool, ResponseError> {
        while !input.is_empty() {
            match self.at {
                Place::Head => {
                    if self.head(input, wanted)? {
                        return Ok(true);
                    }
                }
                Place::Body(left) => {
                    let left = self.content(input, left)?;
                    self.at = Place::Body(left);
                    if left == 0 {
                        return Ok(self.end());
                    }
                }
                Place::UntilClosed => {
                    self.content(input, u64::MAX)?;
                }
                Place::ChunkSize => {
                    if let Some(size) = self.line(input, chunk_size)? {
                        let size = size.ok_or(ResponseError::Chunk)?;
                        self.at = if size == 0 { Place::Trailer } else { Place::Chunk(size) };
                    }
                }
                Place::Chunk(left) => {
                    let left = self.content(input, left)?;
                    self.at = if left == 0 { Place::ChunkEnd } else { Place::Chunk(left) };
                }
                Place::ChunkEnd => {
                    if let Some(empty) = self.line(input, <[u8]>::is_empty)? {
                        if !empty {
                            return Err(ResponseError::Chunk);
                        }
                        self.at = Place::ChunkSize;
                    }
                }
                Place::Trailer => {
                    if self.line(input, <[u8]>::is_empty)? == Some(true) {
                        return Ok(self.end());
                    }
                }
            }
        }
        Ok(false)
    }

    /// The connection has ended; true where that ends the answer.
    pub(crate) fn closed(&mut self) -> bool {
        self.at == Place::UntilClosed && self.end()
    }

    fn end(&mut self) -> bool {
        self.at = Place::Head;
        self.length = 0;
        true
    }

    /// Reads a head; true where the answer ends with it.
    fn head(&mut self, input: &mut &[u8], wanted: Wanted<'_>) -> Result<bool, ResponseError> {
        let mut held = std::mem::take(&mut self.held);
        let begun = held.len();
        let bytes: &[u8] = if begun == 0 {
            input
        } else {
            let room = (LONGEST_HEAD + 1).saturating_sub(begun).min(input.len());
            held.extend_from_slice(&input[..room]);
            &held
        };
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        let length = match parsed.parse(bytes).map_err(ResponseError::NotHttp)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial if bytes.len() > LONGEST_HEAD => {
                return Err(ResponseError::LongHead);
            }
            httparse::Status::Partial => {
                if begun == 0 {
                    held.extend_from_slice(input);
                }
                self.held = held;
                *input = &[];
                return Ok(false);
            }
        };
        let head = Head::of(&parsed)?;
        let interim = matches!(head.status, 100..=199);
        if head.status == 101 {
            return Err(ResponseError::Upgrade);
        }
        if !interim {
            self.status = head.status;
            self.closes = head.closes;
            self.body.clear();
            self.keep = match (wanted.body, head.status) {
                (true, _) => LONGEST_KEPT,
                (false, 400..) => SAMPLE,
                (false, _) => 0,
            };
            self.headers.clear();
            self.headers.extend(wanted.headers.iter().map(|name| value_of(&parsed, name)));
        }
        *input = &input[length - begun..];
        held.clear();
        self.held = held;
        if interim {
            return Ok(false);
        }
        let empty = wanted.head_only || matches!(self.status, 204 | 304);
        self.at = match (empty, head.chunked, head.length) {
            (true, ..) | (false, false, Some(0)) => return Ok(self.end()),
            (false, true, _) => Place::ChunkSize,
            (false, false, Some(length)) if length > LONGEST_BODY => {
                return Err(ResponseError::LongBody);
            }
            (false, false, Some(length)) => Place::Body(length),
            (false, false, None) => {
                self.closes = true;
                Place::UntilClosed
            }
        };
        Ok(false)
    }

    /// Takes in a part of the body; how much of `left` is still to come.
    fn content(&mut self, input: &mut &[u8], left: u64) -> Result<u64, ResponseError> {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let (part, rest) = input.split_at(count);
        *input = rest;
        self.length += count as u64;
        if self.length > LONGEST_BODY {
            return Err(ResponseError::LongBody);
        }
        let room = self.keep.saturating_sub(self.body.len()).min(part.len());
        self.body.extend_from_slice(&part[..room]);
        Ok(left - count as u64)
    }

    /// What a line amounts to that ends with `\r\n`, or `\n` alone; `None` until it is whole.
    fn line<T>(
        &mut self,
        input: &mut &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, ResponseError> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let (part, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        if self.held.len() + part.len() > LONGEST_LINE {
            return Err(ResponseError::Chunk);
        }
        if end.is_some() && self.held.is_empty() {
            return Ok(Some(read(without_break(part))));
        }
        self.held.extend_from_slice(part);
        if end.is_none() {
            return Ok(None);
        }
        let line = read(without_break(&self.held));
        self.held.clear();
        Ok(Some(line))
    }
}

fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The length of a chunk, in hexadecimal digits; what follows a semicolon is for others.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    // More digits than any body has bytes.
    let sound = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = str::from_utf8(digits).ok().filter(|_| sound)?;
    u64::from_str_radix(text, 16).ok()
}

fn value_of(parsed: &httparse::Response<'_, '_>, name: &str) -> Option<String> {
    let field = parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(field.value).into_owned())
}

/// What a head says of what follows.
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
}

impl Head {
    fn of(parsed: &httparse::Response<'_, '_>) -> Result<Head, ResponseError> {
        let minor = parsed.version.unwrap_or(0);
        let mut head = Head {
            status: parsed.code.unwrap_or(0),
            length: None,
            chunked: false,
            closes: minor == 0,
        };
        let mut encoded = false;
        for field in parsed.headers.iter() {
            // Most fields are none of these, and their length tells.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    // One field may hold the same number twice.
                    for part in field.value.split(|byte| *byte == b',') {
                        let length = digits(part.trim_ascii()).ok_or(ResponseError::Length)?;
                        if head.length.is_some_and(|before| before != length) {
                            return Err(ResponseError::Length);
                        }
                        head.length = Some(length);
                    }
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    encoded = true;
                    let last = field.value.rsplit(|byte| *byte == b',').next();
                    head.chunked =
                        last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    for word in field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                        if word.eq_ignore_ascii_case(b"close") {
                            head.closes = true;
                        } else if word.eq_ignore_ascii_case(b"keep-alive") && minor == 0 {
                            head.closes = false;
                        }
                    }
                }
                _ => {}
            }
        }
        if encoded {
            // Whoever says both may be lied to by something between (RFC 9112, 6.3).
            head.closes |= head.length.is_some();
            head.length = None;
        }
        Ok(head)
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    let sound = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| sound)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer, as it was read.
    #[derive(Debug, PartialEq, Eq, Clone)]
    struct Read {
        status: u16,
        closes: bool,
        headers: Vec<Option<String>>,
        body: Vec<u8>,
    }

    /// Reads answers from parts of a stream, to its end.
    fn read_parts(parts: &[&[u8]], wanted: Wanted<'_>) -> Result<Vec<Read>, ResponseError> {
        let (mut response, mut all) = (Response::default(), Vec::new());
        let read = |response: &Response| Read {
            status: response.status,
            closes: response.closes,
            headers: response.headers.clone(),
            body: response.body.clone(),
        };
        for part in parts {
            let mut input = *part;
            while !input.is_empty() {
                if response.take(&mut input, wanted)? {
                    all.push(read(&response));
                }
            }
        }
        if response.closed() {
            all.push(read(&response));
        }
        Ok(all)
    }

    const ALL: Wanted<'static> = Wanted { head_only: false, headers: &[], body: true };

    fn one(text: &str) -> Result<Read, ResponseError> {
        let all = read_parts(&[text.as_bytes()], ALL)?;
        assert_eq!(all.len(), 1, "{text:?}");
        Ok(all[0].clone())
    }

    #[test]
    fn a_body_ends_as_its_head_says() {
        for (text, status, body, closes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", false),
            ("HTTP/1.1 304 Not\r\nContent-Length: 7\r\n\r\n", 304, "", false),
            ("HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n", 200, "", true),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", 200, "x", true),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
                200,
                "x",
                false,
            ),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", true),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
                201,
                "x",
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n",
                200,
                "abc0123456789",
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 9\r\n\r\n0\r\n\r\n",
                200,
                "",
                true,
            ),
        ] {
            let read = one(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            let got = (read.status, String::from_utf8_lossy(&read.body).into_owned(), read.closes);
            assert_eq!(got, (status, body.to_owned(), closes), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000));
        for (text, expected) in [
            ("SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "Content-Length that is none"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "two that differ",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "Content-Length that is none"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "longer than 256 MiB"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "another protocol"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "a chunk"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                "a chunk",
            ),
            (&long, "longer than 64 KiB"),
        ] {
            let error = read_parts(&[text.as_bytes()], ALL).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_kept() {
        let names = ["location".to_owned(), "etag".to_owned()];
        let wanted = Wanted { headers: &names, ..Wanted::default() };
        let text = b"HTTP/1.1 201 Created\r\nLocation: /a\r\nContent-Length: 3\r\n\r\nabc";
        let read = &read_parts(&[text], wanted).unwrap()[0];
        assert_eq!((read.headers.clone(), read.body.len()), (vec![Some("/a".to_owned()), None], 0));
        // Of an error the beginning tells why.
        let text = format!("HTTP/1.1 500 Oh\r\nContent-Length: 4000\r\n\r\n{}", "x".repeat(4000));
        let read = &read_parts(&[text.as_bytes()], Wanted::default()).unwrap()[0];
        assert_eq!(read.body.len(), SAMPLE);
        let head = Wanted { head_only: true, ..Wanted::default() };
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 404 No\r\n\r\n";
        assert_eq!(read_parts(&[text], head).unwrap().len(), 2);
    }

    /// An answer as a server may send it, with its status and body.
    fn answers() -> impl Strategy<Value = (Vec<u8>, u16, Vec<u8>)> {
        let body = proptest::collection::vec(any::<u8>(), 0..300);
        let chunks = proptest::collection::vec(1..80_usize, 0..5);
        (200..=599_u16, body, any::<bool>(), chunks).prop_map(|(status, body, chunked, chunks)| {
            let body = if matches!(status, 204 | 304) { Vec::new() } else { body };
            let mut text = format!("HTTP/1.1 {status} Some words\r\nx-y: z\r\n").into_bytes();
            if matches!(status, 204 | 304) {
                text.extend(b"\r\n");
            } else if chunked {
                text.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                let mut rest = &body[..];
                for size in chunks.iter().copied().chain([usize::MAX]) {
                    let (chunk, after) = rest.split_at(size.min(rest.len()));
                    rest = after;
                    if !chunk.is_empty() {
                        text.extend(format!("{:x}\r\n", chunk.len()).bytes());
                        text.extend(chunk);
                        text.extend(b"\r\n");
                    }
                }
                text.extend(b"0\r\n\r\n");
            } else {
                text.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                text.extend(&body);
            }
            (text, status, body)
        })
    }

    proptest! {
        #[test]
        fn answers_are_read_however_they_are_cut(
            sent in proptest::collection::vec(answers(), 1..5),
            cuts in proptest::collection::vec(1..40_usize, 0..60),
        ) {
            let stream: Vec<u8> = sent.iter().flat_map(|(text, ..)| text.clone()).collect();
            let (mut parts, mut rest) = (Vec::new(), &stream[..]);
            for cut in cuts {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                parts.push(part);
                rest = after;
            }
            parts.push(rest);
            let read = read_parts(&parts, ALL).unwrap();
            let read: Vec<(u16, Vec<u8>)> = read.into_iter().map(|of| (of.status, of.body)).collect();
            let expected: Vec<(u16, Vec<u8>)> =
                sent.into_iter().map(|(_, status, body)| (status, body)).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_an_answer_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            head in prop_oneof![
                Just(&b""[..]),
                Just(&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..]),
                Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"[..]),
            ],
        ) {
            let stream = [head, &bytes[..]].concat();
            let whole = read_parts(&[&stream], ALL);
            let single: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(whole.is_ok(), read_parts(&single, ALL).is_ok());
        }
    }
}

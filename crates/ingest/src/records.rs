//! Bytes into records: where each begins and ends, whatever they hold.

use std::ops::Range;

use crate::format::Format;

/// What stands between two ends of records.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Without its line end.
    pub bytes: &'a [u8],
    /// Where it stands in the input, with its line end.
    pub range: Range<u64>,
    /// The line that it begins in, from 1.
    pub line: u64,
    /// What keeps it from being read.
    pub fault: Option<Fault>,
}

/// What keeps a record from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is longer than the limit. It comes in pieces, of which all but the last say so.
    TooLong {
        /// Whether its line ends here.
        last: bool,
    },
    /// A quote is not closed before the input's end or within the limit: its first line stands
    /// for it, and what follows is read as if it had ended there.
    OpenQuote,
}

/// Cuts what comes in into records.
#[derive(Debug)]
pub struct Records {
    format: Format,
    /// Longest record, in bytes.
    limit: usize,
    buffer: Vec<u8>,
    /// Where the next record begins in the buffer, and up to where it was looked at.
    start: usize,
    looked: usize,
    state: State,
    /// Of `start` in the input.
    offset: u64,
    line: u64,
    /// In a record that is too long.
    inside: bool,
    ended: bool,
}

/// What the bytes so far of a record say of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A field begins.
    Start,
    Plain,
    Quoted,
    /// A quote within a quoted field: its end, or the first of two.
    Quote,
    /// Behind a backslash.
    Escaped,
}

impl State {
    /// The state behind `byte`; none where the record ends.
    fn next(self, format: Format, byte: u8) -> Option<Self> {
        match (format, self, byte) {
            (Format::Text, Self::Escaped, _) => Some(Self::Plain),
            (Format::Text, _, b'\\') => Some(Self::Escaped),
            (Format::Csv, Self::Quoted, b'"') => Some(Self::Quote),
            (Format::Csv, Self::Quoted, _) => Some(Self::Quoted),
            (_, _, b'\n') => None,
            (Format::Csv, Self::Start | Self::Quote, b'"') => Some(Self::Quoted),
            (Format::Csv, _, b',') => Some(Self::Start),
            _ => Some(Self::Plain),
        }
    }
}

impl Records {
    /// At the beginning of an input.
    #[must_use]
    pub fn new(format: Format, limit: usize) -> Self {
        Self {
            format,
            limit: limit.max(1),
            buffer: Vec::new(),
            start: 0,
            looked: 0,
            state: State::Start,
            offset: 0,
            line: 1,
            inside: false,
            ended: false,
        }
    }

    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.looked -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The bytes of a record that has not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The line that comes next.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next record; none until more is pushed.
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        while self.looked < self.buffer.len() {
            let byte = self.buffer[self.looked];
            let Some(state) = self.state.next(self.format, byte) else {
                let fault = self.inside.then_some(Fault::TooLong { last: true });
                return Some(self.take(self.looked + 1, fault));
            };
            self.state = state;
            self.looked += 1;
            if self.looked - self.start > self.limit {
                if let Some(line) = self.line_of_open_quote() {
                    return Some(self.take(line, Some(Fault::OpenQuote)));
                }
                self.inside = true;
                // The pieces end with the line, whatever its quotes say.
                let piece = self.take(self.looked, Some(Fault::TooLong { last: false }));
                return Some(piece);
            }
        }
        if !self.ended || self.unfinished() == 0 {
            return None;
        }
        if let Some(line) = self.line_of_open_quote() {
            return Some(self.take(line, Some(Fault::OpenQuote)));
        }
        let fault = match self.state {
            _ if self.inside => Some(Fault::TooLong { last: true }),
            State::Quoted => Some(Fault::OpenQuote),
            _ => None,
        };
        Some(self.take(self.buffer.len(), fault))
    }

    /// Where the first line of a record ends that is in a quote.
    fn line_of_open_quote(&self) -> Option<usize> {
        (self.state == State::Quoted)
            .then(|| self.buffer[self.start..self.looked].iter().position(|byte| *byte == b'\n'))
            .flatten()
            .map(|line| self.start + line + 1)
    }

    fn take(&mut self, end: usize, fault: Option<Fault>) -> Record<'_> {
        let whole = self.start..end;
        let line = self.line;
        let offset = self.offset;
        let bytes = &self.buffer[whole.clone()];
        self.line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.offset += bytes.len() as u64;
        self.start = end;
        self.looked = end;
        let goes_on = fault == Some(Fault::TooLong { last: false });
        // Within a line that is too long nothing but its end matters.
        self.state = if goes_on { State::Plain } else { State::Start };
        self.inside = goes_on;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = if goes_on { bytes } else { bytes.strip_suffix(b"\r").unwrap_or(bytes) };
        Record { bytes, range: offset..self.offset, line, fault }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each record's bytes, range, line and fault.
    type Cut = (Vec<u8>, Range<u64>, u64, Option<Fault>);

    fn cut(format: Format, limit: usize, pieces: &[&[u8]]) -> Vec<Cut> {
        let mut records = Records::new(format, limit);
        let mut all = Vec::new();
        let mut take = |records: &mut Records| {
            while let Some(Record { bytes, range, line, fault }) = records.next_record() {
                all.push((bytes.to_vec(), range, line, fault));
            }
        };
        for piece in pieces {
            records.push(piece);
            take(&mut records);
        }
        records.end();
        take(&mut records);
        all
    }

    fn texts(format: Format, limit: usize, text: &str) -> Vec<String> {
        let cut = cut(format, limit, &[text.as_bytes()]);
        cut.into_iter().map(|(bytes, ..)| String::from_utf8(bytes).unwrap()).collect()
    }

    #[test]
    fn a_record_ends_with_its_line_unless_its_format_says_otherwise() {
        assert_eq!(texts(Format::Ndjson, 99, "{}\r\n\n{}"), ["{}", "", "{}"]);
        let csv = "a,b\n\"x\ny\",\"\"\"\n\"\n5\" pipe,\"\"\n";
        assert_eq!(texts(Format::Csv, 99, csv), ["a,b", "\"x\ny\",\"\"\"\n\"", "5\" pipe,\"\""]);
        assert_eq!(texts(Format::Text, 99, "a\\\nb\tc\\\\\nd\n"), ["a\\\nb\tc\\\\", "d"]);
    }

    #[test]
    fn an_open_quote_takes_its_own_line_only() {
        let all = cut(Format::Csv, 99, &[b"a\n\"b\nc\nd\n"]);
        let lines: Vec<_> =
            all.iter().map(|(bytes, _, line, fault)| (&bytes[..], *line, *fault)).collect();
        let open = Some(Fault::OpenQuote);
        assert_eq!(
            lines,
            [(&b"a"[..], 1, None), (b"\"b", 2, open), (b"c", 3, None), (b"d", 4, None)]
        );
        assert_eq!(texts(Format::Csv, 8, "\"b\ncccc\ndddd\ne\n"), ["\"b", "cccc", "dddd", "e"]);
    }

    #[test]
    fn what_is_too_long_comes_in_pieces_and_the_next_line_is_read() {
        let all = cut(Format::Ndjson, 4, &[b"abcdefghijkl\nok\n"]);
        let faults: Vec<_> = all.iter().map(|(_, _, line, fault)| (*line, *fault)).collect();
        let piece = |last| Some(Fault::TooLong { last });
        assert_eq!(faults, [(1, piece(false)), (1, piece(false)), (1, piece(true)), (2, None)]);
        let text: Vec<u8> = all[..3].iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
        assert_eq!(text, b"abcdefghijkl");
    }

    proptest! {
        #[test]
        fn records_cover_the_input_however_it_comes(
            bytes in prop::collection::vec(prop::sample::select(b"a,\"\\\n\r\t\xff".to_vec()), 0..80),
            limit in 1_usize..30,
            piece in 1_usize..20,
            format in prop::sample::select(vec![Format::Ndjson, Format::Csv, Format::Text]),
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            let all = cut(format, limit, &pieces);
            prop_assert_eq!(&all, &cut(format, limit, &[&bytes]));
            let mut at = 0;
            for (record, range, line, _) in &all {
                prop_assert_eq!(range.start, at);
                at = range.end;
                let whole = &bytes[range.start as usize..range.end as usize];
                prop_assert!(whole.starts_with(record) && record.len() <= limit + 1);
                let before = bytes[..range.start as usize].iter().filter(|b| **b == b'\n').count();
                prop_assert_eq!(*line, before as u64 + 1);
            }
            prop_assert_eq!(at, bytes.len() as u64);
        }
    }
}

//! The fields of a line in the text format of COPY.

/// Takes a line apart; `None` is NULL.
///
/// # Errors
/// Where escapes make bytes that are not UTF-8, or a NUL.
pub fn fields(line: &str) -> Result<Vec<Option<String>>, String> {
    split(line)
        .map(|field| if field == "\\N" { Ok(None) } else { unescape(field).map(Some) })
        .collect()
}

/// The fields as they stand: a tab behind a backslash is one of the field's own.
fn split(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'\t' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// <https://www.postgresql.org/docs/current/sql-copy.html>, "Text Format".
fn unescape(field: &str) -> Result<String, String> {
    if !field.contains('\\') {
        return Ok(field.to_owned());
    }
    let mut bytes = field.bytes().peekable();
    let mut out = Vec::with_capacity(field.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(escape) = bytes.next() else {
            out.push(b'\\');
            continue;
        };
        let mut digits = |radix: u32, most: usize, first: Option<u32>| {
            let mut value = first.unwrap_or(0);
            let mut count = usize::from(first.is_some());
            while count < most
                && let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix))
            {
                value = value * radix + digit;
                count += 1;
                bytes.next();
            }
            // Three octal digits may be more than a byte holds; COPY takes the low bits.
            (count > 0).then_some((value & 0xff) as u8)
        };
        out.push(match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => digits(8, 3, Some(u32::from(escape - b'0'))).unwrap_or(0),
            b'x' => digits(16, 2, None).unwrap_or(b'x'),
            other => other,
        });
    }
    String::from_utf8(out).map_err(|_| "its escapes make bytes that are not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_read_as_copy_reads_them() {
        let line = "a\\tb\\\tc\t\\N\t\\\\N\t\\x41\\101\\q\\xg\t\t\\\n";
        let expected = ["a\tb\tc", "\\N", "AAqxg", "", "\n"].map(|text| Some(text.to_owned()));
        let mut read = fields(line).unwrap();
        assert_eq!(read.remove(1), None);
        assert_eq!(read, expected);
        assert!(fields("\\xff").is_err());
    }

    proptest! {
        #[test]
        fn no_line_brings_it_down(line in "[a\\\\x7N\t\u{e4}]{0,20}") {
            _ = fields(&line);
        }

        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec(prop::option::of(".{0,9}"), 1..6)) {
            let written = texts.iter().map(|text| match text {
                None => "\\N".to_owned(),
                Some(text) => text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"),
            });
            let line = written.collect::<Vec<_>>().join("\t");
            prop_assert_eq!(fields(&line).unwrap(), texts);
        }
    }
}

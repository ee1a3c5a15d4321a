//! The text format of COPY.

/// How NULL stands in a column.
pub(crate) const NULL: &[u8] = b"\\N";

/// Appends text with what COPY treats specially escaped.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(*byte),
        }
    }
}

/// Characters of escaped text once it is read back.
pub(crate) fn displayed_length(escaped: &[u8]) -> usize {
    let mut length = 0;
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' {
            bytes.next();
        }
        // Bytes that continue a UTF-8 character do not count.
        length += usize::from(byte & 0xC0 != 0x80);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped_and_count_once() {
        let mut out = Vec::new();
        escape("a\tb\nc\r\\ä".as_bytes(), &mut out);
        assert_eq!(out, "a\\tb\\nc\\r\\\\ä".as_bytes());
        assert_eq!(displayed_length(&out), 8);
    }
}

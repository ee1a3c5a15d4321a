//! Text of a server whose encoding is not known.

/// The text, with each byte that is not UTF-8 as `\xNN`. A database in the encoding
/// SQL_ASCII hands out whatever bytes its clients once sent.
pub fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_utf8_stays_and_the_rest_is_escaped() {
        assert_eq!(readable("naïve".as_bytes()), "naïve");
        assert_eq!(readable(b"caf\xe9 \xff\xfe ok"), "caf\\xe9 \\xff\\xfe ok");
    }
}

//! What a file is known by, so that a later run goes on where an earlier one ended.
//!
//! A name says the table, the path and a hash of the file's first bytes. A file that has grown
//! since still begins with them, and is the same; another that took its place (a rotated log, a
//! daily export with the same header) does not, and is read from its beginning.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek};

use ring::digest::{SHA256, digest};

use crate::connect::Server;
use crate::error::IngestError;
use crate::input::Input;

/// Most bytes that are hashed.
const HASHED: u64 = 1 << 20;

/// The first bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Print {
    bytes: u64,
    hash: String,
}

impl Print {
    fn of(file: &mut File, bytes: u64) -> io::Result<Self> {
        file.rewind()?;
        let mut first = Vec::new();
        file.take(bytes).read_to_end(&mut first)?;
        file.rewind()?;
        let mut hash = String::new();
        for byte in &digest(&SHA256, &first).as_ref()[..16] {
            _ = write!(hash, "{byte:02x}");
        }
        Ok(Self { bytes: first.len() as u64, hash })
    }

    /// Reads the end of a name.
    fn parse(text: &str) -> Option<Self> {
        let (bytes, hash) = text.strip_suffix(')')?.split_once(" bytes ")?;
        Some(Self { bytes: bytes.parse().ok()?, hash: hash.to_owned() })
    }

    fn write(&self) -> String {
        format!("{} bytes {})", self.bytes, self.hash)
    }
}

/// The name that a file's rows are counted under in the table of lanes; none for an input that
/// cannot be read again. Only what is in the file now is read.
///
/// # Errors
/// Where the file cannot be read, or the server asked.
pub async fn source(
    server: &Server,
    lanes: &str,
    table: &str,
    input: &mut Input,
) -> Result<Option<String>, IngestError> {
    let Some((path, size)) = input.path.clone().zip(input.size()) else { return Ok(None) };
    input.left = Some(size);
    let wrong = |error| IngestError::File { path: path.clone(), error };
    let prefix = format!("{table} from {} (", path.display());
    let now = Print::of(&mut input.file, size.min(HASHED)).map_err(wrong)?;
    let name = format!("{prefix}{}", now.write());

    let client = server.connect().await?;
    let there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&lanes]).await?;
    if !there.get::<_, bool>(0) {
        return Ok(Some(name));
    }
    let known = format!("SELECT DISTINCT source FROM {lanes} WHERE starts_with(source, $1)");
    for row in client.query(&known, &[&prefix]).await? {
        let before: String = row.get(0);
        let Some(print) = before.strip_prefix(&prefix).and_then(Print::parse) else { continue };
        let same =
            print.bytes <= size && Print::of(&mut input.file, print.bytes).map_err(wrong)? == print;
        if same && before != name {
            // By more of its bytes from now on, since more of them are to be written.
            let grown = format!("UPDATE {lanes} SET source = $2 WHERE source = $1");
            client.execute(&grown, &[&before, &name]).await?;
        }
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_has_grown_is_the_same_and_another_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"header\nfirst\n").unwrap();
        let before = Print::of(&mut file, HASHED).unwrap();
        assert_eq!(before.bytes, 13);
        assert_eq!(Print::parse(&before.write()), Some(before.clone()));
        file.seek(io::SeekFrom::End(0)).unwrap();
        file.write_all(b"second\n").unwrap();
        assert_eq!(Print::of(&mut file, before.bytes).unwrap(), before);
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"header\nother row\n").unwrap();
        assert_ne!(Print::of(&mut other, before.bytes).unwrap(), before);
    }
}

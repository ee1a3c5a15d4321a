//! Reading small files of `/proc` and `/sys`.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Room offered to each read; most files of `/proc` fit into one.
const CHUNK: usize = 4096;

/// Reads `path` into `buffer`; false where it cannot be read.
pub(crate) fn read_into(path: &str, buffer: &mut String) -> bool {
    File::open(path).is_ok_and(|file| fill(&file, buffer, false))
}

/// Reads a file of `/proc` that the kernel hands over in one piece, as those of a
/// process are, into `buffer`. Spares the calls that `read_to_string` makes to
/// learn the size and to see the end, which are half of its cost there.
pub(crate) fn read_piece(path: &str, buffer: &mut String) -> bool {
    File::open(path).is_ok_and(|file| fill(&file, buffer, true))
}

/// Reads an open file of `/proc` again from its beginning.
pub(crate) fn reread_piece(file: &File, buffer: &mut String) -> bool {
    fill(file, buffer, true)
}

fn fill(file: &File, buffer: &mut String, one_piece: bool) -> bool {
    let mut bytes = std::mem::take(buffer).into_bytes();
    let mut filled = 0;
    let complete = loop {
        bytes.resize(filled + CHUNK, 0);
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break true,
            Ok(read) => {
                filled += read;
                if one_piece && read < CHUNK {
                    break true;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break false,
        }
    };
    bytes.truncate(filled);
    // A command name may hold any bytes.
    *buffer = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    complete
}

/// The trimmed text of a small file; `None` where it cannot be read or is empty.
pub(crate) fn read_trimmed(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Clock ticks a second, the unit of times in `/proc/stat` and `/proc/PID/stat`.
pub(crate) fn ticks_per_second() -> f64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .map_or(100.0, |ticks| ticks as f64)
}

/// Bytes of a memory page.
pub(crate) fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(4096)
}

/// Processors online.
pub(crate) fn processors_online() -> Option<u32> {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok()??;
    u32::try_from(online).ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_are_read_whole_whatever_their_size() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut buffer = "left over".to_owned();
        let path = file.path().to_str().unwrap().to_owned();
        assert!(read_into(&path, &mut buffer) && buffer.is_empty());
        for _ in 0..3 {
            file.write_all("0123456789".repeat(CHUNK / 10 + 1).as_bytes()).unwrap();
            let expected = std::fs::read_to_string(&path).unwrap();
            assert!(read_into(&path, &mut buffer));
            assert_eq!(buffer, expected);
            assert!(read_piece(&path, &mut buffer));
            assert_eq!(buffer, expected);
        }
        assert!(!read_into("/no/such/file", &mut buffer));
    }

    #[test]
    fn what_the_kernel_makes_up_is_read_as_a_whole() {
        let mut buffer = String::new();
        assert!(read_into("/proc/vmstat", &mut buffer));
        assert!(buffer.lines().count() > 50 && buffer.ends_with('\n'));
        assert!(read_piece("/proc/self/stat", &mut buffer) && buffer.ends_with('\n'));
        let file = File::open("/proc/self/schedstat").unwrap();
        for _ in 0..2 {
            assert!(reread_piece(&file, &mut buffer));
            assert_eq!(buffer.split_ascii_whitespace().count(), 3);
        }
    }
}

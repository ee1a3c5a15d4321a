//! Reading small files of `/proc` and `/sys`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads `path` into `buffer`; false where it cannot be read.
pub(crate) fn read_into(path: &str, buffer: &mut String) -> bool {
    buffer.clear();
    File::open(path).and_then(|mut file| file.read_to_string(buffer)).is_ok()
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

//! A file in which the kernel keeps a value: read, and written with its check.

use std::fs;
use std::path::Path;

use walwright_catalog::parameter;

use super::check::same;

/// Writes a file of the kernel and reads it back.
pub(super) fn write_kernel(name: &str, path: &Path, value: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => " (only root may write it)",
            _ => "",
        };
        format!("{name}: cannot write {value} to {}: {error}{hint}", path.display())
    };
    // Never made: a kernel's file that is not there is no place for a value.
    let mut file = fs::File::options().write(true).truncate(true).open(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, value.as_bytes()).map_err(failed)?;
    drop(file);
    is_kept(name, path, value)
}

/// Whether a file of the kernel holds what was written to it.
pub(super) fn is_kept(name: &str, path: &Path, value: &str) -> Result<(), String> {
    let found = read_kernel(path)
        .map_err(|error| format!("{name}: cannot read {} back: {error}", path.display()))?;
    let is_it = match parameter(name) {
        Some(parameter) => same(parameter, value, &found),
        None => found == value,
    };
    match is_it {
        true => Ok(()),
        false => Err(format!("{name} was set to {value}, and the kernel keeps {found}")),
    }
}

/// What a file of the kernel holds: the choice in brackets where it lists all.
pub(super) fn read_kernel(path: &Path) -> std::io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    let text = chosen.unwrap_or(&text);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

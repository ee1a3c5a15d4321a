//! The settings walwright gives a cluster, and the file they are written to.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::user::ServerUser;

/// The file in the data directory that `postgresql.conf` includes last. Written
/// anew at every start, so a restored data directory gets its own settings.
pub(crate) const SETTINGS_FILE: &str = "walwright.conf";

/// What an embedded cluster is given so that it can be observed. Everything
/// else is as PostgreSQL ships it.
pub(crate) const OBSERVABILITY: [(&str, &str); 5] = [
    ("track_io_timing", "on"),
    ("track_wal_io_timing", "on"),
    // Two looks at the clock for each call of a function in plpgsql.
    ("track_functions", "pl"),
    // On by default from PostgreSQL 15.
    ("log_checkpoints", "on"),
    ("lc_messages", "C"),
];

/// A setting that cannot be written to a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name is not one a configuration file can hold.
    #[error("{0:?} is not the name of a setting: letters, digits, \"_\" and \".\" only")]
    Name(String),
    /// The value holds a NUL byte.
    #[error("the value of {0} holds a NUL byte")]
    Value(String),
    /// The setting decides where the server lives, which walwright decides.
    #[error(
        "{0} is set by walwright itself, since it decides how the cluster is reached: leave it out"
    )]
    Reserved(String),
    /// The server does not take some; a line for each.
    #[error("{0}")]
    Refused(String),
}

/// Settings walwright gives on the command line: they hold even against
/// `ALTER SYSTEM`, since a change would make the server unreachable or its
/// files untraceable.
const RESERVED: [&str; 8] = [
    "unix_socket_directories",
    "listen_addresses",
    "port",
    "data_directory",
    "config_file",
    "external_pid_file",
    "logging_collector",
    "log_destination",
];

/// Writes the settings file of `data_dir`: walwright's own settings, overridden
/// and followed by `settings`.
pub(crate) fn write(
    data_dir: &Path,
    preload: Option<&str>,
    settings: &[(String, String)],
    owner: &ServerUser,
) -> io::Result<()> {
    let text = render(preload, settings).map_err(io::Error::other)?;
    let path = data_dir.join(SETTINGS_FILE);
    let new = data_dir.join("walwright.conf.new");
    let mut file =
        fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    owner.own(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)
}

/// Makes `postgresql.conf` read the settings file, once.
pub(crate) fn include_in(data_dir: &Path) -> io::Result<()> {
    let path = data_dir.join("postgresql.conf");
    let line = format!("include_if_exists = '{SETTINGS_FILE}'");
    let text = fs::read_to_string(&path)?;
    if text.lines().any(|existing| existing == line) {
        return Ok(());
    }
    let mut file = fs::File::options().append(true).open(&path)?;
    write!(file, "\n{line}\n")?;
    file.sync_all()
}

/// Checks names and values without writing anything.
pub fn check(settings: &[(String, String)]) -> Result<(), SettingError> {
    render(None, settings).map(|_| ())
}

fn render(preload: Option<&str>, settings: &[(String, String)]) -> Result<String, SettingError> {
    let mut text = String::from("# Written by walwright at every start; changes here are lost.\n");
    let given = |name: &str| settings.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let preload = preload.map(|library| ("shared_preload_libraries", library));
    for (name, value) in preload.into_iter().chain(OBSERVABILITY) {
        if !given(name) {
            text.push_str(&line(name, value)?);
        }
    }
    for (name, value) in settings {
        let reserved = RESERVED.iter().any(|own| name.eq_ignore_ascii_case(own));
        if reserved {
            return Err(SettingError::Reserved(name.clone()));
        }
        text.push_str(&line(name, value)?);
    }
    Ok(text)
}

fn line(name: &str, value: &str) -> Result<String, SettingError> {
    let first_ok = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_ok || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.') {
        return Err(SettingError::Name(name.to_owned()));
    }
    Ok(format!("{name} = '{}'\n", quote(name, value)?))
}

/// The inside of a quoted value as `guc-file.l` reads it: backslash escapes,
/// and a quote doubled.
fn quote(name: &str, value: &str) -> Result<String, SettingError> {
    let mut quoted = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\0' => return Err(SettingError::Value(name.to_owned())),
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            other => quoted.push(other),
        }
    }
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_callers_settings_replace_walwrights() {
        let settings = owned(&[("Track_IO_Timing", "off"), ("max_connections", "200")]);
        let text = render(Some("pg_stat_statements"), &settings).expect("valid");
        assert!(text.contains("shared_preload_libraries = 'pg_stat_statements'\n"));
        assert!(text.contains("Track_IO_Timing = 'off'\n"));
        assert!(!text.contains("track_io_timing = 'on'"));
        assert!(text.ends_with("max_connections = '200'\n"));
    }

    #[test]
    fn what_would_cut_the_cluster_off_is_refused() {
        assert_eq!(check(&owned(&[("PORT", "1")])), Err(SettingError::Reserved("PORT".into())));
        for name in ["", "a b", "x=1\ny", "1a"] {
            assert_eq!(check(&owned(&[(name, "1")])), Err(SettingError::Name(name.into())));
        }
        assert!(check(&owned(&[("auto_explain.log_min_duration", "1s")])).is_ok());
    }

    proptest! {
        /// A value never leaves its line or its quotes.
        #[test]
        fn values_stay_inside_their_quotes(value in "[^\0]*") {
            let text = line("a", &value).expect("no NUL");
            let inside = text
                .strip_prefix("a = '")
                .and_then(|rest| rest.strip_suffix("'\n"))
                .expect("quoted");
            prop_assert!(!inside.contains(['\n', '\r']));
            let mut read = String::new();
            let mut chars = inside.chars();
            while let Some(c) = chars.next() {
                match c {
                    '\'' => prop_assert_eq!(chars.next(), Some('\'')),
                    '\\' => match chars.next() {
                        Some('n') => { read.push('\n'); continue }
                        Some('r') => { read.push('\r'); continue }
                        Some('\\') => {}
                        other => prop_assert!(false, "escape {:?}", other),
                    },
                    _ => {}
                }
                read.push(c);
            }
            prop_assert_eq!(read, value);
        }
    }
}

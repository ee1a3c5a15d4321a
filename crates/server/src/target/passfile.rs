//! The password file: `host:port:database:user:password`, one per line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use walwright_wire::Secret;

/// What a connection is looked up by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The names the host may go by in the file.
    pub(crate) hosts: &'a [String],
    pub(crate) port: u16,
    pub(crate) dbname: &'a str,
    pub(crate) user: &'a str,
}

/// Looks up a password in `path`. A file that is not there holds none; one
/// that others may read is not used, as libpq does, and `warnings` says so.
pub(crate) fn look_up(
    path: &Path,
    wanted: Wanted<'_>,
    warnings: &mut Vec<String>,
) -> Option<Secret> {
    let meta = fs::metadata(path).ok()?;
    if !meta.is_file() {
        warnings.push(format!(
            "the password file {} is not a plain file, so it was not used",
            path.display()
        ));
        return None;
    }
    if meta.permissions().mode() & 0o077 != 0 {
        warnings.push(format!(
            "the password file {} can be read by others, so it was not used: chmod 600 it",
            path.display()
        ));
        return None;
    }
    match fs::read(path) {
        Ok(bytes) => find(&String::from_utf8_lossy(&bytes), wanted).map(Secret::new),
        Err(error) => {
            warnings
                .push(format!("the password file {} could not be read: {error}", path.display()));
            None
        }
    }
}

/// The password of the first line that matches.
fn find(text: &str, wanted: Wanted<'_>) -> Option<String> {
    text.lines()
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .find_map(|line| match_line(line, wanted))
}

fn match_line(line: &str, wanted: Wanted<'_>) -> Option<String> {
    let (host, rest) = field(line)?;
    let (port, rest) = field(rest)?;
    let (dbname, rest) = field(rest)?;
    let (user, password) = field(rest)?;
    let is = |pattern: &str, value: &str| pattern == "*" || unescape(pattern) == value;
    let host_ok = host == "*" || wanted.hosts.contains(&unescape(host));
    if host_ok
        && is(port, &wanted.port.to_string())
        && is(dbname, wanted.dbname)
        && is(user, wanted.user)
        && !password.is_empty()
    {
        return Some(unescape(password));
    }
    None
}

/// The text up to the next colon that is not escaped, and what follows it.
fn field(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(text: &str, host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
        let hosts = [host.to_owned()];
        find(text, Wanted { hosts: &hosts, port, dbname, user })
    }

    #[test]
    fn the_first_line_that_matches_wins() {
        let text = "# comment\n\nh:5432:db:joe:one\n*:*:*:joe:two\r\nh:*:*:*:three\nbroken line\n";
        assert_eq!(ask(text, "h", 5432, "db", "joe").as_deref(), Some("one"));
        assert_eq!(ask(text, "h", 5433, "db", "joe").as_deref(), Some("two"));
        assert_eq!(ask(text, "h", 5432, "db", "ann").as_deref(), Some("three"));
        assert_eq!(ask(text, "other", 5432, "db", "ann"), None);
    }

    #[test]
    fn colons_and_backslashes_are_escaped() {
        let text = r"\:\:1:5432:a\\b:\*:p\:w\\d:with:colons";
        assert_eq!(ask(text, "::1", 5432, r"a\b", "*").as_deref(), Some(r"p:w\d:with:colons"));
        assert_eq!(ask(text, "::1", 5432, r"a\b", "joe"), None, "an escaped star is no wildcard");
    }

    #[test]
    fn a_file_others_can_read_is_not_used() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("pgpass");
        let hosts = ["h".to_owned()];
        let wanted = Wanted { hosts: &hosts, port: 1, dbname: "d", user: "u" };
        let mut warnings = Vec::new();
        assert_eq!(look_up(&path, wanted, &mut warnings), None);
        assert!(warnings.is_empty(), "a missing file is nothing to warn of");
        fs::write(&path, "h:1:d:u:secret\n").expect("write");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("chmod");
        assert_eq!(look_up(&path, wanted, &mut warnings), None);
        assert!(warnings[0].contains("chmod 600") && !warnings[0].contains("secret"));
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        assert_eq!(look_up(&path, wanted, &mut warnings), Some(Secret::new("secret")));
        assert_eq!(look_up(dir.path(), wanted, &mut warnings), None);
        assert_eq!(warnings.len(), 2);
    }

    fn escape(text: &str) -> String {
        text.replace('\\', "\\\\").replace(':', "\\:")
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_found(
            host in "[^\r\n*#]{1,8}", dbname in "[^\r\n*]{1,8}", user in "[^\r\n*]{1,8}",
            password in "[^\r\n]{1,8}", port in 1u16..,
        ) {
            let text = format!(
                "{}:{port}:{}:{}:{}\n",
                escape(&host), escape(&dbname), escape(&user), escape(&password)
            );
            prop_assert_eq!(ask(&text, &host, port, &dbname, &user), Some(password));
        }

        #[test]
        fn nothing_panics(text in ".*") {
            let _ = ask(&text, "h", 1, "d", "u");
        }
    }
}

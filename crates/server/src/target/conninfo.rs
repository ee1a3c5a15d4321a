//! Reading a connection string: libpq's URI and its keyword/value form.
//!
//! Gives names and values as written; what they mean is decided elsewhere.

use std::collections::BTreeMap;

/// A connection string that cannot be read. Holds no part of the string: a
/// piece of a password may stand anywhere in a broken one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConninfoError {
    /// A keyword without "=".
    #[error(
        "the connection string has a word without \"=\" after it: write keyword=value pairs (a value with spaces in single quotes), or a postgresql:// URI"
    )]
    NoEquals,
    /// A quote that is never closed.
    #[error("the connection string has a single quote that is never closed")]
    OpenQuote,
    /// A percent sign that is not followed by two hex digits, or gives no text.
    #[error(
        "the connection URI has a % in its {0} that is not followed by two hex digits, or does not give UTF-8 text: write a literal % as %25"
    )]
    Percent(&'static str),
    /// A "[" without "]".
    #[error("the connection URI has an IPv6 address without a closing \"]\"")]
    Bracket,
    /// A port that is no number, most often a password cut by its own "/".
    #[error(
        "the connection URI has a port that is no number: in a user or password write / as %2F, ? as %3F and @ as %40"
    )]
    Port,
    /// A parameter without a value.
    #[error("the connection URI has a parameter without a value: write name=value")]
    NoValue,
    /// A host with an "@" in it, most often from a password.
    #[error("the connection URI has more than one @: write one in the user or password as %40")]
    UnquotedAt,
}

/// Parameters by name.
pub(crate) type Pairs = BTreeMap<String, String>;

/// Whether the text is a URI rather than keywords.
fn uri_rest(text: &str) -> Option<&str> {
    ["postgresql://", "postgres://"].into_iter().find_map(|scheme| text.strip_prefix(scheme))
}

/// Whether a database name is really a connection string, as psql accepts it.
pub(crate) fn looks_like_conninfo(dbname: &str) -> bool {
    uri_rest(dbname).is_some() || dbname.contains('=')
}

/// Reads either form.
pub(crate) fn parse(text: &str) -> Result<Pairs, ConninfoError> {
    let text = text.trim();
    match uri_rest(text) {
        Some(rest) => parse_uri(rest),
        None => parse_keywords(text),
    }
}

fn parse_keywords(text: &str) -> Result<Pairs, ConninfoError> {
    let mut pairs = Pairs::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(pairs);
        }
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| *c != '=' && !c.is_whitespace()) {
            name.push(c);
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.next() != Some('=') {
            return Err(ConninfoError::NoEquals);
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let quoted = chars.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        let mut closed = !quoted;
        while let Some(c) = chars.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '\\' => value.extend(chars.next()),
                '\'' if quoted => {
                    closed = true;
                    break;
                }
                other => value.push(other),
            }
        }
        if !closed {
            return Err(ConninfoError::OpenQuote);
        }
        pairs.insert(name, value);
    }
}

fn parse_uri(rest: &str) -> Result<Pairs, ConninfoError> {
    let mut pairs = Pairs::new();
    // As libpq: user and password end at the first "@" before any "/" or "?".
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_end);
    let hosts = match authority.split_once('@') {
        Some((_, hosts)) if hosts.contains('@') => return Err(ConninfoError::UnquotedAt),
        Some((login, hosts)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            put(&mut pairs, "user", &decode(user, "user")?);
            if let Some(password) = password {
                put(&mut pairs, "password", &decode(password, "password")?);
            }
            hosts
        }
        None => authority,
    };
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for host in hosts.split(',') {
        let (name, port) = split_port(host)?;
        names.push(decode(name, "host")?);
        let port = decode(port, "port")?;
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ConninfoError::Port);
        }
        ports.push(port);
    }
    // Lists are kept as libpq keeps them, joined by commas.
    put(&mut pairs, "host", &join_list(&names));
    put(&mut pairs, "port", &join_list(&ports));
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, query),
        None => (tail, ""),
    };
    put(&mut pairs, "dbname", &decode(path.strip_prefix('/').unwrap_or(path), "database name")?);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err(ConninfoError::NoValue);
        };
        let name = decode(name, "parameters")?;
        let value = decode(value, "parameters")?;
        if name == "ssl" && value == "true" {
            // JDBC's spelling, which libpq understands as well.
            pairs.insert("sslmode".to_owned(), "require".to_owned());
        } else {
            pairs.insert(name, value);
        }
    }
    Ok(pairs)
}

fn put(pairs: &mut Pairs, name: &str, value: &str) {
    if !value.is_empty() {
        pairs.insert(name.to_owned(), value.to_owned());
    }
}

fn join_list(items: &[String]) -> String {
    if items.iter().all(String::is_empty) {
        return String::new();
    }
    items.join(",")
}

/// Splits "host:port", where the host may be an IPv6 address in brackets.
fn split_port(host: &str) -> Result<(&str, &str), ConninfoError> {
    if let Some(rest) = host.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or(ConninfoError::Bracket)?;
        return Ok((name, after.strip_prefix(':').unwrap_or(after)));
    }
    Ok(host.split_once(':').unwrap_or((host, "")))
}

fn decode(text: &str, part: &'static str) -> Result<String, ConninfoError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(ConninfoError::Percent(part));
        };
        let decoded = u8::try_from(high * 16 + low).expect("two hex digits make one byte");
        if decoded == 0 {
            return Err(ConninfoError::Percent(part));
        }
        bytes.push(decoded);
    }
    String::from_utf8(bytes).map_err(|_| ConninfoError::Percent(part))
}

/// Whether a text shows a password: that of `scheme://user:password@host`, or a keyword of
/// that name. Any word will do, a connection string or not.
pub fn holds_password(text: &str) -> bool {
    let after = text.split_once("://").map(|(_, rest)| rest);
    let user = after.and_then(|rest| rest.split('/').next()?.rsplit_once('@'));
    user.is_some_and(|(user, _)| user.contains(':'))
        || text.to_ascii_lowercase().contains("password")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn passwords_are_seen_in_both_forms() {
        for text in ["host=h password=x", "a://me:x@h/d", "a://h/d?sslPassword=x", "PGPASSWORD=x"] {
            assert!(holds_password(text), "{text}");
        }
        for text in ["", "host=h user=me", "postgres://me@h:5433/d", "postgres://h/a:b@c", "a:b@h"]
        {
            assert!(!holds_password(text), "{text}");
        }
    }

    #[test]
    fn keywords_as_in_the_manual() {
        let text = r"host = localhost port=5432  user='joe o\'neill' password='a\\b c' options='-c x=1' dbname=''";
        assert_eq!(
            parse(text),
            Ok(pairs(&[
                ("host", "localhost"),
                ("port", "5432"),
                ("user", "joe o'neill"),
                ("password", r"a\b c"),
                ("options", "-c x=1"),
                ("dbname", ""),
            ]))
        );
        assert_eq!(parse("  "), Ok(Pairs::new()));
        assert_eq!(parse("host"), Err(ConninfoError::NoEquals));
        assert_eq!(parse("a='b"), Err(ConninfoError::OpenQuote));
    }

    #[test]
    fn uris_as_in_the_manual() {
        for (text, expected) in [
            ("postgresql://", &[][..]),
            ("postgresql://localhost", &[("host", "localhost")]),
            ("postgres://localhost:5433", &[("host", "localhost"), ("port", "5433")]),
            ("postgresql://localhost/mydb", &[("host", "localhost"), ("dbname", "mydb")]),
            ("postgresql://user@localhost", &[("user", "user"), ("host", "localhost")]),
            (
                "postgresql://user:s%3Acret%25@localhost?connect_timeout=10&application_name=my%20app",
                &[
                    ("user", "user"),
                    ("password", "s:cret%"),
                    ("host", "localhost"),
                    ("connect_timeout", "10"),
                    ("application_name", "my app"),
                ],
            ),
            (
                "postgresql://other@[2001:db8::1234]:5434/otherdb",
                &[
                    ("user", "other"),
                    ("host", "2001:db8::1234"),
                    ("port", "5434"),
                    ("dbname", "otherdb"),
                ],
            ),
            (
                "postgresql://%2Fvar%2Flib%2Fpostgresql/dbname",
                &[("host", "/var/lib/postgresql"), ("dbname", "dbname")],
            ),
            (
                "postgresql:///dbname?host=/var/lib/postgresql",
                &[("host", "/var/lib/postgresql"), ("dbname", "dbname")],
            ),
            (
                "postgresql://host1:123,host2:456/db",
                &[("host", "host1,host2"), ("port", "123,456"), ("dbname", "db")],
            ),
            ("postgresql:///?ssl=true", &[("sslmode", "require")]),
        ] {
            assert_eq!(parse(text), Ok(pairs(expected)), "{text}");
        }
    }

    #[test]
    fn broken_uris_are_refused_without_repeating_them() {
        for text in [
            "postgresql://u:%zz@h",
            "postgresql://u:%0@h",
            "postgresql://u:%00@h",
            "postgresql://u:%ff@h",
            "postgresql://[::1/db",
            "postgresql://u:hunter2@x@h/db",
            "postgresql://u:hunter2/x@h/db",
            "postgresql://u:1?hunter2@h/db",
            "user=u password=a hunter2",
            "password=a hunter2='x",
            "postgresql://h/db?port",
        ] {
            let error = parse(text).expect_err(text);
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    proptest! {
        #[test]
        fn quoted_keywords_come_back(values in proptest::collection::btree_map("[a-z_]{1,8}", "[^\0]*", 0..5)) {
            let text: String = values
                .iter()
                .map(|(name, value)| {
                    let value = value.replace('\\', "\\\\").replace('\'', "\\'");
                    format!(" {name} = '{value}'")
                })
                .collect();
            prop_assert_eq!(parse(&text), Ok(values));
        }

        #[test]
        fn encoded_uris_come_back(user in "[^\0]{1,9}", password in "[^\0]{1,9}", dbname in "[^\0]{1,9}") {
            let encode = |text: &str| -> String { text.bytes().map(|b| format!("%{b:02X}")).collect() };
            let text = format!("postgresql://{}:{}@h:1/{}", encode(&user), encode(&password), encode(&dbname));
            let parsed = parse(&text).expect("valid");
            prop_assert_eq!(&parsed["user"], &user);
            prop_assert_eq!(&parsed["password"], &password);
            prop_assert_eq!(&parsed["dbname"], &dbname);
        }

        #[test]
        fn nothing_panics(text in ".*", rest in ".*") {
            let _ = parse(&text);
            let _ = parse(&format!("postgres://{rest}"));
        }
    }
}

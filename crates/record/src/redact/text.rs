//! Secrets in any text: error messages, sentences, values, single words.

use std::borrow::Cow;
use std::ops::Range;

use super::HIDDEN;
use super::name::names_secret;

/// Beginnings of tokens that say themselves what they are.
const TOKENS: [&str; 15] = [
    "AKIA",
    "ASIA",
    "SCRAM-SHA-256$",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "hvs.",
    "npm_",
    "sk-",
    "sk_live_",
    "xoxb-",
    "xoxp-",
];
/// Shorter words are none of these.
const TOKEN_LENGTH: usize = 20;
/// Schemes under which the part before `@` is a token though it has no colon.
const WEB: [&str; 2] = ["http", "https"];
/// Shorter words behind "bearer" are words of a sentence.
const BEARER_LENGTH: usize = 8;
/// How a private key begins.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// A text without the secrets that can be told from what stands around them: passwords of
/// URIs and connection strings, values behind names such as `token=`, the value of an
/// `Authorization` header, a literal behind `PASSWORD`.
pub fn text(text: &str) -> Cow<'_, str> {
    let spans = spans(text);
    if spans.iter().all(Range::is_empty) { Cow::Borrowed(text) } else { masked(text, spans) }
}

/// Whether [`text`] would hide something of it.
pub fn holds_secret(text: &str) -> bool {
    spans(text).iter().any(|span| !span.is_empty())
}

/// Where the secrets are, in any order. An empty span is the place of a value that comes from
/// elsewhere: the end of `password=`.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = of_uris(text);
    of_names(text, &mut spans);
    of_shapes(text, &mut spans);
    spans
}

/// The text with [`HIDDEN`] in place of what the spans cover.
pub(super) fn masked(text: &str, mut spans: Vec<Range<usize>>) -> Cow<'_, str> {
    spans.retain(|span| !span.is_empty());
    spans.sort_by_key(|span| (span.start, span.end));
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        if span.start > at || shown.is_empty() {
            shown.push_str(&text[at..span.start]);
            shown.push_str(HIDDEN);
        }
        at = at.max(span.end);
    }
    shown.push_str(&text[at..]);
    Cow::Owned(shown)
}

/// Passwords of `scheme://user:password@host`.
pub(super) fn of_uris(text: &str) -> Vec<Range<usize>> {
    let mut word = Word { end: 0, last_at: None };
    let mut spans = Vec::new();
    for (colon, sign) in text.match_indices("://") {
        let start = colon + sign.len();
        // One word may hold any number of them, and is looked through once.
        if start > word.end {
            word = Word::from(text, start);
        }
        spans.extend(password_of_uri(text, colon, &word));
    }
    spans
}

/// Text up to the next blank.
struct Word {
    end: usize,
    /// Where its last `@` is.
    last_at: Option<usize>,
}

impl Word {
    fn from(text: &str, start: usize) -> Word {
        let rest = &text[start..];
        let rest = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        Word { end: start + rest.len(), last_at: rest.rfind('@').map(|at| start + at) }
    }
}

fn password_of_uri(text: &str, colon: usize, word: &Word) -> Option<Range<usize>> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    let scheme = text[..colon].rsplit(|c| !is_scheme(c)).next()?.to_ascii_lowercase();
    let start = colon + "://".len();
    let rest = &text[start..word.end];
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let web = WEB.contains(&scheme.as_str());
    if let Some(at) = authority.rfind('@') {
        return match authority[..at].find(':') {
            Some(colon) => Some(start + colon + 1..start + at),
            None => web.then_some(start..start + at),
        };
    }
    // A password may hold the characters that end an authority, or the text ends in it.
    let after = authority.find(':').filter(|_| !authority.starts_with('['))? + 1;
    let port = authority[after..].trim_end_matches(['"', '\'', ',', ';', ')', '.', '`']);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    match word.last_at.filter(|at| *at >= start + after) {
        Some(at) if !web || !is_port => Some(start + after..at),
        _ if is_port || port.contains(',') => None,
        _ => Some(start + after..start + rest.len()),
    }
}

/// Values behind names of secrets: `name=value`, `"name": "value"`, `Name: value`,
/// `name 'value'`.
fn of_names(text: &str, spans: &mut Vec<Range<usize>>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let mut at = 0;
    while let Some(found) = text[at..].find(is_name) {
        let start = at + found;
        let end = text[start..].find(|c| !is_name(c)).map_or(text.len(), |length| start + length);
        at = end;
        if names_secret(&text[start..end])
            && let Some(value) = value_behind(text, start, end)
        {
            // A name inside a value that is hidden hides no more than that.
            at = at.max(value.end.min(text.len()));
            spans.push(value);
        }
    }
}

/// The value behind the name at `start..end`, where there is one.
fn value_behind(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let opening = text[..start].chars().next_back().filter(|c| ['"', '\''].contains(c));
    let skip = |at: usize, what: &[char]| text.len() - text[at..].trim_start_matches(what).len();
    // The end of a quoted name, which JSON in a string has escaped.
    let named = if opening.is_some() { skip(end, &['\\', '"', '\'']) } else { end };
    let sign = skip(named, &[' ', '\t', '\r', '\n']);
    let rest = &text[sign..];
    let sign_length = rest.len() - rest.trim_start_matches([':', '=', '>', '@']).len();
    let how = &rest[..sign_length];
    let value = skip(sign + sign_length, &[' ', '\t', '\r', '\n']);
    let header = how == ":" && opening.is_none_or(|_| named == end);
    if how.is_empty() {
        let spaced = sign > named || is_dollar_quote(&text[value..]);
        return (spaced && begins_quoted(&text[value..])).then(|| quoted(text, value));
    }
    if text[sign..].starts_with("://") {
        return None;
    }
    if header {
        let name = &text[start..end];
        let is_header = name.contains('-')
            || ["authorization", "cookie"].contains(&name.to_ascii_lowercase().as_str());
        if !is_header && !begins_quoted(&text[value..]) {
            // `password: wrong` in a sentence, `token:abc` in a word.
            let glued = value == sign + 1 && value < text.len();
            return glued.then(|| bare(text, start, value));
        }
        if is_header {
            let closing = opening.unwrap_or('\n');
            let length = text[value..].find([closing, '\n']).unwrap_or(text.len() - value);
            return Some(value..value + length);
        }
    }
    if begins_quoted(&text[value..]) {
        return Some(quoted(text, value));
    }
    let parameter = text[value..].strip_prefix('$').and_then(|rest| rest.chars().next());
    if parameter.is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    Some(bare(text, start, value))
}

/// A value up to the blank behind it, in the query of a URI up to the next parameter.
fn bare(text: &str, name: usize, value: usize) -> Range<usize> {
    if text[value..].starts_with(HIDDEN) {
        return value..value + HIDDEN.len();
    }
    let in_query = text[..name].ends_with(['?', '&', ';']);
    let ends = |c: char| c.is_whitespace() || (in_query && c == '&');
    let length = text[value..].find(ends).unwrap_or(text.len() - value);
    value..value + length
}

fn is_dollar_quote(text: &str) -> bool {
    let tag = text.strip_prefix('$').and_then(|rest| rest.split_once('$'));
    let is_tag = |tag: &str| tag.chars().all(|c| c.is_alphanumeric() || c == '_');
    tag.is_some_and(|(tag, _)| is_tag(tag) && !tag.starts_with(|c: char| c.is_ascii_digit()))
}

fn begins_quoted(text: &str) -> bool {
    let bare = without_prefix(text);
    bare.starts_with(['\'', '"', '\\']) || is_dollar_quote(text)
}

/// A literal without the letters before its quote.
fn without_prefix(text: &str) -> &str {
    for prefix in ["U&", "u&", "E", "e", "N", "n", "B", "b", "X", "x"] {
        if let Some(rest) = text.strip_prefix(prefix)
            && rest.starts_with('\'')
        {
            return rest;
        }
    }
    text
}

/// A quoted value with its quotes; up to the end of the text where it is not closed.
fn quoted(text: &str, start: usize) -> Range<usize> {
    let rest = &text[start..];
    if is_dollar_quote(rest) {
        let tag = rest[1..].find('$').map_or(rest, |end| &rest[..end + 2]);
        let close = rest[tag.len()..].find(tag).map(|at| tag.len() + at + tag.len());
        return start..start + close.unwrap_or(rest.len());
    }
    let bare = without_prefix(rest);
    let opened = rest.len() - bare.len();
    // Escaped or doubled where the whole stands in quotes itself: \"x\", ''x y''.
    let slashes = bare.len() - bare.trim_start_matches('\\').len();
    let Some(quote) = bare[slashes..].chars().next().filter(|c| ['"', '\''].contains(c)) else {
        return start..start + rest.find(char::is_whitespace).unwrap_or(rest.len());
    };
    let double: String = [quote, quote].iter().collect();
    let first = opened + slashes + 1;
    let empty = |after: &str| after.is_empty() || after.starts_with([' ', ',', ')', ';', '}']);
    let (first, closing) = match rest[first..].strip_prefix(quote) {
        Some(after) if slashes == 0 && !empty(after) => (first + 1, double.as_str()),
        _ => (first, &double[..1]),
    };
    let mut at = first;
    while at < rest.len() {
        let Some(found) = rest[at..].find(['\\', quote]) else { break };
        at += found;
        if slashes == 0 && rest[at..].starts_with('\\') {
            let skipped = rest[at + 1..].chars().next().map_or(0, char::len_utf8);
            at += 1 + skipped;
        } else if slashes > 0 && rest[at..].starts_with('\\') {
            let run = rest[at..].len() - rest[at..].trim_start_matches('\\').len();
            if run <= slashes && rest[at + run..].starts_with(quote) {
                return start..start + at + run + 1;
            }
            at += run + usize::from(rest[at + run..].starts_with(quote));
        } else if closing.len() == 1 && rest[at..].starts_with(double.as_str()) {
            at += 2;
        } else if rest[at..].starts_with(closing) {
            return start..start + at + closing.len();
        } else {
            at += 1;
        }
    }
    start..text.len()
}

/// Words that are secrets whatever stands before them.
fn of_shapes(text: &str, spans: &mut Vec<Range<usize>>) {
    let ends = |c: char| c.is_whitespace() || ['"', '\'', ',', '=', '<', '>'].contains(&c);
    let mut bearer = false;
    let mut at = 0;
    for word in text.split(ends) {
        let end = at + word.len();
        let token = TOKENS.iter().any(|begin| word.starts_with(begin));
        let shaped = word.len() >= TOKEN_LENGTH && (token || is_md5(word));
        if shaped || (bearer && word.len() >= BEARER_LENGTH) {
            spans.push(at..end);
        }
        bearer = word.eq_ignore_ascii_case("bearer");
        at = end + text[end..].chars().next().map_or(0, char::len_utf8);
    }
    for (at, _) in text.match_indices(PRIVATE_KEY) {
        let start = at + PRIVATE_KEY.len();
        let length = text[start..].find("-----END").unwrap_or(text.len() - start);
        if !text[..at].ends_with("END ") && !text[..at].ends_with("END RSA ") {
            spans.push(start..start + length);
        }
    }
}

/// Whether it is a password as PostgreSQL keeps those of `md5`.
fn is_md5(word: &str) -> bool {
    let digits = word.strip_prefix("md5").filter(|digits| digits.len() == 32);
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_told_from_what_stands_around_them() {
        for (given, kept) in [
            ("postgres://a:hush@h:5432/d", "postgres://a:…@h:5432/d"),
            ("at postgres://a:hu@sh@h/d, then", "at postgres://a:…@h/d, then"),
            ("postgres://a:hu/sh@h/d", "postgres://a:…@h/d"),
            ("redis://:hush@cache", "redis://:…@cache"),
            ("https://hush@git.example/x", "https://…@git.example/x"),
            ("postgres://a:hush", "postgres://a:…"),
            ("host=h password=hush user=u", "host=h password=… user=u"),
            ("host=h password = 'hu sh' user=u", "host=h password = … user=u"),
            (r"password='hu\'sh' user=u", "password=… user=u"),
            ("'host=h password=''hu sh'' user=u'", "'host=h password=… user=u'"),
            (
                "jdbc:postgresql://h/d?password=hush&user=u",
                "jdbc:postgresql://h/d?password=…&user=u",
            ),
            (r#"{"db_password": "hu,sh", "x": 1}"#, r#"{"db_password": …, "x": 1}"#),
            (r#"{\"password\":\"hush\",\"x\":1}"#, r#"{\"password\":…,\"x\":1}"#),
            ("Authorization: Bearer hush.hush", "Authorization: …"),
            ("X-Api-Key: hush", "X-Api-Key: …"),
            ("at ALTER ROLE a PASSWORD 'hu''sh' LOGIN", "at ALTER ROLE a PASSWORD … LOGIN"),
            ("PASSWORD $x$hu sh$x$ LOGIN", "PASSWORD … LOGIN"),
            ("password 'hush", "password …"),
            ("parameter \"app.password\": \"hush\"", "parameter \"app.password\": …"),
            ("md5d41d8cd98f00b204e9800998ecf8427e", "…"),
            ("with AKIAIOSFODNN7EXAMPLE in it", "with … in it"),
        ] {
            assert_eq!(text(given), kept, "{given}");
        }
    }

    #[test]
    fn ordinary_sentences_stay() {
        for given in [
            "password authentication failed for user \"bob\"",
            "fe_sendauth: no password supplied",
            "postgres://me@h:5433/d and http://h:80/p?mail=a@b",
            "postgres://h1:5432,h2:5433/d",
            "checkpoint completed: 10 buffers written, write 0.1 s",
            "relation \"tokens\" does not exist",
            "WHERE password = $1 AND x = 'y'",
            "max_wal_size = 1GB",
            "é=ü ://",
        ] {
            assert_eq!(text(given), given);
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(given in "(password|token|://|:|@|=|'|\"|\\$|\\\\|é| |[a-z]|E'|--){0,30}") {
            let _ = text(&given);
        }
    }
}

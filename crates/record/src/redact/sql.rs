//! Secrets in SQL.
//!
//! A text is cut into tokens as PostgreSQL's scanner has them (`src/backend/parser/scan.l`).
//! Where one of them says that a secret is near (a role's password, a connection string, a
//! function that encrypts), all literals and comments of the text are hidden: what is learnt
//! from the others is not worth the risk. What cannot be read to its end was cut off, and is
//! hidden from the token on that is open.

use std::borrow::Cow;
use std::ops::Range;

use super::name::names_secret;
use super::text::{masked, of_uris, spans};

/// How deep literals are looked into that hold SQL themselves: the body of a function that
/// executes a string that holds a `DO` block.
const DEPTH: u8 = 4;

/// Parts of names of functions whose arguments are secrets.
const FUNCTIONS: [&str; 10] = [
    "credential",
    "crypt",
    "dblink",
    "hmac",
    "passphrase",
    "passwd",
    "password",
    "pg_tde",
    "secret",
    "vault",
];

/// What a text that has a backslash before a quote is searched for: whether the quote ends
/// its literal depends on `standard_conforming_strings`, so nothing behind it is sure.
const MENTIONS: [&str; 13] = [
    "://",
    "authorization",
    "connection",
    "conninfo",
    "crypt",
    "dblink",
    "identified",
    "key",
    "mapping",
    "pass",
    "pwd",
    "secret",
    "token",
];

/// A text of one or more statements without its secrets. Statements that hold none stay as
/// they are; of one that does all literals and comments go.
///
/// Takes what `pg_stat_statements` and `pg_stat_activity` show, which may be cut anywhere.
pub fn sql(text: &str) -> Cow<'_, str> {
    let lexed = lex(text);
    let found = secrets(text, &lexed, DEPTH);
    let unsure = lexed.unsure.filter(|unsure| {
        let rest = text[*unsure..].to_ascii_lowercase();
        found.is_some() || MENTIONS.iter().any(|word| rest.contains(word))
    });
    let cut = unsure.or(lexed.open);
    let mut spans = found.map(|bare| hidden(&lexed, &bare)).unwrap_or_default();
    spans.extend(cut.map(|cut| cut..text.len()));
    // What stands outside of literals, in a text that is no SQL.
    spans.extend(of_uris(text));
    if spans.iter().all(Range::is_empty) { Cow::Borrowed(text) } else { masked(text, spans) }
}

/// What to hide of a text that may be SQL, where it holds a secret as SQL. One with an
/// apostrophe that is no quote is a sentence.
pub(super) fn spans_of_sql(text: &str) -> Vec<Range<usize>> {
    let lexed = lex(text);
    let found = secrets(text, &lexed, DEPTH).filter(|_| lexed.open.is_none());
    found.map(|bare| hidden(&lexed, &bare)).unwrap_or_default()
}

/// All literals and comments, and the names and numbers that `bare` covers.
fn hidden(lexed: &Lexed, bare: &[Range<usize>]) -> Vec<Range<usize>> {
    let covered = |at: usize| bare.iter().any(|range| range.contains(&at));
    let hides = |token: &&Token| match token.kind {
        Kind::Literal | Kind::Comment => true,
        Kind::Word | Kind::Name | Kind::Number => covered(token.at.start),
        _ => false,
    };
    lexed.tokens.iter().filter(hides).map(|token| token.at.clone()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Comment,
    /// A keyword or a name; in lower case.
    Word,
    /// A name in double quotes.
    Name,
    /// A string in any quotes.
    Literal,
    Number,
    /// `$1`.
    Parameter,
    Sign(char),
}

#[derive(Debug)]
struct Token {
    kind: Kind,
    at: Range<usize>,
    /// What it says, without quotes and escapes.
    says: String,
}

#[derive(Debug, Default)]
struct Lexed {
    tokens: Vec<Token>,
    /// Where the token begins that the text does not close.
    open: Option<usize>,
    /// Where the first literal begins that may not end where it seems to.
    unsure: Option<usize>,
}

/// Cuts a text into tokens, up to the one that is not closed.
fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some((kind, length, says)) = token(rest) else {
            lexed.open = Some(at);
            break;
        };
        if kind == Kind::Literal && ends_in_backslash(&rest[..length]) {
            lexed.unsure = lexed.unsure.or(Some(at));
        }
        lexed.tokens.push(Token { kind, at: at..at + length, says });
        at += length;
    }
    lexed
}

/// Whether a plain literal ends in `\'`, or has `\''` in it.
fn ends_in_backslash(literal: &str) -> bool {
    literal.starts_with('\'') && literal.contains("\\'")
}

/// The token at the beginning of a text that is not empty, with its length; `None` where it
/// is not closed.
fn token(rest: &str) -> Option<(Kind, usize, String)> {
    let first = rest.chars().next()?;
    let while_true = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
    if first.is_whitespace() {
        return Some((Kind::Blank, while_true(char::is_whitespace), String::new()));
    }
    if let Some(comment) = rest.strip_prefix("--") {
        let end = comment.find(['\n', '\r']).map_or(rest.len(), |end| end + 2);
        return Some((Kind::Comment, end, rest[..end].to_owned()));
    }
    if rest.starts_with("/*") {
        let end = end_of_comment(rest)?;
        return Some((Kind::Comment, end, rest[..end].to_owned()));
    }
    if let Some((prefix, quote)) = quote(rest) {
        let escapes = matches!(prefix, "e" | "E");
        let end = end_of_quoted(&rest[prefix.len()..], quote, escapes)? + prefix.len();
        let inside = &rest[prefix.len() + 1..end - 1];
        let kind = if quote == '"' { Kind::Name } else { Kind::Literal };
        return Some((kind, end, decoded(inside, prefix, quote)));
    }
    if first == '$' {
        let tag = rest[1..].find(|c: char| !is_inner(c) || c == '$').map(|end| end + 1);
        let digits = rest[1..].starts_with(|c: char| c.is_ascii_digit());
        match tag.filter(|end| !digits && rest[*end..].starts_with('$')) {
            Some(end) => {
                let tag = &rest[..=end];
                let inside = rest[tag.len()..].find(tag)?;
                let says = rest[tag.len()..tag.len() + inside].to_owned();
                return Some((Kind::Literal, 2 * tag.len() + inside, says));
            }
            None if digits => {
                let end = rest[1..].find(|c: char| !c.is_ascii_digit());
                return Some((
                    Kind::Parameter,
                    end.map_or(rest.len(), |end| end + 1),
                    String::new(),
                ));
            }
            // The text may end in the tag.
            None if tag.is_none() => return None,
            None => return Some((Kind::Sign('$'), 1, String::new())),
        }
    }
    if first.is_alphabetic() || first == '_' || !first.is_ascii() {
        let end = while_true(is_inner);
        return Some((Kind::Word, end, rest[..end].to_lowercase()));
    }
    if first.is_ascii_digit() {
        let end = while_true(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
        return Some((Kind::Number, end, String::new()));
    }
    Some((Kind::Sign(first), first.len_utf8(), String::new()))
}

/// Whether a name goes on with it.
fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$' || (!c.is_ascii() && !c.is_whitespace())
}

/// The letters before a quote, and the quote, where the text begins with one.
fn quote(rest: &str) -> Option<(&str, char)> {
    let prefixes = ["", "e", "E", "n", "N", "b", "B", "x", "X", "u&", "U&"];
    prefixes.into_iter().find_map(|prefix| {
        let behind = rest.strip_prefix(prefix)?.chars().next()?;
        let names = prefix.is_empty() || prefix.eq_ignore_ascii_case("u&");
        let prefix = &rest[..prefix.len()];
        (behind == '\'' || (behind == '"' && names)).then_some((prefix, behind))
    })
}

fn end_of_comment(text: &str) -> Option<usize> {
    // Comments nest in PostgreSQL.
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        let found = at + text[at..].find(['/', '*'])?;
        if text[found..].starts_with("/*") {
            depth += 1;
            at = found + 2;
        } else if text[found..].starts_with("*/") {
            depth = depth.saturating_sub(1);
            at = found + 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at = found + 1;
        }
    }
}

/// Where what begins with a quote ends.
fn end_of_quoted(text: &str, quote: char, escapes: bool) -> Option<usize> {
    let mut at = 1;
    loop {
        let found = at + text[at..].find([quote, '\\'])?;
        let behind = text[found + 1..].chars().next();
        if text[found..].starts_with('\\') {
            at = found + 1 + if escapes { behind?.len_utf8() } else { 0 };
        } else if behind == Some(quote) {
            at = found + 2;
        } else {
            return Some(found + 1);
        }
    }
}

/// What a literal or name says, so that no spelling of it hides a word.
fn decoded(inside: &str, prefix: &str, quote: char) -> String {
    let double: String = [quote, quote].iter().collect();
    let plain = inside.replace(&double, &double[..1]);
    match prefix {
        "e" | "E" => without_escapes(&plain, false),
        "u&" | "U&" => without_escapes(&plain, true),
        _ => plain,
    }
}

fn without_escapes(text: &str, unicode: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(letter) = rest.chars().next() else { break };
        let (skipped, radix, most) = match letter {
            '+' if unicode => (1, 16, 6),
            _ if unicode && letter.is_ascii_hexdigit() => (0, 16, 4),
            'x' if !unicode => (1, 16, 2),
            'u' if !unicode => (1, 16, 4),
            'U' if !unicode => (1, 16, 8),
            '0'..='7' if !unicode => (0, 8, 3),
            _ => (letter.len_utf8(), 0, 0),
        };
        rest = &rest[skipped..];
        if radix == 0 {
            out.push(letter);
            continue;
        }
        let digits = rest.bytes().take(most).take_while(|b| char::from(*b).is_digit(radix)).count();
        let code = u32::from_str_radix(&rest[..digits], radix).ok().and_then(char::from_u32);
        out.extend(code);
        rest = &rest[digits..];
    }
    out.push_str(rest);
    out
}

/// What stands outside of literals and is secret too, where there is any secret.
fn secrets(text: &str, lexed: &Lexed, depth: u8) -> Option<Vec<Range<usize>>> {
    let mut search = Search { bare: Vec::new(), found: false };
    let comments = lexed.tokens.iter().filter(|token| token.kind == Kind::Comment);
    for comment in comments {
        search.found |= says_secret(&comment.says, depth);
    }
    // What such a literal says depends on a character behind it, which may be cut off.
    let escaped = |token: &Token| {
        token.kind == Kind::Literal && text[token.at.start..].starts_with(['U', 'u'])
    };
    search.found |= lexed.tokens.iter().any(escaped);
    let seen: Vec<&Token> = lexed
        .tokens
        .iter()
        .filter(|token| !matches!(token.kind, Kind::Blank | Kind::Comment))
        .collect();
    for statement in seen.split(|token| token.kind == Kind::Sign(';')) {
        search.statement(statement, lexed.open.unwrap_or(text.len()));
    }
    search.literals(&seen, depth);
    search.found.then_some(search.bare)
}

/// Whether a string or comment holds a secret, as a text or as SQL.
fn says_secret(says: &str, depth: u8) -> bool {
    !spans(says).is_empty()
        || (depth > 0 && {
            let lexed = lex(says);
            secrets(says, &lexed, depth - 1).is_some()
        })
}

struct Search {
    bare: Vec<Range<usize>>,
    found: bool,
}

impl Search {
    fn statement(&mut self, tokens: &[&Token], end: usize) {
        let word = |at: usize| match tokens.get(at) {
            Some(token) if token.kind == Kind::Word => token.says.as_str(),
            _ => "",
        };
        let mut of_role = false;
        let mut of_rows = false;
        for at in 0..tokens.len() {
            match (word(at), word(at + 1)) {
                ("create" | "alter", "user") if word(at + 2) == "mapping" => self.found = true,
                ("create" | "alter", "role" | "user" | "group") => of_role = true,
                ("create" | "alter" | "import", "server" | "subscription" | "foreign")
                | ("database", "link") => self.found = true,
                ("copy", _) => {
                    self.found |= (at..tokens.len()).any(|place| word(place) == "program");
                }
                ("uescape", _) => self.found = true,
                ("identified", "by") => {
                    self.found = true;
                    self.bare.extend(tokens.get(at + 2).map(|token| token.at.clone()));
                }
                ("password", next) if of_role && next != "null" => {
                    self.found = true;
                    self.bare.extend(tokens.get(at + 1).map(|token| token.at.clone()));
                }
                ("update" | "insert" | "merge", _) => of_rows = true,
                ("set", _) if !of_rows => self.setting(tokens, at + 1, end),
                _ => {}
            }
            self.named(tokens, at);
        }
    }

    /// `SET name = value, …`, whose values need no quotes.
    fn setting(&mut self, tokens: &[&Token], at: usize, end: usize) {
        let says = |place: usize| tokens.get(place).map_or("", |token| token.says.as_str());
        let mut at = at + usize::from(["session", "local"].contains(&says(at)));
        let mut name = String::new();
        while let Some(token) = tokens.get(at) {
            match token.kind {
                Kind::Sign('=') => break,
                Kind::Word if token.says == "to" => break,
                Kind::Word | Kind::Name => name.push_str(&token.says),
                Kind::Sign('.') => name.push('.'),
                _ => return,
            }
            at += 1;
        }
        let values = tokens.get(at + 1..).unwrap_or_default();
        let known = |token: &&&Token| token.kind == Kind::Parameter || token.says == "default";
        if names_secret(&name) && !values.is_empty() && !values.iter().all(|t| known(&t)) {
            self.found = true;
            self.bare.push(values[0].at.start..end);
        }
    }

    /// A name that makes what follows it a secret.
    fn named(&mut self, tokens: &[&Token], at: usize) {
        let token = tokens[at];
        if !matches!(token.kind, Kind::Word | Kind::Name) {
            return;
        }
        let mut behind = tokens[at + 1..].iter().map(|token| token.kind).peekable();
        if behind.peek() == Some(&Kind::Sign('(')) {
            let literal = tokens.get(at + 2).filter(|token| token.kind == Kind::Literal);
            let sets = token.says == "set_config" && literal.is_some_and(|l| names_secret(&l.says));
            self.found |= sets || FUNCTIONS.iter().any(|part| token.says.contains(part));
        } else if token.says == "connection" || names_secret(&token.says) {
            let sign = |kind: &Kind| matches!(kind, Kind::Sign(c) if "=:>|<!~".contains(*c));
            self.found |= behind.find(|kind| !sign(kind)) == Some(Kind::Literal);
        }
    }

    /// Literals that hold a secret, alone or joined: one that a line break cuts goes on in
    /// the next, and `||` joins them too.
    fn literals(&mut self, tokens: &[&Token], depth: u8) {
        let is_join = |kind: Kind| matches!(kind, Kind::Literal | Kind::Sign('|'));
        for run in tokens.chunk_by(|a, b| is_join(a.kind) && is_join(b.kind)) {
            if self.found {
                return;
            }
            let strings: Vec<&str> =
                run.iter().filter(|t| t.kind == Kind::Literal).map(|t| t.says.as_str()).collect();
            self.found |= strings.iter().any(|says| says_secret(says, depth));
            if strings.len() > 1 {
                self.found |= says_secret(&strings.concat(), depth);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_without_secrets_stay_as_they_are() {
        for text in [
            "",
            "SELECT 1",
            "select * from users where name = 'o''neill' and password = $1",
            "INSERT INTO t VALUES ('a', E'b\\'c', $$d$$, 'C:\\') -- it's",
            "UPDATE users SET password = $1, name = 'x' WHERE id = $2",
            "SELECT password, token FROM users WHERE id = 'x' ORDER BY 1",
            "CREATE TABLE tokens (token text DEFAULT 'x', password text NOT NULL)",
            "SET work_mem = '64MB'; SET search_path TO a, b",
            "SET password_encryption = 'scram-sha-256'",
            "ALTER ROLE a VALID UNTIL '2030-01-01'; ALTER ROLE a PASSWORD NULL",
            "SELECT 'http://h:80/a', 'postgres://me@h/d'",
            "DO $x$ BEGIN PERFORM 'it''s'; END $x$",
            "SELECT foo$bar$baz, a$1 FROM t /* hi /* there */ */",
            "SELECT $$it's$$, 'a' || 'b'",
            "COPY t FROM STDIN; COPY t TO '/tmp/x'",
            "SELECT ts_token_type('default'), 'a→b'",
        ] {
            assert_eq!(sql(text), text);
        }
    }

    #[test]
    fn what_is_kept_of_a_statement_with_a_secret() {
        for (text, kept) in [
            ("ALTER ROLE a PASSWORD 'hush'", "ALTER ROLE a PASSWORD …"),
            (
                "create user a password/* x */E'hu\\'sh' valid until '2030'",
                "create user a password… valid until …",
            ),
            ("SET app.password TO hush, 12", "SET app.password TO …, …"),
            ("CREATE USER a IDENTIFIED BY hush", "CREATE USER a IDENTIFIED BY …"),
            ("SELECT a FROM t WHERE b = 'trunca", "SELECT a FROM t WHERE b = …"),
            ("SELECT 1 /* trunca", "SELECT 1 …"),
            ("ALTER ROLE a PASSWORD $x$hush$x", "ALTER ROLE a PASSWORD …"),
            ("SELECT 'C:\\'; ALTER ROLE a PASSWORD 'hush'", "SELECT …"),
            ("syntax error at postgres://a:hush@h", "syntax error at postgres://a:…@h"),
        ] {
            assert_eq!(sql(text), kept);
        }
    }

    /// Where a secret stands: `{}` in a literal, with the rest of its content.
    const TEMPLATES: [(&str, &str, &str); 41] = [
        ("ALTER ROLE a WITH PASSWORD ", "{}", " VALID UNTIL 'x'"),
        ("CREATE ROLE a LOGIN ENCRYPTED PASSWORD ", "{}", ""),
        ("CREATE USER \"A b\" SUPERUSER PASSWORD\n", "{}", " IN ROLE c"),
        ("ALTER USER a PASSWORD ", "{}", ";"),
        ("CREATE GROUP g PASSWORD ", "{}", ""),
        ("ALTER GROUP g WITH PASSWORD ", "{}", ""),
        ("SELECT 1; ALTER ROLE a PASSWORD ", "{}", "; SELECT 'x'"),
        ("CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'u', password ", "{}", ")"),
        ("ALTER USER MAPPING FOR public SERVER s OPTIONS (SET \"password\" ", "{}", ")"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'h', any ", "{}", ")"),
        ("ALTER SERVER s OPTIONS (ADD x ", "{}", ")"),
        ("CREATE FOREIGN TABLE t (a int) SERVER s OPTIONS (x ", "{}", ")"),
        ("CREATE SUBSCRIPTION s CONNECTION ", "host=h password={}", " PUBLICATION p"),
        ("ALTER SUBSCRIPTION s CONNECTION ", "postgres://a:{}@h/d", ""),
        ("SELECT * FROM dblink(", "host=h password={}", ", 'SELECT 1') AS t (a int)"),
        ("SELECT dblink_connect('c', ", "dbname=d {}", ")"),
        ("SELECT public.dblink_exec(", "postgresql://a:{}@h:5/d", ", 'x')"),
        ("INSERT INTO t VALUES (1, ", "postgres://a:{}@h/d", ", 'b')"),
        ("SELECT ", "host=h user=u passWORD={}", ""),
        ("SELECT ", "redis://:{}@h", " WHERE x = 'y'"),
        ("ALTER SYSTEM SET primary_conninfo = ", "user=u {}", ""),
        ("ALTER SYSTEM SET ssl_passphrase_command TO ", "echo {}", ""),
        ("alter system set archive_command = ", "PGPASSWORD={} cp", ""),
        ("SET SESSION app.password = ", "{}", ""),
        ("SET LOCAL \"app\".\"jwt_secret\" TO ", "{}", ""),
        ("ALTER ROLE a IN DATABASE d SET my.api_key = ", "{}", ""),
        ("ALTER DATABASE d SET my.token TO ", "{}", ""),
        ("SELECT set_config('app.password', ", "{}", ", false)"),
        ("SELECT pgp_sym_encrypt('data', ", "{}", ")"),
        ("SELECT pgp_sym_decrypt(a, ", "{}", ") FROM t"),
        ("INSERT INTO users VALUES ('u', crypt(", "{}", ", gen_salt('bf')))"),
        ("SELECT hmac('x', ", "{}", ", 'sha256')"),
        ("SELECT aws_commons.create_aws_credentials('x', ", "{}", ", 'y')"),
        ("UPDATE users SET password = ", "{}", " WHERE id = 1"),
        ("SELECT f(password => ", "{}", ")"),
        ("CALL f(api_token := ", "{}", ")"),
        ("COPY t FROM PROGRAM ", "curl -u a:{} http://h", ""),
        ("DO ", "BEGIN ALTER ROLE a PASSWORD ''{}''; END", ""),
        ("DO $x$ BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', 'a', ", "{}", "); END $x$"),
        ("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS ", "SELECT dblink(''{}'', ''x'')", ""),
        ("/* for a */ INSERT INTO t VALUES (", r#"{{"password": "{}"}}"#, ")"),
    ];

    /// Content as a literal, in one of the ways to write it.
    fn literal(content: &str, how: usize) -> String {
        let doubled = content.replace('\'', "''");
        let escaped = content.replace('\\', "\\\\").replace('\'', "\\'");
        let unicode = |escape: char| -> String {
            let code = |c: char| format!("{escape}+{:06X}", u32::from(c));
            content.chars().map(code).collect()
        };
        match how % 9 {
            0 => format!("'{doubled}'"),
            1 => format!("E'{escaped}'"),
            2 => format!("e'{}'", escaped.replace("\\'", "''")),
            3 => format!("$${content}$$"),
            4 => format!("$tag${content}$tag$"),
            5 => format!("U&'{}'", unicode('\\')),
            6 => format!("u&'{}' UESCAPE '!'", unicode('!')),
            7 => format!("/* c */ '{doubled}' -- it's"),
            _ => format!(
                "E'{}'",
                content.chars().map(|c| format!("\\x{:02x}", u32::from(c))).collect::<String>()
            ),
        }
    }

    fn recased(text: &str, upper: bool) -> String {
        if upper { text.to_uppercase() } else { text.to_lowercase() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn no_secret_survives_however_it_is_written_or_cut(
            template in 0..TEMPLATES.len(),
            marked in "[a-z!#%&*+=/()0-9]{0,4}",
            how in 0_usize..9,
            case in 0..3,
            cut in prop::option::of(0.0..1.0_f64),
            before in prop::sample::select(vec!["", "SELECT 'a'; ", "EXPLAIN ", "-- c\n", "  "]),
        ) {
            // Letters that no word of the templates holds stand for the secret.
            let secret = format!("zqjzq{marked}jqzqj");
            let (head, content, tail) = TEMPLATES[template];
            let content = content.replace("{}", &secret).replace("{{", "{").replace("}}", "}");
            let content = if how % 9 == 3 || how % 9 == 4 { content.replace("''", "'") } else { content };
            let (head, tail) = match case {
                0 => (recased(head, false), recased(tail, false)),
                1 => (recased(head, true), recased(tail, true)),
                _ => (head.to_owned(), tail.to_owned()),
            };
            let content = if content.contains("''") { content.replace("''", "'") } else { content };
            let mut text = format!("{before}{head}{}{tail}", literal(&content, how));
            if let Some(cut) = cut {
                let mut end = (text.len() as f64 * cut) as usize;
                while !text.is_char_boundary(end) { end -= 1; }
                text.truncate(end);
            }
            let kept = sql(&text).to_lowercase();
            prop_assert!(!kept.contains("zqj") && !kept.contains("jqz"), "{text}\n{kept}");
            // In escapes: the codes of two of its letters.
            prop_assert!(!kept.contains("7a\\x71") && !kept.contains("00007a"), "{text}\n{kept}");
        }

        #[test]
        fn constants_of_an_ordinary_statement_stay(
            rows in prop::collection::vec("[a-c' $;/*-]{0,12}", 1..4), how in 0_usize..5,
        ) {
            let values: Vec<String> = rows.iter().map(|row| literal(&row.replace('$', ""), how)).collect();
            let text = format!("INSERT INTO t (a) VALUES ({}) RETURNING a", values.join("), ("));
            prop_assert_eq!(sql(&text), text.as_str());
        }

        #[test]
        fn no_text_brings_it_down(
            text in "(U&|E|'|\"|\\$|\\$a\\$|/\\*|\\*/|--|\n|;|set|=|\\\\|é|password|alter|role|uescape| |[a-z0-9])*",
        ) {
            let _ = sql(&text);
        }

        #[test]
        fn any_bytes_are_taken(text in "\\PC{0,200}") {
            let _ = sql(&text);
        }
    }
}

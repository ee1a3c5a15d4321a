//! Secrets in command lines.
//!
//! Every tool has its own spelling. What most share is told from names (`--db-password X`,
//! `PGPASSWORD=X`, `-Dpassword=X`, `X-Api-Key: X`) and forms (`postgres://a:X@h`); a letter
//! that means a password to one tool and a port to another is told from the tool. Words that
//! hold commands or SQL themselves (`sh -c '…'`, `psql -c '…'`) are looked into.

use std::borrow::Cow;
use std::ops::Range;

use walwright_catalog::shell_word;

use super::HIDDEN;
use super::name::names_secret;
use super::sql::spans_of_sql;
use super::text::{masked, spans, text};

/// How deep words are looked into that are commands: `ssh h "sh -c 'psql -c …'"`.
const DEPTH: u8 = 4;

/// A command line without its secrets, its words quoted as a shell reads them back.
pub fn command<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    let hidden = redacted(&words, DEPTH);
    let shown = words.iter().zip(&hidden).map(|(word, hidden)| match hidden {
        Some(hidden) => quoted(hidden),
        None => shell_word(word),
    });
    shown.collect::<Vec<String>>().join(" ")
}

/// The same for a command in one text, as a shell takes it. What is no command, a sentence,
/// loses what [`text()`](super::text()) and [`sql()`](super::sql()) find in it.
pub fn shell(line: &str) -> Cow<'_, str> {
    match inner(line, DEPTH) {
        shown if shown == line => Cow::Borrowed(line),
        shown => Cow::Owned(shown),
    }
}

/// A word for a shell, in quotes where it needs them for more than [`HIDDEN`].
fn quoted(word: &str) -> String {
    let plain = word.replace(HIDDEN, "x");
    if shell_word(&plain) == plain { word.to_owned() } else { shell_word(word) }
}

/// Programs by what their one-letter options mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Any,
    /// `-p PORT`; `--password` and `-W` ask.
    Postgres,
    /// `-pX`; `-p` and `--password` alone ask.
    MySql,
    /// `-p X` and `-pX`.
    PasswordByP,
    /// `-P X` and `-PX`.
    PasswordByUpperP,
    /// `-a X`.
    PasswordByA,
    /// `-w X`.
    PasswordByW,
    /// `-u USER:X`, `-a USER:X`, `-a X`, cookies.
    Http,
    /// `-u UID:GID`, `-p PORT:PORT`.
    Container,
}

fn tool(word: &str) -> Option<Tool> {
    const POSTGRES: [&str; 17] = [
        "clusterdb",
        "createdb",
        "createuser",
        "dropdb",
        "dropuser",
        "initdb",
        "pg_basebackup",
        "pg_dump",
        "pg_dumpall",
        "pg_isready",
        "pg_receivewal",
        "pg_recvlogical",
        "pg_restore",
        "pgbench",
        "psql",
        "reindexdb",
        "vacuumdb",
    ];
    const HTTP: [&str; 13] = [
        "ab",
        "autocannon",
        "bombardier",
        "curl",
        "curlie",
        "hey",
        "http",
        "https",
        "httpie",
        "oha",
        "vegeta",
        "wget",
        "xh",
    ];
    let name = word.rsplit('/').next().unwrap_or(word);
    Some(match name {
        _ if POSTGRES.contains(&name) => Tool::Postgres,
        _ if HTTP.contains(&name) => Tool::Http,
        _ if name.starts_with("mysql") || name.starts_with("mariadb") => Tool::MySql,
        "mongo" | "mongosh" | "mongodump" | "mongorestore" | "sshpass" | "cqlsh" | "7z" => {
            Tool::PasswordByP
        }
        "sqlcmd" | "osql" | "isql" | "bcp" | "zip" | "unzip" => Tool::PasswordByUpperP,
        "redis-cli" | "redis-benchmark" | "valkey-cli" | "valkey-benchmark" | "jmeter"
        | "jmeter.sh" => Tool::PasswordByA,
        "ldapsearch" | "ldapmodify" | "ldapadd" | "ldapwhoami" => Tool::PasswordByW,
        "docker" | "podman" | "nerdctl" | "kubectl" | "sudo" | "chown" | "runuser" => {
            Tool::Container
        }
        // What has a name of its own means none of the above.
        _ if [
            "scp",
            "ssh",
            "sysbench",
            "k6",
            "wrk",
            "wrk2",
            "locust",
            "artillery",
            "java",
            "python3",
        ]
        .contains(&name) =>
        {
            Tool::Any
        }
        _ => return None,
    })
}

/// What the word behind an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Secret,
    /// `user:password`.
    User,
    /// `Name: value`.
    Header,
    /// `name=value`.
    Cookie,
}

/// What stands in place of each word that holds a secret.
fn redacted(words: &[String], depth: u8) -> Vec<Option<String>> {
    let mut line = Line { tool: Tool::Any, next: None, sets: false, logs_in: false };
    let mut before = None;
    let redact = |word: &String| {
        let redacted = line.word(word, before.replace(word.clone()).as_deref(), depth);
        redacted.filter(|redacted| redacted != word)
    };
    words.iter().map(redact).collect()
}

struct Line {
    tool: Tool,
    next: Option<Next>,
    /// Whether a subcommand has been that sets a named value: `set`, `diset`.
    sets: bool,
    /// Whether it has been `login`.
    logs_in: bool,
}

impl Line {
    fn word(&mut self, word: &str, before: Option<&str>, depth: u8) -> Option<String> {
        let is_option = word.starts_with('-') && word.len() > 1;
        match self.next.take() {
            Some(Next::Secret) if !is_option => return Some(HIDDEN.to_owned()),
            Some(Next::User) if !is_option => {
                if let Some(shown) = self.without_password(word) {
                    return Some(shown);
                }
            }
            Some(Next::Cookie) if word.contains('=') => return Some(HIDDEN.to_owned()),
            Some(Next::Header) => {
                if let Some((name, _)) = word.split_once(':').filter(|(n, _)| names_secret(n)) {
                    return Some(format!("{name}: {HIDDEN}"));
                }
            }
            _ => {}
        }
        if is_option {
            if let Some(shown) = self.option(word) {
                return Some(shown);
            }
        } else {
            // The value of an option is no program.
            if before.is_none_or(|before| !before.starts_with('-') || before == "--") {
                self.tool = tool(word).unwrap_or(self.tool);
            }
            let asks = self.tool == Tool::MySql && word == "password";
            if asks || (self.sets && names_secret(word) && !word.contains([':', '='])) {
                self.next = Some(Next::Secret);
            }
            self.sets |= ["set", "diset"].contains(&word);
            self.logs_in |= word == "login";
        }
        // Of a command that begins with an assignment the rest is kept.
        let is_command =
            before.is_some_and(is_command_option) && word.contains(char::is_whitespace);
        if let Some(name) = secret_name(word).filter(|_| !is_command) {
            return Some(format!("{name}{HIDDEN}"));
        }
        if let Some(shown) = without_password_of_address(word) {
            return Some(shown);
        }
        if word.contains(char::is_whitespace) {
            return (depth > 0).then(|| inner(word, depth - 1)).or(Some(HIDDEN.to_owned()));
        }
        Some(text(word).into_owned())
    }

    /// Learns what the next word is; or hides what the option holds.
    fn option(&mut self, word: &str) -> Option<String> {
        let mut letters = word.strip_prefix('-').unwrap_or(word).chars();
        let letter = letters.next().unwrap_or('-');
        let attached = letters.as_str();
        if word == "--restart-command" {
            self.next = Some(Next::Secret);
            return None;
        }
        if let Some(("--restart-command", _)) = word.split_once('=') {
            return Some(format!("--restart-command={HIDDEN}"));
        }
        let asks = matches!(self.tool, Tool::Postgres | Tool::MySql) && word == "--password";
        if names_secret(word) && !asks && !word.contains([':', '=']) {
            self.next = Some(Next::Secret);
            return None;
        }
        let by_letter = match (self.tool, letter) {
            (Tool::PasswordByP, 'p')
            | (Tool::PasswordByUpperP, 'P')
            | (Tool::PasswordByA, 'a')
            | (Tool::PasswordByW, 'w') => true,
            (Tool::MySql, 'p') => !attached.is_empty(),
            (_, 'p') => self.logs_in,
            _ => false,
        };
        if by_letter && !word.starts_with("--") {
            if attached.is_empty() {
                self.next = Some(Next::Secret);
                return None;
            }
            return Some(format!("-{letter}{HIDDEN}"));
        }
        match word {
            "-u" | "-U" | "-A" | "-a" | "--user" | "--proxy-user" => {
                self.next = (self.tool != Tool::Container).then_some(Next::User);
            }
            "-P" if self.tool == Tool::Http => self.next = Some(Next::User),
            "-b" | "-C" if self.tool == Tool::Http => self.next = Some(Next::Cookie),
            "-H" | "-header" | "--header" | "--headers" => self.next = Some(Next::Header),
            _ if "uUaA".contains(letter) && self.tool != Tool::Container => {
                let value = attached.trim_start_matches('=');
                let shown = self.without_password(value)?;
                return Some(format!("-{letter}{shown}"));
            }
            _ => {
                let (name, value) = word.split_once('=')?;
                if ["--user", "--proxy-user"].contains(&name) {
                    return Some(format!("{name}={}", self.without_password(value)?));
                }
            }
        }
        None
    }

    /// `user:password` without the password.
    fn without_password(&self, word: &str) -> Option<String> {
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (user, rest) = word.split_once(':')?;
        // A user and a group.
        let ids = self.tool != Tool::Http && is_number(user) && is_number(rest);
        (!ids && !rest.starts_with("//")).then(|| format!("{user}:{HIDDEN}"))
    }
}

/// A word up to the value behind a name that makes it a secret: `--env=PGPASSWORD=`,
/// `X-Api-Key: `.
fn secret_name(word: &str) -> Option<&str> {
    let mut start = 0;
    for (at, _) in word.match_indices([':', '=']) {
        let name = &word[start..at];
        if word[..at].contains(['"', '\'']) || word[..at].contains(char::is_whitespace) {
            return None;
        }
        let value = word[at + 1..].trim_start();
        if value.is_empty() || value.starts_with("//") {
            return None;
        }
        let name = name.rsplit([',', ';', '?', '&', '{']).next().unwrap_or(name);
        if names_secret(name) {
            return Some(&word[..word.len() - value.len()]);
        }
        start = at + 1;
    }
    None
}

/// Whether a command follows: `sh -c`, `bash -lc`.
fn is_command_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.len() <= 3 && letters.bytes().all(|b| b.is_ascii_alphabetic())
}

/// `user:password@host`, with or without an option before it, that no scheme introduces.
fn without_password_of_address(word: &str) -> Option<String> {
    if word.contains("://") || word.contains(char::is_whitespace) {
        return None;
    }
    let (before, host) = word.rsplit_once('@')?;
    let (user, _) = before.split_once(':').filter(|(user, _)| !user.contains(['@', '/']))?;
    Some(format!("{user}:{HIDDEN}@{host}"))
}

/// A word that may be a command for a shell, a statement, or a sentence.
fn inner(line: &str, depth: u8) -> String {
    let shown = match split(line) {
        Some(words) => in_shell(line, &words, depth),
        None => line.to_owned(),
    };
    let mut secrets = spans(&shown);
    secrets.extend(spans_of_sql(&shown));
    masked(&shown, secrets).into_owned()
}

fn in_shell(line: &str, commands: &[Vec<Piece>], depth: u8) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut at = 0;
    for pieces in commands {
        let words: Vec<String> = pieces.iter().map(|piece| piece.says.clone()).collect();
        for (piece, hidden) in pieces.iter().zip(redacted(&words, depth)) {
            let Some(hidden) = hidden else { continue };
            shown.push_str(&line[at..piece.at.start]);
            shown.push_str(&quoted(&hidden));
            at = piece.at.end;
        }
    }
    shown.push_str(&line[at..]);
    shown
}

/// A word of a shell's line.
#[derive(Debug)]
struct Piece {
    at: Range<usize>,
    /// Without quotes and escapes.
    says: String,
}

/// The commands of a shell's line; `None` where a quote is not closed.
fn split(line: &str) -> Option<Vec<Vec<Piece>>> {
    let mut commands = vec![Vec::new()];
    let mut piece: Option<Piece> = None;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = c.is_whitespace() || ";|&()`<>".contains(c);
        if ends {
            let word = piece.take();
            if let Some(last) = commands.last_mut() {
                last.extend(word);
            }
            if ";|&()`\n".contains(c) {
                commands.push(Vec::new());
            }
            continue;
        }
        let word = piece.get_or_insert_with(|| Piece { at: at..at, says: String::new() });
        match c {
            '\'' => loop {
                match chars.next()? {
                    (_, '\'') => break,
                    (_, inside) => word.says.push(inside),
                }
            },
            '"' => loop {
                match chars.next()? {
                    (_, '"') => break,
                    (_, '\\') => match chars.next()?.1 {
                        escaped @ ('"' | '\\' | '$' | '`') => word.says.push(escaped),
                        other => word.says.extend(['\\', other]),
                    },
                    (_, inside) => word.says.push(inside),
                }
            },
            '\\' => word.says.extend(chars.next().map(|(_, escaped)| escaped)),
            '$' if chars.peek().is_some_and(|(_, next)| ['\'', '"'].contains(next)) => {}
            plain => word.says.push(plain),
        }
        word.at.end = chars.peek().map_or(line.len(), |(next, _)| *next);
    }
    if let Some(last) = commands.last_mut() {
        last.extend(piece);
    }
    Some(commands)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Command lines of real tools, as typed in a shell, and what is kept of them.
    const LINES: [(&str, &str); 64] = [
        ("pgbench -h db -p 5432 -U bench -c 8 -T 60 app", "="),
        ("env PGPASSWORD=hush pgbench -p 5432 app", "env PGPASSWORD=… pgbench -p 5432 app"),
        ("env PGSSLPASSWORD='hu sh' psql", "env PGSSLPASSWORD=… psql"),
        ("PGPASSWORD=hush psql", "PGPASSWORD=… psql"),
        ("psql --password -h db", "="),
        ("psql -p 5432 -U me -W mysql", "="),
        ("psql 'host=h password=hush user=u'", "psql 'host=h password=… user=u'"),
        ("psql \"password='hu sh' user=u\"", "psql password=…"),
        ("psql postgres://me:hush@db:5432/app?x=y", "psql 'postgres://me:…@db:5432/app?x=y'"),
        ("psql -v password=hush -v ON_ERROR_STOP=1", "psql -v password=… -v ON_ERROR_STOP=1"),
        ("psql --set=pw=hush -c 'select 1'", "psql --set=pw=… -c 'select 1'"),
        ("psql -c \"alter role a password 'hush'\"", "psql -c 'alter role a password …'"),
        ("pgbench -D password=hush -D scale=5", "pgbench -D password=… -D scale=5"),
        (
            "sysbench --pgsql-password=hush --pgsql-port=5432 --threads=8 run",
            "sysbench --pgsql-password=… --pgsql-port=5432 --threads=8 run",
        ),
        ("sysbench --mysql-password hush run", "sysbench --mysql-password … run"),
        ("hammerdbcli tcl auto run.tcl", "="),
        ("sh -c 'diset tpcc pg_superuserpass hush'", "sh -c 'diset tpcc pg_superuserpass …'"),
        ("java -jar benchbase.jar -b tpcc -c config.xml --execute=true", "="),
        (
            "java -Dspring.datasource.password=hush -Xmx1g -jar a.jar",
            "java -Dspring.datasource.password=… -Xmx1g -jar a.jar",
        ),
        (
            "java -jar a.jar 'jdbc:postgresql://h/d?password=hush&user=u'",
            "java -jar a.jar 'jdbc:postgresql://h/d?password=…&user=u'",
        ),
        ("k6 run -e DB_PASSWORD=hush -u 10 a.js", "k6 run -e DB_PASSWORD=… -u 10 a.js"),
        ("k6 run --env=API_TOKEN=hush a.js", "k6 run --env=API_TOKEN=… a.js"),
        ("oha -z 60s -c 50 -a me:hush http://h:80/", "oha -z 60s -c 50 -a me:… http://h:80/"),
        ("oha -H 'X-Api-Key: hush' http://h", "oha -H 'X-Api-Key: …' http://h"),
        (
            "wrk -t4 -c64 -d60s -H 'Authorization: Bearer hush' http://h",
            "wrk -t4 -c64 -d60s -H 'Authorization: …' http://h",
        ),
        ("ab -n 9 -A me:hush -P a:hush http://h/", "ab -n 9 -A me:… -P a:… http://h/"),
        ("ab -C session=hush http://h/", "ab -C … http://h/"),
        ("curl -u me:hush http://h", "curl -u me:… http://h"),
        ("curl -ume:hush http://h", "curl -ume:… http://h"),
        ("curl --user=me:hush http://h", "curl --user=me:… http://h"),
        ("curl -u 1000:1000 http://h", "curl -u 1000:… http://h"),
        ("curl --oauth2-bearer hush http://h", "curl --oauth2-bearer … http://h"),
        ("curl -HAuthorization:hush http://h", "curl -HAuthorization:… http://h"),
        ("curl -d '{\"password\":\"hush\"}' http://h", "curl -d '{\"password\":…}' http://h"),
        (
            "curl -H 'apikey: hush' -x http://a:hush@p:1 http://h",
            "curl -H 'apikey: …' -x http://a:…@p:1 http://h",
        ),
        ("autocannon -c 10 -H 'cookie: hush' http://h", "autocannon -c 10 -H 'cookie: …' http://h"),
        ("locust -f a.py --headless -u 100 -r 10 -t 5m", "="),
        ("locust --db-password hush -u 5", "locust --db-password … -u 5"),
        (
            "jmeter -n -t a.jmx -Jdb.password=hush -Jthreads=5",
            "jmeter -n -t a.jmx -Jdb.password=… -Jthreads=5",
        ),
        ("jmeter -n -u me -a hush -P 3128", "jmeter -n -u me -a … -P 3128"),
        ("mysql -u root -phush -P 3306 app", "mysql -u root -p… -P 3306 app"),
        ("mysqlslap --password=hush --port=3306", "mysqlslap --password=… --port=3306"),
        ("mysql -u root -p app", "="),
        (
            "hey -n 9 -a me:hush -H 'X-Auth-Token: hush' http://h",
            "hey -n 9 -a me:… -H 'X-Auth-Token: …' http://h",
        ),
        (
            "vegeta attack -header 'Authorization: Basic hush' -rate 5",
            "vegeta attack -header 'Authorization: …' -rate 5",
        ),
        (
            "artillery run -v '{\"token\": \"hush\"}' a.yml",
            "artillery run -v '{\"token\": …}' a.yml",
        ),
        (
            "http -a me:hush POST h password=hush X-Api-Key:hush",
            "http -a me:… POST h password=… X-Api-Key:…",
        ),
        ("http POST h name=x token:=hush", "http POST h name=x token:…"),
        (
            "python3 load.py --db-password hush --scale 5",
            "python3 load.py --db-password … --scale 5",
        ),
        (
            "python3 load.py --auth hush --secret=hush --token hush",
            "python3 load.py --auth … --secret=… --token …",
        ),
        (
            "docker run -u 1000 -p 8080:80 -e PGPASSWORD=hush -ePGUSER=a i",
            "docker run -u 1000 -p 8080:80 -e PGPASSWORD=… -ePGUSER=a i",
        ),
        (
            "docker run -u 1000:1000 --env=AWS_SECRET_ACCESS_KEY=hush i",
            "docker run -u 1000:1000 --env=AWS_SECRET_ACCESS_KEY=… i",
        ),
        ("docker exec c mysql -phush", "docker exec c mysql -p…"),
        ("docker login -u me -p hush", "docker login -u me -p …"),
        (
            "kubectl --token=hush exec pod -- env PGPASSWORD=hush psql -p 5432",
            "kubectl --token=… exec pod -- env PGPASSWORD=… psql -p 5432",
        ),
        ("redis-benchmark -p 6379 -a hush -n 5", "redis-benchmark -p 6379 -a … -n 5"),
        ("sshpass -p hush ssh h -p 22", "sshpass -p … ssh h -p 22"),
        ("sh -c \"PGPASSWORD='hu sh' pgbench -p 5432\"", "sh -c 'PGPASSWORD=… pgbench -p 5432'"),
        ("mongosh --port 27017 -u me -p hush", "mongosh --port 27017 -u me -p …"),
        ("app --dsn 'me:hush@tcp(h:3306)/d'", "app --dsn …"),
        (
            "app me:hush@h/d --key a.pem --passfile p --label key",
            "app me:…@h/d --key a.pem --passfile p --label key",
        ),
        (
            "bash -lc 'export PGPASSWORD=\"hu sh\"; pgbench -p 5432 | tee out'",
            "bash -lc 'export PGPASSWORD=…; pgbench -p 5432 | tee out'",
        ),
        ("ssh h \"sh -c 'mysql -phush -e x'\"", "ssh h 'sh -c '\\''mysql -p… -e x'\\'''"),
        ("sh -c 'it is only a sentence; echo $((1+2)) > /tmp/x'", "="),
    ];

    fn words(line: &str) -> Vec<String> {
        let commands = split(line).unwrap();
        commands.into_iter().flatten().map(|piece| piece.says).collect()
    }

    #[test]
    fn secrets_of_the_tools_are_hidden_and_ordinary_words_stay() {
        for (typed, kept) in LINES {
            let words = words(typed);
            let whole = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
            assert_eq!(command(&words), if kept == "=" { &whole } else { kept }, "{typed}");
        }
    }

    #[test]
    fn a_line_for_a_shell_keeps_its_form() {
        assert_eq!(
            shell("systemctl restart 'postgres ql' && true"),
            "systemctl restart 'postgres ql' && true"
        );
        assert_eq!(
            shell("PGPASSWORD=hush  pg_ctl   restart; curl -u a:hush h"),
            "PGPASSWORD=…  pg_ctl   restart; curl -u a:… h"
        );
        assert_eq!(shell("don't use password='hush' here"), "don't use password=… here");
    }

    #[test]
    fn of_walwrights_own_words_the_target_is_hidden() {
        let shown = |line: &str| command(words(line));
        assert_eq!(
            shown("walwright run --dsn postgres://a:b@h/d -c 4"),
            "walwright run --dsn … -c 4"
        );
        assert_eq!(
            shown("walwright tune --restart-command 'a b' --dsn=x --init"),
            "walwright tune --restart-command … --dsn=… --init"
        );
        assert_eq!(shown("walwright run --dsn=x --label=key"), "walwright run --dsn=… --label=key");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn no_secret_survives_whatever_it_is(
            line in 0..LINES.len(),
            middle in "[a-z0-9!#%+*$&=/:'\" \\\\]{0,6}",
            deep in 0_usize..3,
        ) {
            let (typed, kept) = LINES[line];
            prop_assume!(kept != "=");
            // In a connection string and in JSON quotes and blanks have to be escaped.
            let plain = middle.replace(['"', '\'', ' ', '\\', '&', '$', '/', '#', '?'], "");
            let inside = typed.contains("://") || typed.contains('{') || typed.contains("host=")
                || typed.contains("sh -c") || typed.contains("password 'hush") || typed.contains("-lc")
                || typed.contains("password='")
                || typed.contains("hush@h/d");
            let secret = format!("zqj{}jqz", if inside { &plain } else { &middle });
            let mut words: Vec<String> =
                words(typed).iter().map(|word| word.replace("hu sh", "hush").replace("hush", &secret)).collect();
            for _ in 0..deep {
                let line = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
                words = vec!["sh".to_owned(), "-c".to_owned(), line];
            }
            let shown = command(&words);
            prop_assert!(!shown.contains("zqj") && !shown.contains("jqz"), "{words:?}\n{shown}");
        }

        #[test]
        fn no_words_bring_it_down(
            words in prop::collection::vec("(-|=|:|@|'|\"|\\\\| |;|p|u|\\$|é|password|mysql|://|…){0,8}", 0..6),
        ) {
            let _ = command(&words);
            let _ = shell(&words.join(" "));
        }
    }
}

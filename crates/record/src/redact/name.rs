//! Names whose value is a secret: of settings, options, variables, headers, columns.

/// How a part of such a name ends.
const ENDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "pass",
    "secret",
    "token",
    "apikey",
    "credential",
    "credentials",
    "userpass",
];
/// Words that end so and mean something else.
const HARMLESS: [&str; 5] = ["bypass", "compass", "encompass", "surpass", "multipass"];
/// Whole parts that make a name secret.
const PARTS: [&str; 9] =
    ["auth", "authorization", "bearer", "cookie", "creds", "dsn", "jwt", "pw", "salt"];
/// What stands before `key` where the key is a secret, not a column.
const KEYS: [&str; 20] = [
    "access",
    "account",
    "admin",
    "api",
    "app",
    "auth",
    "client",
    "encryption",
    "functions",
    "license",
    "master",
    "private",
    "root",
    "sas",
    "secret",
    "service",
    "session",
    "shared",
    "signing",
    "storage",
];
/// Last parts that make of a secret's name that of something about it.
const ABOUT: [&str; 42] = [
    "algorithm",
    "column",
    "count",
    "database",
    "db",
    "dir",
    "directory",
    "enabled",
    "encryption",
    "endpoint",
    "expiry",
    "file",
    "files",
    "host",
    "length",
    "limit",
    "mechanism",
    "method",
    "mode",
    "name",
    "path",
    "plugin",
    "policy",
    "port",
    "prompt",
    "provider",
    "reload",
    "required",
    "rounds",
    "schema",
    "size",
    "source",
    "stdin",
    "table",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
    "user",
    "username",
    "warnings",
];
/// First parts that turn an option off.
const OFF: [&str; 5] = ["no", "skip", "without", "disable", "ask"];

/// Whether the value under `name` may be a secret. Takes `PGPASSWORD`, `--db-password`,
/// `sslPassword`, `X-Api-Key`, `-Jauth.token`, `primary_conninfo`.
pub fn names_secret(name: &str) -> bool {
    let bare = name.trim_start_matches('-');
    // A property behind its option: -Dpassword, -Jauth, -eTOKEN.
    let property = (name.len() - bare.len() == 1).then(|| {
        let mut letters = bare.chars();
        letters.next();
        letters.as_str()
    });
    is_secret(bare) || property.is_some_and(is_secret)
}

fn is_secret(name: &str) -> bool {
    let parts = parts(name);
    let is_one_of =
        |part: Option<&String>, of: &[&str]| part.is_some_and(|part| of.contains(&part.as_str()));
    if is_one_of(parts.last(), &ABOUT) || is_one_of(parts.first(), &OFF) {
        return false;
    }
    let secret = |part: &String| {
        let ends = ENDS.iter().any(|end| part.ends_with(end));
        (ends && !HARMLESS.contains(&part.as_str())) || PARTS.contains(&part.as_str())
    };
    let keys = parts.windows(2).any(|pair| {
        KEYS.contains(&pair[0].as_str()) && ["key", "keys"].contains(&pair[1].as_str())
    });
    parts.iter().any(secret) || keys || walwright_catalog::is_secret(name)
}

/// The words of a name, in lower case and without the digits behind them:
/// `sslPassword2` is `ssl`, `password`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (after_lower && letter.is_uppercase()) {
            parts.push(String::new());
        }
        after_lower = letter.is_lowercase();
        if letter.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(letter.to_lowercase());
        }
    }
    let trimmed = parts.iter().map(|part| part.trim_end_matches(|c: char| c.is_ascii_digit()));
    trimmed.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_about_them() {
        for name in [
            "password",
            "PGPASSWORD",
            "PGSSLPASSWORD",
            "--pgsql-password",
            "sslPassword",
            "-Dspring.datasource.password",
            "-Jauth",
            "X-Api-Key",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "app.jwt_secret",
            "primary_conninfo",
            "ssl_passphrase_command",
            "http.curlopt_userpwd",
            "dbPass2",
            "Authorization",
            "pw",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "",
            "-",
            "--password-file",
            "PGPASSFILE",
            "--no-password",
            "password_encryption",
            "md5_password_warnings",
            "--auth-type",
            "--author",
            "--key",
            "--keyspace",
            "primary_key",
            "--bypass",
            "label",
            "--scale",
            "é",
        ] {
            assert!(!names_secret(name), "{name}");
        }
    }
}

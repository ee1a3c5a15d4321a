//! Who may come in, and by what they prove it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::ConfigError;
use super::convert::Conversion;
use super::toml_text::Table;
use crate::rules::{Rules, UserMaps};
use crate::{Stored, parse_userlist};

/// Users of the list.
#[derive(Debug, Default)]
pub struct People {
    /// The list.
    pub list: Option<PathBuf>,
    /// What it stores of their passwords.
    pub known: HashMap<String, Stored>,
}

impl People {
    /// The password of a user, where it is stored as it is.
    pub fn password(&self, user: &str) -> Option<&str> {
        match self.known.get(user) {
            Some(Stored::Password(password)) => {
                Some(password.expose()).filter(|password| !password.is_empty())
            }
            _ => None,
        }
    }
}

/// Reads the list of users.
pub fn read(conversion: &Conversion<'_>, given: Option<&Path>) -> Result<People, ConfigError> {
    let (path, text) = match given {
        Some(path) => {
            let text = conversion.around.text(path);
            let path = std::path::absolute(path).unwrap_or(path.to_owned());
            let text = text.map_err(|error| ConfigError::of_file(&path, error))?;
            (path, text)
        }
        None => {
            let Some(name) = conversion.text("auth_file") else { return Ok(People::default()) };
            let path = conversion.around.place(conversion.path, name);
            let text = conversion.around.text(&path).map_err(|error| {
                conversion.place_of("auth_file").error(format!(
                    "auth_file: cannot read {}: {error}; name it with --users",
                    path.display()
                ))
            })?;
            (path, text)
        }
    };
    let known =
        parse_userlist(&text).map_err(|(line, what)| ConfigError::in_line(&path, line, what))?;
    Ok(People { list: Some(path), known })
}

/// `[authentication]`.
pub fn authentication(
    conversion: &mut Conversion<'_>,
    listen: &[String],
) -> Result<Table, ConfigError> {
    let mut table = Table::default();
    let kind = conversion.word("auth_type");
    let place = conversion.place_of("auth_type");
    let mut asks_passwords = true;
    match kind.as_str() {
        "scram-sha-256" => table.text("type", "scram-sha-256"),
        "md5" | "plain" | "ldap" | "pam" => {
            table.text("type", "scram-sha-256");
            let what = match kind.as_str() {
                "md5" => {
                    "clients prove themselves by SCRAM-SHA-256 instead, as drivers of today do"
                }
                "plain" => {
                    "passwords are not sent in the clear: clients prove themselves by SCRAM-SHA-256"
                }
                _ => {
                    "is not there: clients prove themselves by SCRAM-SHA-256, with passwords of the userlist or the server"
                }
            };
            let is_told = kind != "md5" || conversion.text("auth_type").is_some();
            if is_told {
                conversion.note(&place, &format!("auth_type = {kind}"), what);
            }
        }
        "cert" => {
            asks_passwords = false;
            if !conversion.word("client_tls_sslmode").starts_with("verify") {
                return Err(place.error("auth_type = cert needs client_tls_sslmode = verify-full"));
            }
            table.text("type", "cert");
        }
        "hba" => hba(conversion, &mut table)?,
        _ => {
            asks_passwords = false;
            // Under rules the passwords of the list serve to log in at the server.
            let mut rules = vec!["host all all all trust"];
            if listen.iter().any(|place| place.starts_with('/')) {
                rules.insert(0, "local all all trust");
            }
            table.list("rules", rules);
            let what = match kind.as_str() {
                "any" => {
                    "whoever comes is let in under the name it gives; the console asks for one of admin_users"
                }
                _ => "whoever comes is let in, also under names that auth_file does not have",
            };
            conversion.note(&place, &format!("auth_type = {kind}"), what);
        }
    }
    if let Some(list) = &conversion.people.list {
        table.text("userlist", &list.display().to_string());
    }
    let known = &conversion.people.known;
    let mut hashed: Vec<&str> = known
        .iter()
        .filter(|(_, stored)| matches!(stored, Stored::Md5))
        .map(|(name, _)| name.as_str())
        .collect();
    hashed.sort_unstable();
    if asks_passwords && !hashed.is_empty() {
        let what = format!(
            "MD5 hashes let nobody in, store passwords or SCRAM verifiers: {}",
            hashed.join(", ")
        );
        conversion.note(&conversion.place_of("auth_file"), "auth_file", &what);
    }
    questions(conversion, &mut table)?;
    Ok(table)
}

/// What the server is asked for passwords.
fn questions(conversion: &mut Conversion<'_>, table: &mut Table) -> Result<(), ConfigError> {
    let Some(user) = conversion.text("auth_user").map(str::to_owned) else {
        if conversion.people.list.is_none() {
            let what = "none is named and no auth_user, so the server is asked for passwords, as the user of its connection string";
            conversion.note(&conversion.place_of("auth_file"), "auth_file", what);
        }
        return Ok(());
    };
    match conversion.text("auth_query") {
        None => table.text("auth_query", "default"),
        Some(query) if query.contains("$1") => {
            table.text("auth_query", query);
            let what = "its search_path is pg_catalog alone: names of your own need their schema";
            conversion.note(&conversion.place_of("auth_query"), "auth_query", what);
        }
        Some(_) => {
            let place = conversion.place_of("auth_query");
            return Err(place.error("auth_query has no $1, which stands for the user's name"));
        }
    }
    if conversion.people.known.contains_key(&user) && conversion.people.password(&user).is_none() {
        let what = "the list does not have its password as it is: give it to the user of the connection string, by ~/.pgpass";
        conversion.note(&conversion.place_of("auth_user"), "auth_user", what);
    } else {
        table.text("auth_user", &user);
    }
    if let Some(name) = conversion.text("auth_dbname") {
        table.text("auth_dbname", &super::databases::real_name(conversion, name));
    }
    Ok(())
}

/// `auth_hba_file`: as it is, or the rules that it comes to.
fn hba(conversion: &mut Conversion<'_>, table: &mut Table) -> Result<(), ConfigError> {
    let Some(path) = conversion.file("auth_hba_file")? else {
        let place = conversion.place_of("auth_type");
        return Err(place.error("auth_type = hba needs auth_hba_file"));
    };
    let text = conversion.around.text(&path).unwrap_or_default();
    let (mut lines, mut changed) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim().starts_with('#') {
            continue;
        }
        let place = super::ini::Place { file: path.clone(), line: number + 1 };
        match Rules::parse(line) {
            Ok(_) => lines.push(line.trim().to_owned()),
            Err(error) => {
                let (rule, what) = replaced(line).ok_or_else(|| place.error(&error.what))?;
                Rules::parse(&rule).map_err(|_| place.error(error.what))?;
                conversion.note(&place, "auth_hba_file", what);
                lines.push(rule);
                changed = true;
            }
        }
    }
    match Rules::parse(&text) {
        Ok(_) if !changed => table.text("hba_file", &path.display().to_string()),
        _ => table.list("rules", lines.iter().map(String::as_str)),
    }
    let rules = Rules::parse(&lines.join("\n")).unwrap_or_default();
    let place = conversion.place_of("auth_hba_file");
    let mut maps = UserMaps::default();
    if let Some(path) = conversion.file("auth_ident_file")? {
        let text = conversion.around.text(&path).unwrap_or_default();
        maps = UserMaps::parse(&text)
            .map_err(|error| ConfigError::in_line(&path, error.line, error.what))?;
        table.text("ident_file", &path.display().to_string());
    }
    if rules.need_certificates()
        && (conversion.text("client_tls_ca_file").is_none()
            || conversion.word("client_tls_sslmode") == "disable")
    {
        return Err(place.error(
            "its rules ask for certificates: set client_tls_sslmode, client_tls_ca_file, client_tls_cert_file and client_tls_key_file",
        ));
    }
    if let Some(map) = rules.with_maps(maps).missing_maps().next() {
        return Err(place.error(format!(
            "a rule names the map \"{map}\", which no line of auth_ident_file begins with"
        )));
    }
    Ok(())
}

/// A rule whose method is not there, with the one that is nearest.
fn replaced(line: &str) -> Option<(String, &'static str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().rposition(|word| matches!(*word, "md5" | "password" | "ldap"))?;
    let head = words[..at].join(" ");
    Some(match words[at] {
        "ldap" => (format!("{head} reject"), "LDAP is not asked: who fits this rule is not let in"),
        "md5" => {
            let rest = words[at + 1..].join(" ");
            (
                format!("{head} scram-sha-256 {rest}").trim_end().to_owned(),
                "md5 is scram-sha-256 here",
            )
        }
        _ => {
            let rest = words[at + 1..].join(" ");
            let what = "passwords are not sent in the clear: scram-sha-256 takes its place";
            (format!("{head} scram-sha-256 {rest}").trim_end().to_owned(), what)
        }
    })
}

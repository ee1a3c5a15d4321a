//! Forms the server itself reads: `postgresql.conf` and SQL.

use std::fmt::Write;

use super::{Exported, proof};
use crate::{Apply, Entry, Place, Profile, Scope};

/// Settings that may hold a password, or a command with one. They are never exported,
/// shown or stored.
pub fn is_secret(name: &str) -> bool {
    const SECRET: [&str; 7] = [
        "primary_conninfo",
        "ssl_passphrase_command",
        "archive_command",
        "restore_command",
        "archive_cleanup_command",
        "recovery_end_command",
        "pg_failover_slots.primary_dsn",
    ];
    const PARTS: [&str; 15] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
        "conninfo",
        "connstr",
        "connection_string",
        "dsn",
        "api_key",
        "apikey",
        "private_key",
        "access_key",
        "encryption_key",
    ];
    /// Switches and choices, whose names sound otherwise.
    const HARMLESS: [&str; 3] =
        ["password_encryption", "md5_password_warnings", "ssl_passphrase_command_supports_reload"];
    let name = name.to_ascii_lowercase();
    let harmless = HARMLESS.contains(&name.as_str());
    SECRET.contains(&name.as_str()) || (!harmless && PARTS.iter().any(|part| name.contains(part)))
}

/// Whether a value holds a password, whatever the name of its setting: as a key of a
/// connection string (`password=`, also `PGPASSWORD=` and `sslpassword=`; `passwd=`), or
/// in an address (`://user:pw@`).
pub fn holds_password(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let is_key = |word: &str| {
        let after = value.match_indices(word).map(|(at, word)| &value[at + word.len()..]);
        after.map(str::trim_start).any(|rest| rest.starts_with('='))
    };
    let is_address = |at: usize| {
        value[at..].split_once('@').is_some_and(|(user, _)| user["://".len()..].contains(':'))
    };
    is_key("password")
        || is_key("passwd")
        || value.match_indices("://").any(|(at, _)| is_address(at))
}

/// The major version that the profile is for, where it says so; else what no version is
/// newer than.
fn major(profile: &Profile) -> u32 {
    let version = profile.get("cluster.version", None).and_then(|entry| entry.read()?.number());
    version.map_or(u32::MAX, |version| version as u32)
}

/// Why a server of a major version does not take a setting from a file.
fn refused(entry: &Entry, major: u32) -> Option<String> {
    let parameter = entry.parameter;
    if parameter.apply(major) == Apply::Recreate {
        return Some("decided when the cluster is made (initdb)".to_owned());
    }
    if major == u32::MAX {
        return None;
    }
    if !parameter.is_in(major) {
        return Some(format!("PostgreSQL {major} does not have it"));
    }
    let error = parameter.read_in(major, &entry.value).err()?;
    Some(format!("PostgreSQL {major} does not take it: {error}"))
}

/// The settings that a configuration file of the profile's version can hold; others are
/// told.
pub(super) fn settings<'a>(profile: &'a Profile, out: &mut Exported) -> Vec<&'a Entry> {
    let major = major(profile);
    let mut set = Vec::new();
    for entry in profile.settings() {
        match refused(entry, major) {
            Some(why) => {
                let (name, value) = (&entry.parameter.name, &entry.value);
                out.left_out.push(format!("{name} = {value}: {why}"));
            }
            None => set.push(entry),
        }
    }
    set
}

pub(super) fn postgresql_conf(profile: &Profile, out: &mut Exported) {
    for entry in settings(profile, out) {
        if let Some(proof) = proof(entry) {
            let _ = writeln!(out.text, "# {proof}");
        }
        let _ = writeln!(out.text, "{} = {}", entry.parameter.name, conf_literal(&entry.value));
    }
}

pub(super) fn alter_system(profile: &Profile, out: &mut Exported) {
    let set = settings(profile, out);
    let restart: Vec<&str> = set
        .iter()
        .filter(|entry| entry.parameter.apply(major(profile)) == Apply::Restart)
        .map(|entry| entry.parameter.name.as_str())
        .collect();
    for entry in &set {
        if let Some(proof) = proof(entry) {
            let _ = writeln!(out.text, "-- {proof}");
        }
        let (name, value) = (&entry.parameter.name, sql_literal(&entry.value));
        let _ = writeln!(out.text, "ALTER SYSTEM SET {name} = {value};");
    }
    if !set.is_empty() {
        out.text.push_str("SELECT pg_reload_conf();\n");
    }
    if !restart.is_empty() {
        let _ = writeln!(out.text, "-- These take a restart of the server: {}", restart.join(", "));
    }
    for entry in profile.entries.iter().filter(|entry| entry.parameter.is_of_objects()) {
        match ddl(entry) {
            Ok(statement) => {
                let _ = writeln!(out.text, "{statement}");
            }
            Err(why) => out.left_out.push(format!("{} = {}: {why}", entry.title(), entry.value)),
        }
    }
}

/// A value in quotes as `postgresql.conf` takes it, on one line whatever it holds.
pub fn conf_literal(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('\'', "''");
    format!("'{}'", escaped.replace('\n', "\\n").replace('\r', "\\r"))
}

/// A string literal of SQL, right whatever standard_conforming_strings says.
pub fn sql_literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

/// The statement that sets what belongs to a table, index or column.
fn ddl(entry: &Entry) -> Result<String, &'static str> {
    let Some(Scope::Object(object)) = &entry.scope else {
        return Err("it does not name its table, index or column");
    };
    let value = entry.value.to_ascii_lowercase();
    Ok(match (&entry.parameter.place, entry.parameter.name.as_str()) {
        (Place::Table(option), _) => {
            format!(
                "ALTER TABLE {} SET ({option} = {});",
                sql_name(object),
                sql_literal(&entry.value)
            )
        }
        (Place::Index(option), _) => {
            format!(
                "ALTER INDEX {} SET ({option} = {});",
                sql_name(object),
                sql_literal(&entry.value)
            )
        }
        (_, "table.persistence") => {
            format!("ALTER TABLE {} SET {};", sql_name(object), value.to_ascii_uppercase())
        }
        (_, "table.replica_identity") if value != "index" => {
            let value = value.to_ascii_uppercase();
            format!("ALTER TABLE {} REPLICA IDENTITY {value};", sql_name(object))
        }
        (_, "column.compression") => {
            let (table, column) =
                object.rsplit_once('.').ok_or("write the column as table.column")?;
            format!(
                "ALTER TABLE {} ALTER COLUMN {} SET COMPRESSION {value};",
                sql_name(table),
                identifier(column)
            )
        }
        _ => return Err("it is a change of the schema that a person writes"),
    })
}

/// A name as SQL takes it, with its schema where it has one: `app.Orders` as
/// `"app"."Orders"`.
pub fn sql_name(text: &str) -> String {
    text.split('.').map(identifier).collect::<Vec<_>>().join(".")
}

/// In quotes always: so key words and capitals need no thought.
fn identifier(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

//! `gateway.toml` from a configuration of PgBouncer's.
//!
//! What has a counterpart keeps its meaning, PgBouncer's defaults included where the gateway's
//! are others. What has none is told in a note, unless it is at its default. Passwords go to
//! files of their own, never into the text.

mod convert;
mod databases;
mod ini;
mod people;
mod settings;
mod toml_text;

use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use walwright_wire::Secret;

use super::ConfigError;

/// What was made of a configuration.
#[derive(Debug)]
pub struct Import {
    /// `gateway.toml`.
    pub text: String,
    /// What has no counterpart, or another meaning.
    pub notes: Vec<String>,
    /// Files with passwords that the text names, to be readable by nobody else.
    pub passwords: Vec<(PathBuf, Secret)>,
}

/// What a configuration is read from.
pub trait Surroundings {
    /// The text of a file.
    ///
    /// # Errors
    /// With why it cannot be read.
    fn text(&self, path: &Path) -> Result<String, String>;
    /// The absolute path of a file that is named in another.
    fn place(&self, named_in: &Path, name: &str) -> PathBuf;
    /// The addresses of a host's name.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;
}

/// This machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine;

impl Surroundings for Machine {
    fn text(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    /// PgBouncer takes relative names as relative to where it was started, which is not known
    /// here: most often that is where the file is.
    fn place(&self, named_in: &Path, name: &str) -> PathBuf {
        let beside = named_in.parent().unwrap_or(Path::new("")).join(name);
        let path = if beside.exists() { beside } else { PathBuf::from(name) };
        std::path::absolute(&path).unwrap_or(path)
    }

    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = (name, 0).to_socket_addrs().into_iter().flatten();
        found.map(|address| address.ip()).collect()
    }
}

/// Converts a configuration of PgBouncer's. `users` takes the place of its `auth_file`; passwords
/// are to be in `directory`, in files whose names begin with `stem`.
///
/// # Errors
/// For what PgBouncer would not take, what cannot be read, and what cannot be served.
pub fn import(
    path: &Path,
    users: Option<&Path>,
    (directory, stem): (Option<&Path>, &str),
    around: &dyn Surroundings,
) -> Result<Import, ConfigError> {
    convert::Conversion::read(path, users, around)?.finish(directory, stem)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::File;
    use super::*;

    struct Files(HashMap<PathBuf, String>);

    impl Surroundings for Files {
        fn text(&self, path: &Path) -> Result<String, String> {
            self.0.get(path).cloned().ok_or_else(|| "it is not there".to_owned())
        }

        fn place(&self, _: &Path, name: &str) -> PathBuf {
            Path::new("/etc").join(name)
        }

        fn addresses(&self, _: &str) -> Vec<IpAddr> {
            Vec::new()
        }
    }

    fn convert(files: &[(&str, &str)]) -> Result<Import, ConfigError> {
        let own = |(name, text): &(&str, &str)| (Path::new("/etc").join(name), (*text).to_owned());
        let files = Files(files.iter().map(own).collect());
        let made = import(Path::new("/etc/p.ini"), None, (Some(Path::new("/out")), "g"), &files)?;
        File::parse(Path::new("/out/g.toml"), &made.text).expect("it is read again");
        Ok(made)
    }

    #[test]
    fn what_pgbouncer_would_not_take_is_told_with_its_line() {
        for (text, line, what) in [
            ("[databases]\nx = host=a", None, "no section [pgbouncer]"),
            ("a = b", Some(1), "before the first section"),
            ("[pgbouncer]\nmax_client_con = 5", Some(2), "write max_client_conn"),
            ("[pgbouncer]\nnothing_alike_here = 5", Some(2), "leave it out"),
            ("[pgbouncer]\npool_mode = tx", Some(2), "session, transaction, statement"),
            ("[pgbouncer]\nquery_timeout = 5s", Some(2), "a number of seconds"),
            ("[pgbouncer]\nhunter2 hunter2", Some(2), "write name = value"),
            ("[pgbouncer", Some(1), "ends with ]"),
            ("[elsewhere]", Some(1), "no section [elsewhere]"),
            ("[pgbouncer]\n%include p.ini", Some(2), "without end"),
            ("[pgbouncer]\n%include missing.ini", Some(2), "cannot be included"),
            ("[pgbouncer]\nlisten_addr = nowhere", Some(2), "has no address"),
            ("[pgbouncer]\nauth_file = missing", Some(2), "--users"),
            ("[pgbouncer]\nauth_type = hba", Some(2), "needs auth_hba_file"),
            ("[pgbouncer]\nauth_user = a\nauth_query = SELECT 1", Some(3), "no $1"),
            ("[pgbouncer]\nclient_tls_sslmode = require", Some(2), "client_tls_cert_file"),
            ("[pgbouncer]\n[databases]\nx = hots=a", Some(3), "write host"),
            ("[pgbouncer]\n[databases]\nx = password='hunter2", Some(3), "never closed"),
            ("[pgbouncer]\n[databases]\npgbouncer = host=a", Some(3), "the console"),
            ("[pgbouncer]\n[databases]\nx = port=hunter2", Some(3), "port is a number"),
            ("[pgbouncer]\n[users]\nx = pool_mode=no", Some(3), "pool_mode is one of"),
        ] {
            let error = convert(&[("p.ini", text)]).unwrap_err();
            assert!(error.what.contains(what), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn rules_keep_their_order_and_never_let_more_in() {
        let text = "[pgbouncer]\nauth_type = hba\nauth_hba_file = hba\nauth_file = users";
        let rules = "# comment\nlocal all all peer\nhost a all 10.0.0.0/8 md5\n\
                     host all b all ldap ldapserver=x\nhost all all all trust";
        let files = [("p.ini", text), ("hba", rules), ("users", "\"u\" \"pw\"")];
        let made = convert(&files).unwrap();
        let read = File::parse(Path::new("x"), &made.text).unwrap();
        let found = read.authentication.rules.unwrap().value;
        assert_eq!(found[1], "host a all 10.0.0.0/8 scram-sha-256");
        assert_eq!(found[2], "host all b all reject");
        assert_eq!(found.len(), 4);
        assert!(made.notes.iter().any(|note| note.starts_with("hba, line 4:")), "{:?}", made.notes);
        let plain = rules.replace("md5", "scram-sha-256").replace("ldap ldapserver=x", "reject");
        let made = convert(&[files[0], ("hba", &plain), files[2]]).unwrap();
        assert!(made.text.contains("hba_file = \"/etc/hba\""), "{}", made.text);
    }

    proptest! {
        #[test]
        fn no_text_panics(
            text in "\\PC*", value in "\\PC{0,20}", users in "\\PC{0,30}", rule in "\\PC{0,30}",
            lines in prop::collection::vec(
                "(\\[(databases|users|peers|pgbouncer)\\]|'\\PC{1,4}' = (host='\\PC{1,5}' |password='\\PC{1,5}' |user=[a-z] |port=[0-9]{1,6} |pool_size=-?[0-9]{1,6} ){0,3}|\\* = dbname=x|(listen_addr|auth_user|admin_users|unix_socket_dir) = \\PC{0,9}|(max_client_conn|default_pool_size|listen_port|server_lifetime|query_timeout) = -?[0-9]{1,20}|auth_type = (any|trust|md5|pam|hba)|auth_file = u|auth_hba_file = h)", 0..8),
        ) {
            let _ = convert(&[("p.ini", &text)]);
            let whole = format!("[pgbouncer]\njob_name = {value}\n{}", lines.join("\n"));
            let files = [("p.ini", whole.as_str()), ("u", &users), ("h", &rule)];
            let _ = convert(&files);
            let _ = convert(&[files[0], ("u", "\"a\" \"b:c\""), ("h", "local all all md5")]);
        }
    }
}

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

//! Parameters of every layer that bears on a write path: what each does, where it
//! lives, when a change takes effect, and what it can lose.
//!
//! - [`parameter`] and [`parameters`] are the catalogue. Its facts are data: one TOML
//!   file a layer in `data/`, part of the binary.
//! - [`setting`] finds any setting of the server, also those that writes do not feel.
//! - [`Value`] reads values as PostgreSQL does, with units, and says whether they are
//!   in range.
//! - [`Configuration`] reads `postgresql.conf` with its includes, and
//!   `postgresql.auto.conf`.
//! - [`Profile`] is a configuration of all layers, kept as `config.env`; [`export()`]
//!   writes it in the forms that other tools take.
//!
//! Nothing here judges whether a value is a good one (that is the review in
//! `diagnose`), nothing talks to a server or to the kernel.

mod config_env;
mod configuration;
mod entry;
mod export;
mod place;
mod profile;
mod setting;
mod shell;
mod syntax;
mod value;

pub use config_env::{ConfigEnvError, Problem};
pub use configuration::{Assignment, Configuration, ConfigurationError};
pub use entry::{Apply, DurabilityClass, Kind, Parameter, SearchRange, parameter, parameters};
pub use export::{
    Devices, Exported, Format, MountNote, conf_literal, data_disks, export, holds_password,
    is_secret, mount_notes, sql_literal, sql_name,
};
pub use place::{Disk, KernelRange, KernelVersion, OF_THE_FILE_SYSTEM, Place};
pub use profile::{Effect, Entry, EntryError, Origin, Profile, Proof, Scope};
pub use setting::{nearest_setting, setting, settings};
pub use shell::shell_word;
pub use syntax::{Line, SyntaxError, parse_line};
pub use value::{Unit, Value, ValueError};

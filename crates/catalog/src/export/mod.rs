//! A profile in the forms that other tools take, each with its own quoting.
//!
//! A form holds what it can express; what belongs to it and cannot be written is told in
//! [`Exported::left_out`] with the reason, never dropped in silence.

mod kernel;
mod server;
mod storage;
mod yaml;

use std::str::FromStr;

use crate::{Disk, Entry, Profile};

pub use server::{conf_literal, holds_password, is_secret, sql_literal, sql_name};
pub use storage::{MountNote, data_disks, mount_notes};

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Shell assignments, as walwright keeps them.
    ConfigEnv,
    /// `postgresql.conf`.
    PostgresqlConf,
    /// `ALTER SYSTEM` statements, and DDL for what belongs to tables.
    AlterSystem,
    /// A file of `/etc/sysctl.d`.
    Sysctl,
    /// A file of `/etc/udev/rules.d`.
    Udev,
    /// A script of `mdadm`, `mkfs` and `mount` commands.
    Storage,
    /// A drop-in for the systemd unit of the server.
    Systemd,
    /// Variables for Ansible.
    Ansible,
    /// The parameters block of a CloudNativePG cluster.
    CloudNativePg,
    /// The parameters block of Patroni's dynamic configuration.
    Patroni,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 10] = [
        Format::ConfigEnv,
        Format::PostgresqlConf,
        Format::AlterSystem,
        Format::Sysctl,
        Format::Udev,
        Format::Storage,
        Format::Systemd,
        Format::Ansible,
        Format::CloudNativePg,
        Format::Patroni,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::ConfigEnv => "config-env",
            Format::PostgresqlConf => "postgresql-conf",
            Format::AlterSystem => "alter-system",
            Format::Sysctl => "sysctl",
            Format::Udev => "udev",
            Format::Storage => "storage",
            Format::Systemd => "systemd",
            Format::Ansible => "ansible",
            Format::CloudNativePg => "cnpg",
            Format::Patroni => "patroni",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("'{text}' is no form: it is one of {}", names.join(", "))
        })
    }
}

/// Names of block devices under data and WAL, for rules that must name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    /// Under the data, as in `/dev`: `md0`, `nvme1n1`.
    pub data: Vec<String>,
    /// Under the WAL.
    pub wal: Vec<String>,
}

impl Devices {
    fn of(&self, disk: Disk) -> &[String] {
        match disk {
            Disk::Data => &self.data,
            Disk::Wal => &self.wal,
        }
    }
}

/// A profile in one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The text of the file.
    pub text: String,
    /// What belongs there and cannot be written, each a sentence.
    pub left_out: Vec<String>,
}

/// Writes a profile in a form. Devices are those of its arrays, and those given.
pub fn export(profile: &Profile, format: Format, devices: &Devices) -> Exported {
    let mut out = Exported { text: String::new(), left_out: Vec::new() };
    match format {
        Format::ConfigEnv => out.text = profile.to_config_env(),
        Format::PostgresqlConf => server::postgresql_conf(profile, &mut out),
        Format::AlterSystem => server::alter_system(profile, &mut out),
        Format::Sysctl => kernel::sysctl(profile, &mut out),
        Format::Udev => kernel::udev(profile, devices, &mut out),
        Format::Storage => storage::commands(profile, &mut out),
        Format::Systemd => kernel::systemd(profile, &mut out),
        Format::Ansible => yaml::ansible(profile, &mut out),
        Format::CloudNativePg => yaml::cloud_native_pg(profile, &mut out),
        Format::Patroni => yaml::patroni(profile, &mut out),
    }
    out
}

/// What proves the value, for a comment.
fn proof(entry: &Entry) -> Option<String> {
    let proof = entry.proof.as_ref()?;
    let experiment: String = proof.experiment.chars().filter(|c| !c.is_control()).collect();
    Some(match &proof.effect {
        Some(effect) => {
            let measure: String = effect.measure.chars().filter(|c| !c.is_control()).collect();
            format!(
                "proven by {experiment}: {measure} {:+.1} % [{:+.1}, {:+.1}]",
                effect.percent, effect.low, effect.high
            )
        }
        None => format!("proven by {experiment}"),
    })
}

#[cfg(test)]
mod tests;

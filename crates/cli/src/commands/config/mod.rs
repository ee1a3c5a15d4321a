//! `walwright config`: the catalogue, and profiles read, compared, written and applied.

mod apply;
mod catalogue;
mod check;
mod files;
mod rollback;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use walwright_catalog::{Disk, Profile, Scope};
use walwright_config::{MachineView, ServerView};
use walwright_server::ConnectParams;
use walwright_store::Lab;

use crate::args::ConfigCommand;
use crate::output::Output;

/// Does what was asked.
pub fn execute(lab: &Lab, command: ConfigCommand, output: &Output) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::List(args) => catalogue::list(&args, output),
        ConfigCommand::Explain(args) => catalogue::explain(&args, output),
        ConfigCommand::Check(args) => check::execute(&args, output),
        ConfigCommand::Import(args) => files::import(&args, output),
        ConfigCommand::Export(args) => files::export(&args, output),
        ConfigCommand::Apply(args) => apply::execute(lab, &args, output),
        ConfigCommand::Rollback(args) => rollback::execute(lab, &args, output),
        ConfigCommand::Promote(args) => super::tune::promote(lab, &args, output),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a profile; every wrong line is told.
fn profile(path: &Path) -> anyhow::Result<Profile> {
    Profile::from_config_env(&read(path)?)
        .with_context(|| format!("{} is no profile", path.display()))
}

/// A server as it shows itself, with the tables that a profile names, and how to reach it
/// again.
async fn server(
    dsn: &str,
    profile: Option<&Profile>,
) -> anyhow::Result<(ConnectParams, ServerView)> {
    let params = ConnectParams::resolve(Some(dsn))?;
    let client = walwright_server::connect(&params).await?;
    let view = ServerView::of(&client, &params).await?;
    let view = match profile {
        Some(profile) => {
            let names = walwright_server::connect_unchanged(&params).await?;
            view.with_objects(&client, &names, profile).await
        }
        None => view,
    };
    Ok((params, view))
}

/// The machine of a server, where it is this one. Where no server is named it is this
/// machine, with the directories that the profile names, as far as they are there.
fn machine(
    root: &Path,
    server: Option<&ServerView>,
    profile: Option<&Profile>,
) -> Option<MachineView> {
    let machine = MachineView::at(root);
    let Some(server) = server else {
        let directory = |names: [(&str, Option<Disk>); 2]| {
            names.into_iter().find_map(|(name, disk)| {
                let entry = profile?.get(name, disk.map(Scope::Disk).as_ref())?;
                let path = Path::new(&entry.value);
                let inside = root.join(path.strip_prefix("/").unwrap_or(path));
                inside.is_dir().then(|| path.to_owned())
            })
        };
        let mount = |disk| ("array.mount_point", Some(disk));
        let data = directory([("cluster.data_directory", None), mount(Disk::Data)]);
        let wal = directory([("cluster.wal_directory", None), mount(Disk::Wal)]);
        return Some(machine.with_server(data.as_deref(), wal.as_deref(), None));
    };
    server.scope.local.then(|| {
        machine.with_server(
            server.scope.data_directory.as_deref(),
            server.scope.wal_directory.as_deref(),
            server.scope.postmaster_pid,
        )
    })
}

//! Installs, clusters, snapshots and targets: everything about *having* a
//! PostgreSQL server, nothing about measuring one.
//!
//! - [`Installs`] fetches and caches PostgreSQL 14 to 18 with the user's own pip
//!   or uv; [`system_installs`] and [`Install::from_bin_dir`] use what is there.
//! - [`doctor`] says what this machine lacks for either.
//! - [`Cluster`] makes, starts and stops a data directory of our own. Its server
//!   ends when this process ends, in whatever way, and [`sweep`] removes what a
//!   crash left.
//! - [`Snapshot`] copies a data directory at rest, and restores it.
//! - [`RunningPooler`] stands between clients and a cluster of ours.
//! - [`ConnectParams`] says how to reach a server, ours or an attached one;
//!   [`connect`] opens a control connection.
//!
//! The life of installs and clusters is blocking code, since it waits for
//! processes and disks: from async code, call it in `spawn_blocking`. Only
//! [`connect`] is async.
//!
//! What does not live here: reading settings and statistics (`probe`), the
//! protocol of the data plane (`wire`), and the order in which a run uses all
//! this (`run`).

mod cluster;
mod guard;
mod held_file;
mod install;
mod paths;
mod places;
mod pooler;
mod snapshot;
mod stop;
mod target;
mod user;
mod version;

pub use cluster::{
    Cluster, ClusterError, ClusterSpec, PowerCut, RefusedSetting, RunningCluster, SettingError,
    StopMode, Swept, TcpAccess, Unflushed, check_settings, refused_settings, sweep,
};
pub use guard::ServerExit;
pub use held_file::HeldFile;
pub use install::{
    CachedInstall, Check, CheckState, FetchEvent, Install, InstallError, InstallSource, Installs,
    doctor, system_installs,
};
pub use places::{CACHE_VARIABLE, FileSystem, Places, PlacesError};
pub use pooler::{POOL_SIZE, PgBouncer, PoolerError, PoolerProgram, PoolerSpec, RunningPooler};
pub use snapshot::{CopyMethod, CopyReport, Snapshot, SnapshotError};
pub use stop::Stop;
pub use target::{
    ChannelBinding, Client, ConnectError, ConnectFailure, ConnectParams, ConninfoError,
    FOR_WORKLOAD, FromColumn, Host, Hosts, OWN_ROLE, QueryError, RequireAuth, RootCert, Row,
    Secret, SessionSettings, SslMode, SslNegotiation, Statement, TargetError, all_left, cancelled,
    connect, connect_for_definitions, connect_for_workload, connect_unchanged, connect_versioned,
    connect_with, connect_without_limit, holds_password, quoted, readable, setting_option,
    without_triggers,
};
pub use user::{ServerUser, USER_VARIABLE, UserError};
pub use version::{Major, PgVersion, UnknownMajor};

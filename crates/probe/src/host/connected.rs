//! Which processes of this machine hold connections to the server: its applications and
//! poolers, whatever they are called.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use procfs::net::{TcpNetEntry, TcpState};

use super::unix_peers;

/// Where a server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listening {
    /// Its port, which also names its unix sockets.
    pub port: u16,
    /// `unix_socket_directories`; `None` where this role may not see them. Then sockets of
    /// this port in any directory are taken for its own.
    pub directories: Option<Vec<PathBuf>>,
}

impl Listening {
    /// From the server's settings, name and value; `None` without a port.
    pub fn of<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Listening> {
        let (mut port, mut directories) = (None, None);
        for (name, value) in settings {
            match name {
                "port" => port = value.parse().ok(),
                "unix_socket_directories" => {
                    let paths = value.split(',').map(|path| path.trim().trim_matches('"'));
                    directories = Some(paths.map(PathBuf::from).collect());
                }
                _ => {}
            }
        }
        Some(Listening { port: port?, directories })
    }

    fn is_own(&self, path: &[u8]) -> bool {
        let name = format!(".s.PGSQL.{}", self.port);
        match &self.directories {
            Some(directories) => directories
                .iter()
                .any(|directory| directory.join(&name).as_os_str().as_encoded_bytes() == path),
            None => path.ends_with(format!("/{name}").as_bytes()),
        }
    }

    /// Inodes of the sockets that clients on this machine hold connections with.
    fn clients(&self) -> HashSet<u64> {
        let unix = unix_peers::connected().unwrap_or_default();
        let of_unix = unix
            .iter()
            .filter(|socket| socket.path.as_deref().is_some_and(|path| self.is_own(path)))
            .map(|socket| socket.peer)
            // Zero: the client has closed its end.
            .filter(|peer| *peer != 0);
        let mut tcp = procfs::net::tcp().unwrap_or_default();
        tcp.extend(procfs::net::tcp6().unwrap_or_default());
        of_unix.chain(self.of_tcp(&tcp)).collect()
    }

    /// The clients' ends of TCP connections whose server's end is here as well.
    fn of_tcp(&self, all: &[TcpNetEntry]) -> Vec<u64> {
        // A client may reach an IPv4 address by an IPv6 socket.
        let ends = |entry: &TcpNetEntry| {
            let plain =
                |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            (plain(entry.local_address), plain(entry.remote_address))
        };
        let established = || all.iter().filter(|entry| entry.state == TcpState::Established);
        let served: HashSet<(SocketAddr, SocketAddr)> =
            established().map(ends).filter(|(local, _)| local.port() == self.port).collect();
        established()
            .filter(|entry| {
                let (local, remote) = ends(entry);
                remote.port() == self.port && served.contains(&(remote, local))
            })
            .map(|entry| entry.inode)
            .collect()
    }
}

/// Follows who holds connections to a server.
#[derive(Debug)]
pub(crate) struct Connections {
    listening: Listening,
    /// Holders of the sockets that were looked up; `None` where nobody was found.
    known: HashMap<u64, Option<u32>>,
}

impl Connections {
    pub(crate) fn new(listening: Listening) -> Self {
        Connections { listening, known: HashMap::new() }
    }

    /// The processes among `pids` that hold connections now. Their open files are read only
    /// when there are connections that were not there before.
    pub(crate) fn holders(&mut self, pids: impl Iterator<Item = u32>) -> HashSet<u32> {
        let clients = self.listening.clients();
        self.known.retain(|inode, _| clients.contains(inode));
        let new: HashSet<u64> =
            clients.into_iter().filter(|inode| !self.known.contains_key(inode)).collect();
        if !new.is_empty() {
            self.known.extend(new.iter().map(|inode| (*inode, None)));
            for pid in pids {
                for inode in sockets(pid).filter(|inode| new.contains(inode)) {
                    self.known.insert(inode, Some(pid));
                }
            }
        }
        self.known.values().copied().flatten().collect()
    }

    /// Connections from this machine whose process was not found.
    pub(crate) fn unattributed(&self) -> usize {
        self.known.values().filter(|holder| holder.is_none()).count()
    }
}

/// The process of this machine that listens on a TCP port; of several that share it, as the
/// workers of an application do, the first. `None` where it is not seen.
pub fn listener(port: u16) -> Option<u32> {
    let mut all = procfs::net::tcp().unwrap_or_default();
    all.extend(procfs::net::tcp6().unwrap_or_default());
    let listens =
        |entry: &TcpNetEntry| entry.state == TcpState::Listen && entry.local_address.port() == port;
    let inodes: HashSet<u64> = all.iter().filter(|e| listens(e)).map(|e| e.inode).collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| sockets(*pid).any(|inode| inodes.contains(&inode)))
        .min()
}

/// Inodes of the sockets that a process has open; none where that may not be read.
fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| {
        let link = std::fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn where_a_server_listens_is_in_its_settings() {
        let settings = [("port", "5433"), ("unix_socket_directories", "/tmp, /run/postgresql")];
        let listening = Listening::of(settings.into_iter()).unwrap();
        assert!(listening.is_own(b"/run/postgresql/.s.PGSQL.5433"));
        assert!(!listening.is_own(b"/run/postgresql/.s.PGSQL.5432"));
        assert!(!listening.is_own(b"/elsewhere/.s.PGSQL.5433"));
        let unknown = Listening::of([("port", "5433")].into_iter()).unwrap();
        assert!(unknown.is_own(b"/elsewhere/.s.PGSQL.5433"));
        assert!(!unknown.is_own(b"/elsewhere/.s.PGSQL.54331"));
        assert_eq!(Listening::of(std::iter::empty()), None);
    }

    #[test]
    fn who_listens_on_a_port_is_found() {
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert_eq!(listener(port), Some(std::process::id()));
        drop(tcp);
        assert_eq!(listener(port), None);
    }

    #[test]
    fn holders_of_both_kinds_of_connection_are_found() {
        let me = std::process::id();
        let directory = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let listening = Listening { port, directories: Some(vec![directory.path().to_owned()]) };
        let mut connections = Connections::new(listening.clone());
        assert!(connections.holders([me].into_iter()).is_empty());

        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let accepted = tcp.accept().unwrap();
        assert!(connections.holders([me].into_iter()).contains(&me));
        drop((client, accepted));

        let unix = UnixListener::bind(directory.path().join(format!(".s.PGSQL.{port}"))).unwrap();
        let mut connections = Connections::new(listening);
        let _client =
            UnixStream::connect(unix.local_addr().unwrap().as_pathname().unwrap()).unwrap();
        let _accepted = unix.accept().unwrap();
        assert!(connections.holders([me].into_iter()).contains(&me));
        assert_eq!(connections.unattributed(), 0);
        // Of a process whose files are not looked at nothing is known.
        let mut blind = Connections::new(connections.listening.clone());
        assert!(blind.holders(std::iter::empty()).is_empty());
        assert_eq!(blind.unattributed(), 1);
    }
}

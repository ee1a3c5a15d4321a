//! Unix sockets with their peers, which only the kernel's socket diagnostics tell
//! (sock_diag(7)): `/proc/net/unix` lists both ends of a connection, but not which two
//! belong together.

use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// Of `linux/netlink.h`: the type of a message that ends a dump, and of an error.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`: all sockets.
const DUMP: u16 = 0x301;
/// Of `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Of `linux/unix_diag.h`: what to show, and the attributes that show it.
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
/// Lengths of `struct nlmsghdr` and of `struct unix_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
/// Longest answer the kernel sends at once in a dump.
const BUFFER: usize = 64 * 1024;

/// One end of a connected pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    /// The path it is bound to: of a server's end that of the socket it was accepted on.
    pub(crate) path: Option<Vec<u8>>,
    /// Inode of the other end.
    pub(crate) peer: u64,
}

/// All connected unix sockets of this network namespace; `None` where the kernel does
/// not tell.
pub(crate) fn connected() -> Option<Vec<UnixSocket>> {
    let diagnostics = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )
    .ok()?;
    let fd = diagnostics.as_raw_fd();
    send(fd, &request(), MsgFlags::empty()).ok()?;
    let mut found = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = recv(fd, &mut buffer, MsgFlags::empty()).ok()?;
        match read(buffer.get(..length)?, &mut found) {
            Piece::More if length > 0 => {}
            Piece::Last => return Some(found),
            Piece::More | Piece::Error => return None,
        }
    }
}

/// Asks for all unix sockets in any state, with name and peer.
fn request() -> Vec<u8> {
    let mut body = vec![AddressFamily::Unix as u8, 0, 0, 0];
    for word in [u32::MAX, 0, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER, u32::MAX, u32::MAX] {
        body.extend(word.to_ne_bytes());
    }
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

/// What a piece of a dump ends with.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    More,
    Last,
    Error,
}

/// Reads the messages of one piece.
fn read(mut bytes: &[u8], found: &mut Vec<UnixSocket>) -> Piece {
    while let Some(length) = u32_at(bytes, 0).map(|length| length as usize) {
        let (Some(message), Some(kind)) = (bytes.get(..length.max(HEADER)), u16_at(bytes, 4))
        else {
            return Piece::Error;
        };
        match kind {
            NLMSG_DONE => return Piece::Last,
            NLMSG_ERROR => return Piece::Error,
            _ => found.extend(one(message)),
        }
        bytes = bytes.get(aligned(message.len())..).unwrap_or_default();
    }
    Piece::More
}

fn one(message: &[u8]) -> Option<UnixSocket> {
    let mut attributes = message.get(HEADER + MESSAGE..)?;
    let (mut path, mut peer) = (None, None);
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let value = attributes.get(4..usize::from(length))?;
        match kind {
            UNIX_DIAG_NAME => {
                let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                path = Some(value[..end].to_vec());
            }
            UNIX_DIAG_PEER => peer = u32_at(value, 0),
            _ => {}
        }
        attributes = attributes.get(aligned(usize::from(length))..).unwrap_or_default();
    }
    Some(UnixSocket { path, peer: peer?.into() })
}

/// Messages and attributes begin at multiples of four.
fn aligned(length: usize) -> usize {
    length.div_ceil(4) * 4
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use proptest::prelude::*;

    use super::*;

    fn inode(socket: &UnixStream) -> u64 {
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        std::fs::metadata(link).unwrap().ino()
    }

    #[test]
    fn the_two_ends_of_a_connection_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let _server = listener.accept().unwrap();
        let found = connected().unwrap();
        let path = path.as_os_str().as_encoded_bytes();
        let ours: Vec<&UnixSocket> =
            found.iter().filter(|socket| socket.path.as_deref() == Some(path)).collect();
        assert_eq!(ours.len(), 1, "{found:?}");
        assert_eq!(ours[0].peer, inode(&client));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut found = Vec::new();
            read(&bytes, &mut found);
            prop_assert!(found.len() <= bytes.len() / HEADER + 1);
        }
    }
}

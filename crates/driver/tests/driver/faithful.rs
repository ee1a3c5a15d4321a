//! Faithful mode puts on the wire what pgbench puts there, byte by byte.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use walwright_driver::Protocol;

use crate::common::{Server, options, plan, run, tpcb};

/// What clients sent, connection by connection.
type Recorded = Arc<Mutex<Vec<Vec<u8>>>>;

/// Passes connections on to `server` and records what their clients send.
fn recorder(listen: &Path, server: &Path) -> Recorded {
    let recorded = Recorded::default();
    let listener = UnixListener::bind(listen).expect("a socket");
    let (server, all) = (server.to_owned(), Arc::clone(&recorded));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let upstream = UnixStream::connect(&server).expect("the server");
            let index = {
                let mut all = all.lock().unwrap();
                all.push(Vec::new());
                all.len() - 1
            };
            let (back_from, back_to) =
                (upstream.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
            thread::spawn(move || pass_on(back_from, back_to, |_| {}));
            let all = Arc::clone(&all);
            thread::spawn(move || {
                pass_on(client, upstream, |bytes| {
                    all.lock().unwrap()[index].extend_from_slice(bytes);
                });
            });
        }
    });
    recorded
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        seen(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// What the last connection sent after its startup packet and before its goodbye.
fn last_messages(recorded: &Recorded) -> Vec<u8> {
    let all = recorded.lock().unwrap();
    let bytes = all.last().expect("a connection");
    let startup = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let messages = &bytes[startup..];
    messages.strip_suffix(b"X\0\0\0\x04").unwrap_or(messages).to_vec()
}

#[test]
fn the_bytes_are_those_of_pgbench_with_the_same_seed() {
    const TRANSACTIONS: u64 = 25;
    let server = Server::shared();
    let database = server.tpcb_database();
    for (protocol, name) in [
        (Protocol::Simple, "simple"),
        (Protocol::Extended, "extended"),
        (Protocol::Prepared, "prepared"),
    ] {
        let directory = tempfile::tempdir().expect("temp dir");
        let socket = format!(".s.PGSQL.{}", database.port);
        let recorded =
            recorder(&directory.path().join(&socket), &server.running().socket_dir().join(&socket));
        let pgbench = server
            .running()
            .cluster()
            .install()
            .command("pgbench")
            .args(["-n", "-c", "1", "-b", "tpcb-like", "--random-seed", "4711", "-U", "postgres"])
            .args(["-M", name, "-t", &TRANSACTIONS.to_string(), "-h"])
            .arg(directory.path())
            .args(["-p", &database.port.to_string(), &database.dbname])
            .output()
            .expect("pgbench runs");
        assert!(pgbench.status.success(), "{}", String::from_utf8_lossy(&pgbench.stderr));
        let theirs = last_messages(&recorded);
        assert!(theirs.len() > 7 * TRANSACTIONS as usize, "pgbench was recorded");

        let mut plan = plan(tpcb(), options(directory.path(), database.port, &database.dbname));
        plan.protocol = protocol;
        plan.seed = 4711;
        run(plan, TRANSACTIONS);
        let ours = last_messages(&recorded);
        let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        assert_eq!(
            same,
            theirs.len(),
            "{name}: ours {:?}, pgbench's {:?}",
            String::from_utf8_lossy(&ours[same..ours.len().min(same + 80)]),
            String::from_utf8_lossy(&theirs[same..theirs.len().min(same + 80)]),
        );
    }
}

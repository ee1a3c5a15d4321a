//! Processor time, run-queue delay, memory and I/O of the server's processes by
//! role, and of walwright itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use walwright_record::Row;

use super::parts::Part;
use super::read::{page_bytes, read_into, read_piece, read_trimmed, ticks_per_second};
use super::roles::{Memory, Role, Usage};

/// The flag of kernel threads in `/proc/PID/stat` (include/linux/sched.h). Unlike
/// their parent, PID 2, it says the same in every PID namespace.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stat {
    pub(crate) comm: String,
    pub(crate) parent: u32,
    /// Whether it is a thread of the kernel.
    pub(crate) kernel: bool,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    /// Of children that were waited for.
    pub(crate) children_user_seconds: f64,
    pub(crate) children_system_seconds: f64,
    /// Clock ticks since boot; with the PID it names a process.
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn parse(text: &str, ticks_per_second: f64) -> Option<Stat> {
        // The command name may hold spaces and parentheses.
        let (head, rest) = text.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks =
            |place: usize| Some(fields.get(place)?.parse::<i64>().ok()? as f64 / ticks_per_second);
        Some(Stat {
            comm: comm.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            kernel: fields.get(6)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
            user_seconds: ticks(11)?,
            system_seconds: ticks(12)?,
            children_user_seconds: ticks(13)?,
            children_system_seconds: ticks(14)?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Nanoseconds on a processor and waiting for one, from `/proc/PID/schedstat`.
pub(crate) fn schedstat_nanos(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Whether `pid` is, on this machine, a backend of a PostgreSQL server.
pub(crate) fn is_postgres_backend(pid: u32) -> bool {
    title(pid).is_some_and(|title| title.starts_with("postgres: "))
}

/// The title a process shows in `ps`.
pub(crate) fn title(pid: u32) -> Option<String> {
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let end = raw.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let words: Vec<u8> = raw[..end].iter().map(|b| if *b == 0 { b' ' } else { *b }).collect();
    Some(String::from_utf8_lossy(&words).into_owned())
}

/// Reads files of one process after another into one buffer.
#[derive(Debug)]
pub(crate) struct Reader {
    path: String,
    text: String,
    ticks_per_second: f64,
    page_bytes: u64,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Reader {
            path: String::new(),
            text: String::new(),
            ticks_per_second: ticks_per_second(),
            page_bytes: page_bytes(),
        }
    }

    fn read(&mut self, pid: u32, file: &str) -> Option<&str> {
        self.path.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.path, "/proc/{pid}/{file}");
        read_piece(&self.path, &mut self.text).then_some(self.text.as_str())
    }

    pub(crate) fn stat(&mut self, pid: u32) -> Option<Stat> {
        let ticks = self.ticks_per_second;
        Stat::parse(self.read(pid, "stat")?, ticks)
    }

    fn run_delay(&mut self, pid: u32) -> Option<f64> {
        schedstat_nanos(self.read(pid, "schedstat")?).map(|(_, wait)| wait as f64 / 1e9)
    }

    /// Times that the process gave up its processor to wait for something.
    fn sleeps(&mut self, pid: u32) -> Option<u64> {
        let text = self.read(pid, "status")?;
        let line = text.lines().rev().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse().ok()
    }

    /// Bytes read from and written to storage; `None` where not permitted.
    pub(crate) fn io(&mut self, pid: u32) -> Option<(u64, u64)> {
        let text = self.read(pid, "io")?;
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
        };
        Some((field("read_bytes")?, field("write_bytes")?))
    }

    fn memory(&mut self, pid: u32) -> Option<Memory> {
        let page = self.page_bytes;
        let mut words = self.read(pid, "statm")?.split_ascii_whitespace().skip(1);
        let resident: u64 = words.next()?.parse().ok()?;
        let shared: u64 = words.next()?.parse().ok()?;
        Some(Memory { resident: resident * page, private: resident.saturating_sub(shared) * page })
    }
}

/// A server process as last seen.
#[derive(Debug)]
struct Seen {
    started: u64,
    role: Option<Role>,
    usage: Usage,
    memory: Option<Memory>,
}

/// The processes of one server.
///
/// Totals of a group never go back: what a process had used when it was last
/// seen stays in its group. What it used between then and its end is known only
/// as part of the postmaster's waited-for children, and shown as a group of its own.
#[derive(Debug)]
pub(crate) struct ServerProcesses {
    postmaster: u32,
    live: HashMap<u32, Seen>,
    retired: BTreeMap<Role, Usage>,
    /// The postmaster's waited-for children when it was first seen.
    children_before: Option<(f64, f64)>,
    unseen: Usage,
    rounds: u64,
}

/// Memory, I/O and unsettled titles change slowly and are read every so many rounds.
const SLOW_ROUNDS: u64 = 5;

/// Group of what exited processes used after they were last seen.
const EXITED: &str = "server: exited processes";

impl ServerProcesses {
    pub(crate) fn new(postmaster: u32) -> Self {
        ServerProcesses {
            postmaster,
            live: HashMap::new(),
            retired: BTreeMap::new(),
            children_before: None,
            unseen: Usage::default(),
            rounds: 0,
        }
    }

    /// Whether `pid` is one of them.
    pub(crate) fn contains(&self, pid: u32) -> bool {
        pid == self.postmaster || self.live.contains_key(&pid)
    }

    /// Reads all of them; a row a group.
    pub(crate) fn sample(&mut self, reader: &mut Reader, own: &BTreeSet<u32>) -> Vec<Row> {
        // The postmaster first: a child that exits while the others are read is
        // then counted among them or in the next round, never twice.
        let postmaster = reader.stat(self.postmaster);
        let mut present = self.children(reader);
        if postmaster.is_some() {
            present.push(self.postmaster);
        }
        let slow = self.rounds.is_multiple_of(SLOW_ROUNDS);
        self.rounds += 1;
        let before = std::mem::take(&mut self.live);
        let mut gone = before;
        for pid in present {
            let Some(stat) = reader.stat(pid) else { continue };
            let known = match gone.remove(&pid) {
                Some(known) if known.started == stat.started => Some(known),
                Some(other) => {
                    self.retire(&other);
                    None
                }
                None => None,
            };
            let seen = self.look(reader, pid, &stat, known, slow, own);
            self.live.insert(pid, seen);
        }
        gone.values().for_each(|seen| self.retire(seen));
        if let Some(stat) = postmaster {
            self.settle_unseen(&stat);
        }
        self.rows()
    }

    fn look(
        &self,
        reader: &mut Reader,
        pid: u32,
        stat: &Stat,
        known: Option<Seen>,
        slow: bool,
        own: &BTreeSet<u32>,
    ) -> Seen {
        let new = known.is_none();
        let mut seen = known.unwrap_or(Seen {
            started: stat.started,
            role: None,
            usage: Usage::default(),
            memory: None,
        });
        if own.contains(&pid) {
            seen.role = Some(Role::Probe);
        } else if pid == self.postmaster {
            seen.role = Some(Role::Other);
        } else if seen.role.is_none() || (slow && seen.role == Some(Role::Other)) {
            seen.role = title(pid).and_then(|title| Role::from_title(&title));
        }
        seen.usage.user_seconds = stat.user_seconds;
        seen.usage.system_seconds = stat.system_seconds;
        seen.usage.run_delay_seconds = reader.run_delay(pid);
        seen.usage.sleeps = reader.sleeps(pid);
        if new || slow {
            if let Some((read, write)) = reader.io(pid) {
                seen.usage.read_bytes = Some(read);
                seen.usage.write_bytes = Some(write);
            }
            seen.memory = reader.memory(pid);
        }
        seen
    }

    fn children(&self, reader: &mut Reader) -> Vec<u32> {
        let postmaster = self.postmaster;
        // A list, which may come in several pieces.
        let list = format!("/proc/{postmaster}/task/{postmaster}/children");
        if read_into(&list, &mut reader.text) {
            let pids = reader.text.split_ascii_whitespace();
            return pids.filter_map(|pid| pid.parse().ok()).collect();
        }
        // A kernel without CONFIG_PROC_CHILDREN.
        let is_child = |pid: &u32| reader.stat(*pid).is_some_and(|stat| stat.parent == postmaster);
        all_pids().into_iter().filter(is_child).collect()
    }

    fn retire(&mut self, seen: &Seen) {
        self.retired.entry(seen.role.unwrap_or(Role::Other)).or_default().add(&seen.usage);
    }

    fn settle_unseen(&mut self, postmaster: &Stat) {
        let now = (postmaster.children_user_seconds, postmaster.children_system_seconds);
        let (user, system) = *self.children_before.get_or_insert(now);
        let mut seen = Usage::default();
        self.retired.values().for_each(|usage| seen.add(usage));
        self.unseen.user_seconds = self.unseen.user_seconds.max(now.0 - user - seen.user_seconds);
        self.unseen.system_seconds =
            self.unseen.system_seconds.max(now.1 - system - seen.system_seconds);
    }

    fn rows(&self) -> Vec<Row> {
        let mut groups: BTreeMap<Role, (Usage, usize, Option<Memory>)> =
            self.retired.iter().map(|(role, usage)| (*role, (*usage, 0, None))).collect();
        for seen in self.live.values() {
            let (usage, count, memory) =
                groups.entry(seen.role.unwrap_or(Role::Other)).or_default();
            usage.add(&seen.usage);
            *count += 1;
            if let Some(more) = seen.memory {
                let sum = memory.get_or_insert_default();
                sum.resident += more.resident;
                sum.private += more.private;
            }
        }
        let mut rows: Vec<Row> = groups
            .iter()
            .map(|(role, (usage, count, memory))| usage.row(role.group(), Some(*count), *memory))
            .collect();
        if self.unseen.cpu_seconds() > 0.0 {
            rows.push(self.unseen.row(EXITED, None, None));
        }
        rows
    }
}

/// A process that is a group of its own: walwright itself, driver, probe and all, or the pooler
/// that it started.
#[derive(Debug)]
pub(crate) struct WholeProcess {
    pid: u32,
    group: String,
    run_delay: f64,
}

impl WholeProcess {
    /// walwright itself.
    pub(crate) fn own() -> Self {
        WholeProcess { pid: std::process::id(), group: "walwright".to_owned(), run_delay: 0.0 }
    }

    /// A pooler.
    pub(crate) fn pooler(pid: u32) -> Self {
        let name = read_trimmed(format!("/proc/{pid}/comm")).unwrap_or_default();
        WholeProcess { pid, group: Part::Pooler.group(&name), run_delay: 0.0 }
    }

    /// Its row, while it lives.
    pub(crate) fn sample(&mut self, reader: &mut Reader) -> Option<Row> {
        let stat = reader.stat(self.pid)?;
        let (read, write) = reader.io(self.pid).unzip();
        // `/proc/PID/schedstat` tells only the first thread's delay. Threads that
        // ended take theirs along; the sum is kept from going back.
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let delay: u64 = threads
            .filter_map(|thread| {
                let text = read_trimmed(thread.ok()?.path().join("schedstat"))?;
                schedstat_nanos(&text).map(|(_, wait)| wait)
            })
            .sum();
        self.run_delay = self.run_delay.max(delay as f64 / 1e9);
        let usage = Usage {
            user_seconds: stat.user_seconds,
            system_seconds: stat.system_seconds,
            run_delay_seconds: Some(self.run_delay),
            sleeps: None,
            read_bytes: read,
            write_bytes: write,
        };
        Some(usage.row(&self.group, Some(1), reader.memory(self.pid)))
    }
}

/// Every process that can be seen.
pub(crate) fn all_pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_may_look_like_the_rest() {
        let text = "12 (a) b (c)) S 7 1 1 0 -1 0 0 0 0 0 250 50 10 20 20 0 1 0 987 100 5 0";
        let stat = Stat::parse(text, 100.0).unwrap();
        assert_eq!(stat.comm, "a) b (c)");
        assert_eq!(stat.parent, 7);
        assert_eq!((stat.user_seconds, stat.system_seconds), (2.5, 0.5));
        assert_eq!((stat.children_user_seconds, stat.children_system_seconds), (0.1, 0.2));
        assert_eq!(stat.started, 987);
        assert_eq!(Stat::parse("nonsense", 100.0), None);
    }

    #[test]
    fn what_ended_stays_in_the_totals() {
        let mut server = ServerProcesses::new(u32::MAX);
        let seen = |seconds: f64| Seen {
            started: 1,
            role: Some(Role::ClientBackends),
            usage: Usage { user_seconds: seconds, ..Usage::default() },
            memory: None,
        };
        server.live.insert(4_000_000, seen(2.0));
        server.live.insert(4_000_001, seen(1.0));
        // Neither exists, nor does the postmaster.
        let rows = server.sample(&mut Reader::new(), &BTreeSet::new());
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].number("user_seconds"), Some(3.0));
        assert_eq!(rows[0].number("count"), Some(0.0));
    }

    #[test]
    fn what_children_used_unseen_is_the_postmasters_sum_less_what_was_seen() {
        let mut server = ServerProcesses::new(1);
        let stat = |children: f64| Stat {
            comm: "postgres".to_owned(),
            parent: 1,
            kernel: false,
            user_seconds: 0.0,
            system_seconds: 0.0,
            children_user_seconds: children,
            children_system_seconds: 0.0,
            started: 1,
        };
        server.settle_unseen(&stat(10.0));
        assert_eq!(server.unseen.cpu_seconds(), 0.0);
        let used = Usage { user_seconds: 3.0, ..Usage::default() };
        server.retired.insert(Role::ClientBackends, used);
        // Retired, but the postmaster has not waited for it yet.
        server.settle_unseen(&stat(10.0));
        assert_eq!(server.unseen.cpu_seconds(), 0.0);
        server.settle_unseen(&stat(14.0));
        assert_eq!(server.unseen.cpu_seconds(), 1.0);
    }

    #[test]
    fn walwright_sees_itself() {
        let row = WholeProcess::own().sample(&mut Reader::new()).unwrap();
        assert_eq!(row.text("process_group"), Some("walwright"));
        assert!(row.number("rss_bytes").unwrap() > 0.0);
    }
}

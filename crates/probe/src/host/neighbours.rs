//! Other processes of the machine that take processor time.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use walwright_record::Row;

use super::parts::{Casting, LoadParts, Part, descends};
use super::processes::{Reader, Stat, all_pids};
use super::roles::Usage;
use super::threads::Threads;

/// A command is worth a row once it has used this share of one processor over
/// the time watched.
const LOUD_SHARE: f64 = 0.01;

/// At most so many commands get rows.
const MOST: usize = 12;

/// The group of all threads of the kernel (kworker, jbd2, ksoftirqd, …). They work
/// for the server as for any other process: they write its dirty pages back and
/// end its I/O. So they are no neighbours that someone could stop.
const KERNEL: &str = "kernel threads";

/// The group of what another walwright on this machine runs: itself, its server and the
/// commands it started.
const OTHER_RUN: &str = "other: another walwright run";

/// The name of our own program, as the kernel keeps it.
const OWN_NAME: &str = "walwright";

/// Follows every process that is neither the server's nor walwright's, summed
/// by command name since the probe began; the kernel's threads in one sum.
#[derive(Debug)]
pub(crate) struct Neighbours {
    began: Instant,
    last: HashMap<u32, Last>,
    totals: HashMap<String, Total>,
    casting: Casting,
    threads: Threads,
    /// Applications that were told from their connections, since the last question.
    recognised: Vec<(u32, String)>,
    first: bool,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    started: u64,
    usage: Usage,
}

#[derive(Debug, Default)]
struct Total {
    usage: Usage,
    count: usize,
    /// Whether it has a row: it takes processor time, or has a part in the load.
    loud: bool,
    /// Share of a processor that its busiest thread took since the last reading; of those
    /// that have a part in the load.
    busiest_thread: Option<f64>,
    /// Processes of it that hold connections to the server.
    connected: usize,
}

impl Neighbours {
    pub(crate) fn new(parts: LoadParts) -> Self {
        Neighbours {
            casting: Casting::new(parts),
            began: Instant::now(),
            last: HashMap::new(),
            totals: HashMap::new(),
            threads: Threads::default(),
            recognised: Vec::new(),
            first: true,
        }
    }

    /// Applications that were told from their connections and not told of yet, with
    /// their PIDs.
    pub(crate) fn recognised(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.recognised)
    }

    /// Reads all of them; rows for those that take processor time. `connected` are those
    /// that hold connections to the server.
    pub(crate) fn sample(
        &mut self,
        reader: &mut Reader,
        is_ours: impl Fn(u32) -> bool,
        connected: &HashSet<u32>,
    ) -> Vec<Row> {
        let before = std::mem::take(&mut self.last);
        self.threads.begin();
        for total in self.totals.values_mut() {
            total.count = 0;
            total.busiest_thread = None;
            total.connected = 0;
        }
        let mut seen = Vec::new();
        let mut parents = HashMap::new();
        for pid in all_pids().into_iter().filter(|pid| !is_ours(*pid)) {
            let Some(stat) = reader.stat(pid) else { continue };
            parents.insert(pid, stat.parent);
            seen.push((pid, stat));
        }
        let named = seen.iter().map(|(pid, stat)| (*pid, stat.comm.as_str()));
        let runs = other_runs(named, std::process::id(), &parents);
        for (pid, stat) in seen {
            let connected = connected.contains(&pid);
            let part = self.casting.part(pid, &stat, &parents, connected);
            let is_of = |run: &u32| descends(pid, *run, &parents);
            let group = match part {
                Some(part) => part.group(&stat.comm),
                None if runs.iter().any(is_of) => OTHER_RUN.to_owned(),
                None => group(&stat),
            };
            if connected && part == Some(Part::Application) && !self.totals.contains_key(&group) {
                self.recognised.push((pid, stat.comm.clone()));
            }
            let threads = part.and_then(|_| self.threads.read(pid));
            let total = self.totals.entry(group).or_default();
            total.count += 1;
            total.loud |= part.is_some();
            total.connected += usize::from(connected && part.is_some());
            if let Some(threads) = threads {
                let most = total.busiest_thread.unwrap_or(0.0).max(threads.busiest);
                total.busiest_thread = Some(most);
                total
                    .usage
                    .add(&Usage { run_delay_seconds: Some(threads.run_delay), ..Usage::default() });
            }
            let mut usage = Usage {
                user_seconds: stat.user_seconds,
                system_seconds: stat.system_seconds,
                ..Usage::default()
            };
            if total.loud {
                let io = reader.io(pid);
                (usage.read_bytes, usage.write_bytes) = io.unzip();
            }
            match before.get(&pid).filter(|last| last.started == stat.started) {
                Some(last) => total.usage.add(&since(&last.usage, &usage)),
                // One that is new began within the time watched; one that was
                // there before the first look brings its past with it.
                None if !self.first => total.usage.add(&usage),
                None => {}
            }
            self.last.insert(pid, Last { started: stat.started, usage });
        }
        self.first = false;
        self.rows()
    }

    fn rows(&mut self) -> Vec<Row> {
        let threshold = LOUD_SHARE * self.began.elapsed().as_secs_f64();
        let mut loud: Vec<(&String, &mut Total)> = self
            .totals
            .iter_mut()
            .filter(|(_, total)| total.loud || total.usage.cpu_seconds() > 0.0)
            .filter(|(_, total)| total.loud || total.usage.cpu_seconds() >= threshold)
            .collect();
        loud.sort_by(|a, b| b.1.usage.cpu_seconds().total_cmp(&a.1.usage.cpu_seconds()));
        loud.truncate(MOST);
        loud.into_iter()
            .map(|(name, total)| {
                total.loud = true;
                let mut row = total.usage.row(name, Some(total.count), None);
                if let Some(busiest) = total.busiest_thread {
                    row.set("busiest_thread", busiest);
                }
                if total.connected > 0 {
                    row.set("connected", total.connected as u64);
                }
                row
            })
            .collect()
    }
}

/// The processes of other walwrights among those that have a name. Guards of this run are its
/// children.
fn other_runs<'a>(
    named: impl Iterator<Item = (u32, &'a str)>,
    me: u32,
    parents: &HashMap<u32, u32>,
) -> Vec<u32> {
    let other = named.filter(|(pid, name)| *name == OWN_NAME && !descends(*pid, me, parents));
    other.map(|(pid, _)| pid).collect()
}

fn group(stat: &Stat) -> String {
    if stat.kernel { KERNEL.to_owned() } else { format!("other: {}", stat.comm) }
}

fn since(last: &Usage, now: &Usage) -> Usage {
    let bytes = |last: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(last?));
    Usage {
        user_seconds: (now.user_seconds - last.user_seconds).max(0.0),
        system_seconds: (now.system_seconds - last.system_seconds).max(0.0),
        run_delay_seconds: None,
        sleeps: None,
        read_bytes: bytes(last.read_bytes, now.read_bytes),
        write_bytes: bytes(last.write_bytes, now.write_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::ProcessName;
    use super::*;

    #[test]
    fn kernel_threads_are_one_group() {
        let group_of = |text: &str| group(&Stat::parse(text, 100.0).unwrap());
        let times = "0 0 0 0 7 3 0 0 20 0 1 0 48";
        let kworker = format!("31 (kworker/0:1-events) I 2 0 0 0 -1 69238880 {times}");
        let jbd2 = format!("98 (jbd2/vda-8) S 2 0 0 0 -1 2129984 {times}");
        // In a container, PID 2 may be any program.
        let rustc = format!("31 (rustc) R 2 31 31 0 -1 4194304 {times}");
        assert_eq!(group_of(&kworker), "kernel threads");
        assert_eq!(group_of(&jbd2), "kernel threads");
        assert_eq!(group_of(&rustc), "other: rustc");
    }

    #[test]
    fn a_process_with_a_part_has_a_row_from_the_beginning() {
        let me = std::process::id();
        let parts = LoadParts { applications: vec![ProcessName::Pid(me)], ..LoadParts::default() };
        let rows = Neighbours::new(parts).sample(&mut Reader::new(), |_| false, &HashSet::new());
        let comm = Reader::new().stat(me).unwrap().comm;
        let group = format!("application: {comm}");
        let row = rows.iter().find(|row| row.text("process_group") == Some(&group)).unwrap();
        assert_eq!(row.number("user_seconds"), Some(0.0), "its past is not told");
    }

    #[test]
    fn another_run_is_one_that_is_not_of_this_one() {
        // This run is 10 with its guard 11; another is 20 with its server 21 and a backend.
        let parents = HashMap::from([(11, 10), (20, 1), (21, 20), (22, 21), (30, 1)]);
        let named =
            [(11, OWN_NAME), (20, OWN_NAME), (21, "postgres"), (22, "postgres"), (30, "sh")];
        let runs = other_runs(named.into_iter(), 10, &parents);
        assert_eq!(runs, [20]);
        let of_it = |pid: u32| descends(pid, runs[0], &parents);
        assert!(of_it(20) && of_it(21) && of_it(22) && !of_it(11) && !of_it(30));
    }

    #[test]
    fn an_application_is_told_of_once() {
        let parts = LoadParts { recognise: true, ..LoadParts::default() };
        let mut neighbours = Neighbours::new(parts);
        let mut reader = Reader::new();
        // Someone who is not this process itself.
        let other = std::os::unix::process::parent_id();
        let only = |pid: u32| pid != other;
        let connected = HashSet::from([other]);
        neighbours.sample(&mut reader, only, &HashSet::new());
        assert!(neighbours.recognised().is_empty());
        let rows = neighbours.sample(&mut reader, only, &connected);
        let comm = reader.stat(other).unwrap().comm;
        let group = format!("application: {comm}");
        assert!(rows.iter().any(|row| row.text("process_group") == Some(&group)), "{rows:?}");
        assert_eq!(neighbours.recognised(), [(other, comm)]);
        neighbours.sample(&mut reader, only, &connected);
        assert!(neighbours.recognised().is_empty());
    }

    #[test]
    fn a_busy_process_is_told_and_its_past_is_not() {
        let mut neighbours = Neighbours::new(LoadParts::default());
        let mut reader = Reader::new();
        let me = std::process::id();
        let only_me = |pid: u32| pid != me;
        let nobody = HashSet::new();
        assert!(neighbours.sample(&mut reader, only_me, &nobody).is_empty());
        let name = group(&reader.stat(me).unwrap());
        let deadline = Instant::now() + std::time::Duration::from_secs(30);
        let mut sum = 1_u64;
        loop {
            for _ in 0..5_000_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            let rows = neighbours.sample(&mut reader, only_me, &nobody);
            if let Some(row) = rows.first() {
                assert_eq!(row.text("process_group"), Some(name.as_str()));
                assert!(row.number("user_seconds").unwrap() <= 30.0);
                break;
            }
            assert!(Instant::now() < deadline, "never told");
        }
    }
}

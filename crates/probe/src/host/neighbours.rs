//! Other processes of the machine that take processor time.

use std::collections::HashMap;
use std::time::Instant;

use walwright_record::Row;

use super::processes::{Reader, all_pids};
use super::roles::Usage;

/// A command is worth a row once it has used this share of one processor over
/// the time watched.
const LOUD_SHARE: f64 = 0.01;

/// At most so many commands get rows.
const MOST: usize = 12;

/// Follows every process that is neither the server's nor walwright's, summed
/// by command name since the probe began.
#[derive(Debug)]
pub(crate) struct Neighbours {
    began: Instant,
    last: HashMap<u32, Last>,
    totals: HashMap<String, Total>,
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
    loud: bool,
}

impl Neighbours {
    pub(crate) fn new() -> Self {
        Neighbours {
            began: Instant::now(),
            last: HashMap::new(),
            totals: HashMap::new(),
            first: true,
        }
    }

    /// Reads all of them; rows for those that take processor time.
    pub(crate) fn sample(
        &mut self,
        reader: &mut Reader,
        is_ours: impl Fn(u32) -> bool,
    ) -> Vec<Row> {
        let before = std::mem::take(&mut self.last);
        self.totals.values_mut().for_each(|total| total.count = 0);
        for pid in all_pids().into_iter().filter(|pid| !is_ours(*pid)) {
            let Some(stat) = reader.stat(pid) else { continue };
            let total = self.totals.entry(command(&stat.comm)).or_default();
            total.count += 1;
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
            .filter(|(_, total)| total.usage.cpu_seconds() > 0.0)
            .filter(|(_, total)| total.loud || total.usage.cpu_seconds() >= threshold)
            .collect();
        loud.sort_by(|a, b| b.1.usage.cpu_seconds().total_cmp(&a.1.usage.cpu_seconds()));
        loud.truncate(MOST);
        loud.into_iter()
            .map(|(name, total)| {
                total.loud = true;
                total.usage.row(&format!("other: {name}"), Some(total.count), None)
            })
            .collect()
    }
}

/// The command name; kernel workers without their processor and work
/// (`kworker/0:1-events`).
fn command(comm: &str) -> String {
    let end = comm.find('/').filter(|end| *end > 0).unwrap_or(comm.len());
    comm[..end].to_owned()
}

fn since(last: &Usage, now: &Usage) -> Usage {
    let bytes = |last: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(last?));
    Usage {
        user_seconds: (now.user_seconds - last.user_seconds).max(0.0),
        system_seconds: (now.system_seconds - last.system_seconds).max(0.0),
        run_delay_seconds: None,
        read_bytes: bytes(last.read_bytes, now.read_bytes),
        write_bytes: bytes(last.write_bytes, now.write_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_workers_are_one_command() {
        assert_eq!(command("kworker/0:1-events"), "kworker");
        assert_eq!(command("jbd2/vda-8"), "jbd2");
        assert_eq!(command("rustc"), "rustc");
    }

    #[test]
    fn a_busy_process_is_told_and_its_past_is_not() {
        let mut neighbours = Neighbours::new();
        let mut reader = Reader::new();
        let me = std::process::id();
        let only_me = |pid: u32| pid != me;
        assert!(neighbours.sample(&mut reader, only_me).is_empty());
        let name = command(&reader.stat(me).unwrap().comm);
        let deadline = Instant::now() + std::time::Duration::from_secs(30);
        let mut sum = 1_u64;
        loop {
            for _ in 0..5_000_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            let rows = neighbours.sample(&mut reader, only_me);
            if let Some(row) = rows.first() {
                assert_eq!(row.text("process_group"), Some(format!("other: {name}").as_str()));
                assert!(row.number("user_seconds").unwrap() <= 30.0);
                break;
            }
            assert!(Instant::now() < deadline, "never told");
        }
    }
}

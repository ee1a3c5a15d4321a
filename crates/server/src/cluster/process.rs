//! Processes as `/proc` shows them.

use std::fs;
use std::path::Path;

/// The time a process started, in clock ticks since boot: with the pid it names
/// a process for good, since pids are used again.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc_pid_stat(5): the name is in parentheses and may itself hold some;
    // start time is field 22, the twentieth after the name.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The PostgreSQL processes at home in `data_dir`, postmaster and backends
/// alike: each keeps its data directory as its working directory.
///
/// Sees what the current user may see: everything for root, own processes
/// otherwise.
pub(crate) fn servers_in(data_dir: &Path) -> Vec<u32> {
    let Ok(data_dir) = fs::canonicalize(data_dir) else {
        return Vec::new();
    };
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let proc = format!("/proc/{pid}");
            fs::read_link(format!("{proc}/cwd")).is_ok_and(|cwd| cwd == data_dir)
                // A process that is ending gives up its program before its working
                // directory (`do_exit` in the kernel), and is still at home.
                && fs::read_link(format!("{proc}/exe")).map_or(true, |exe| {
                    // A program deleted since shows as "postgres (deleted)".
                    exe.file_name()
                        .is_some_and(|name| name.to_string_lossy().starts_with("postgres"))
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_start_time_while_it_lives() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let started = start_time(child.id());
        assert!(started.is_some_and(|ticks| ticks > 0));
        assert!(started >= start_time(std::process::id()));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!(start_time(child.id()), None);
    }
}

//! Settings that do not go together.

use super::bytes::in_words;
use super::input::Subject;

/// Each contradiction as a sentence.
pub(super) fn found(subject: &Subject) -> Vec<String> {
    let mut found = Vec::new();
    without_effect(subject, &mut found);
    nesting(subject, &mut found);
    machine(subject, &mut found);
    found
}

/// What changes nothing beside another setting.
fn without_effect(subject: &Subject, found: &mut Vec<String>) {
    let standbys = subject.text("synchronous_standby_names").is_some_and(|s| !s.trim().is_empty());
    if let Some(commit) = subject.text("synchronous_commit")
        && ["local", "remote_write", "remote_apply"].contains(&commit)
        && !standbys
    {
        found.push(format!(
            "synchronous_commit = {commit} without synchronous_standby_names is the same as on"
        ));
    }
    if standbys && subject.is_off("synchronous_commit") {
        found.push("synchronous_standby_names are set, but with synchronous_commit = off no commit waits for them".to_owned());
    }
    let delay = subject.number("commit_delay").is_some_and(|n| n > 0.0);
    if delay && (subject.is_off("synchronous_commit") || subject.is_off("fsync")) {
        found.push("commit_delay has no effect where commits do not flush".to_owned());
    }
    if delay
        && let (Some(siblings), Some(clients)) =
            (subject.number("commit_siblings"), subject.evidence.clients)
        && siblings >= clients
    {
        found.push(format!(
            "commit_delay has no effect with commit_siblings = {siblings}: the load has {clients} sessions"
        ));
    }
    if subject.is_off("fsync") && !subject.is_off("synchronous_commit") {
        found.push(
            "with fsync = off a commit waits for nothing, whatever synchronous_commit says"
                .to_owned(),
        );
    }
    if subject.is_on("autovacuum") && subject.is_off("track_counts") {
        found.push("autovacuum works by the counts that track_counts = off does not keep: nothing is vacuumed but against wraparound".to_owned());
    }
    if subject.is_on("wal_log_hints") && subject.is_on("data_checksums") {
        found.push("wal_log_hints adds nothing with data checksums, which log the same".to_owned());
    }
    if subject.text("huge_pages") == Some("off")
        && subject.bytes("huge_page_size").is_some_and(|bytes| bytes > 0.0)
    {
        found.push("huge_page_size has no effect with huge_pages = off".to_owned());
    }
}

/// Limits inside limits.
fn nesting(subject: &Subject, found: &mut Vec<String>) {
    let pairs = [
        ("max_parallel_workers", "max_worker_processes"),
        ("max_parallel_workers_per_gather", "max_parallel_workers"),
        ("max_parallel_maintenance_workers", "max_parallel_workers"),
        ("autovacuum_max_workers", "autovacuum_worker_slots"),
        ("io_combine_limit", "io_max_combine_limit"),
    ];
    for (inner, outer) in pairs {
        if let (Some(of), Some(all)) = (subject.number(inner), subject.number(outer))
            && of > all
        {
            found.push(format!("{inner} = {of} is beyond {outer} = {all}, which bounds it"));
        }
    }
}

/// Against memory as a whole.
fn machine(subject: &Subject, found: &mut Vec<String>) {
    let (Some(buffers), Some(ram)) = (subject.bytes("shared_buffers"), subject.ram) else { return };
    if subject.kernel("vm.overcommit_memory") == Some("2")
        && let Some(limit) = commit_limit(subject, ram)
        && buffers > limit
    {
        found.push(format!(
            "with vm.overcommit_memory = 2 the kernel promises {} in all, less than shared_buffers: raise vm.overcommit_ratio",
            in_words(limit)
        ));
    }
}

/// `CommitLimit` of the kernel: memory less huge pages, times the ratio, and swap.
fn commit_limit(subject: &Subject, ram: f64) -> Option<f64> {
    let ratio: f64 = subject.kernel("vm.overcommit_ratio")?.parse().ok()?;
    let swap = subject.host()?.swap_bytes.unwrap_or(0) as f64;
    let pages: f64 = subject.kernel("vm.nr_hugepages").and_then(|n| n.parse().ok()).unwrap_or(0.0);
    let huge = pages * 2.0 * 1_048_576.0;
    Some((ram - huge) * ratio / 100.0 + swap)
}

//! Values that the server takes and hardly anyone means.

use super::bytes::in_words;
use super::input::Subject;
use super::memory::Plan;
use super::{Item, ReviewItem};

const MB: f64 = 1_048_576.0;

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    let single = [
        deadlock(subject),
        random_page_cost(subject),
        sequential_page_cost(subject),
        tuple_cost(subject),
        temp_buffers(subject),
        maintenance(subject),
        read_only(subject),
        triggers(subject),
        archive(subject),
        counts(subject),
        activities(subject),
        compiled(subject),
        threshold(subject),
    ];
    let mut items: Vec<ReviewItem> = single.into_iter().flatten().collect();
    items.extend(timeouts(subject));
    items.extend(small(subject));
    items.extend(loud(subject));
    items.extend(planner(subject));
    items
}

/// Timeouts so short that their unit was probably left out: a bare number is milliseconds.
fn timeouts(subject: &Subject) -> Vec<ReviewItem> {
    // Below the first nearly everything ends in an error, below the second much that is meant
    // to end.
    let timeouts = [
        ("statement_timeout", 0.1, 1.0, "a statement"),
        ("transaction_timeout", 0.1, 1.0, "a transaction"),
        ("lock_timeout", 0.01, 0.1, "a wait for a lock"),
        ("idle_in_transaction_session_timeout", 0.1, 1.0, "a pause within a transaction"),
        ("idle_session_timeout", 1.0, 10.0, "a pause between transactions"),
    ];
    let judged = timeouts.into_iter().filter_map(|(name, fatal, short, what)| {
        let item = Item::of(subject, name)?;
        let seconds = subject.seconds(name)?;
        if seconds <= 0.0 || seconds >= short {
            return None;
        }
        let milliseconds = seconds * 1e3;
        let why = format!(
            "{what} of more than {milliseconds:.0} ms ends in an error; was a unit left out? A bare number is milliseconds"
        );
        let item = item.advise(format!("{milliseconds:.0}s"), why);
        Some(if seconds < fatal { item.problem() } else { item }.done())
    });
    judged.collect()
}

fn deadlock(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "deadlock_timeout")?;
    let seconds = subject.seconds("deadlock_timeout")?;
    if seconds < 0.1 {
        let why = format!(
            "each wait for a lock of more than {:.0} ms searches for a deadlock, holding the lock table against everyone",
            seconds * 1e3
        );
        return Some(item.advise("1s", why).done());
    }
    if seconds > 60.0 {
        let why = format!(
            "a deadlock is found after {seconds:.0} s; until then its sessions and all behind them stand"
        );
        return Some(item.advise("1s", why).done());
    }
    Some(item.done())
}

fn random_page_cost(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "random_page_cost")?;
    let (random, sequential) =
        (subject.number("random_page_cost")?, subject.number("seq_page_cost")?);
    if random >= sequential {
        return Some(item.done());
    }
    let why = format!(
        "it says that random pages ({random}) are read faster than pages in order ({sequential}), which no storage does: the planner takes indexes where a scan is faster"
    );
    let advised = if sequential <= 1.0 { 1.1 } else { sequential };
    Some(item.advise(format!("{advised}"), why).done())
}

fn sequential_page_cost(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "seq_page_cost")?;
    let now = subject.number("seq_page_cost")?;
    if now > 0.0 && now <= 10.0 {
        return None;
    }
    let why =
        "all other costs of the planner are in this unit; leave it at 1 and change the others";
    Some(item.advise("1", why).done())
}

fn tuple_cost(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "cpu_tuple_cost")?;
    let (tuple, page) = (subject.number("cpu_tuple_cost")?, subject.number("seq_page_cost")?);
    if tuple < page || page <= 0.0 {
        return None;
    }
    let why = format!("one row ({tuple}) is said to cost as much as reading a page ({page})");
    Some(item.advise("0.01", why).done())
}

/// Buffers of temporary tables are taken as they are needed and never given back while the
/// session lives.
fn temp_buffers(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "temp_buffers")?;
    let each = subject.bytes("temp_buffers")?;
    let Plan { sessions, whose, left, .. } = Plan::of(subject)?;
    let Some(left) = left else { return Some(item.done()) };
    let together = each * sessions;
    if together <= left {
        return Some(item.done());
    }
    let why = format!(
        "{} in each of {sessions} {whose} are {}, beyond the {} that shared buffers leave; a session that used temporary tables keeps them until it ends",
        in_words(each),
        in_words(together),
        in_words(left)
    );
    let item = item.advise("8MB", why);
    Some(if each > left { item.problem() } else { item }.done())
}

fn maintenance(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "maintenance_work_mem")?;
    let each = subject.bytes("maintenance_work_mem")?;
    if each < 16.0 * MB {
        let why = format!(
            "with {} a vacuum reads the indexes over and over, and an index is built in many passes; was a unit left out? A bare number is kB",
            in_words(each)
        );
        return Some(item.advise("64MB", why).done());
    }
    let ram = subject.ram.filter(|ram| each > ram / 4.0);
    let Some(ram) = ram else { return Some(item.done()) };
    let why = format!(
        "each index that is built, and each vacuum by hand, may take {} of {}",
        in_words(each),
        in_words(ram)
    );
    Some(item.advise(super::round_size(ram / 16.0), why).done())
}

/// Sizes so small that their unit was probably left out.
fn small(subject: &Subject) -> Vec<ReviewItem> {
    let sizes = [("work_mem", MB, "4MB", "kB"), ("shared_buffers", 16.0 * MB, "128MB", "8 kB")];
    let judged = sizes.into_iter().filter_map(|(name, least, advised, unit)| {
        // With the machine known, shared buffers are judged by its memory.
        if name == "shared_buffers" && subject.ram.is_some() {
            return None;
        }
        let item = Item::of(subject, name)?;
        let bytes = subject.bytes(name).filter(|bytes| *bytes < least)?;
        let why = format!(
            "{} is next to nothing; was a unit left out? A bare number is {unit}",
            in_words(bytes)
        );
        Some(item.advise(advised, why).done())
    });
    judged.collect()
}

fn read_only(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "default_transaction_read_only")?;
    if !subject.is_on("default_transaction_read_only") {
        return None;
    }
    let why = "every transaction that writes ends in an error, unless it says READ WRITE itself";
    Some(item.advise("off", why).problem().done())
}

fn triggers(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "session_replication_role")?;
    if subject.text("session_replication_role")? != "replica" {
        return None;
    }
    let why = "triggers do not fire and foreign keys are not checked, in every session";
    item.item.can_lose = Some("Rows that break their foreign keys are taken.".to_owned());
    Some(item.advise("origin", why).problem().done())
}

/// An archiver that has nothing to call keeps every segment, until the disk is full.
fn archive(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "archive_mode")?;
    let called = |name: &str| subject.text(name).map(|text| !text.trim().is_empty());
    if subject.text("archive_mode")? == "off"
        || called("archive_command")?
        || called("archive_library").unwrap_or(false)
    {
        return None;
    }
    let why = "archive_command is empty: WAL is kept for an archive that never comes, until the disk is full and the server stops";
    Some(item.because(why).problem().done())
}

fn counts(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "track_counts")?;
    if !subject.is_off("track_counts") {
        return None;
    }
    let why =
        "autovacuum works by these counts: without them nothing is vacuumed but against wraparound";
    Some(item.advise("on", why).problem().done())
}

fn activities(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "track_activities")?;
    if !subject.is_off("track_activities") {
        return None;
    }
    let why = "pg_stat_activity shows no waits, queries or transactions: what holds sessions back cannot be seen";
    Some(item.advise("on", why).done())
}

fn compiled(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "jit_above_cost")?;
    let cost = subject.number("jit_above_cost")?;
    if !subject.is_on("jit") || !(0.0..1_000.0).contains(&cost) {
        return None;
    }
    let why =
        "statements of a few rows are compiled before they run, which takes longer than they do";
    Some(item.advise("100000", why).done())
}

fn threshold(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_vacuum_threshold")?;
    let rows = subject.number("autovacuum_vacuum_threshold").filter(|rows| *rows > 1e6)?;
    let why =
        format!("no table is vacuumed before {rows} of its rows are dead, however small it is");
    Some(item.advise("50", why).done())
}

/// What fills the log, or the disk it is on.
fn loud(subject: &Subject) -> Vec<ReviewItem> {
    let mut items = Vec::new();
    for name in [
        "debug_print_parse",
        "debug_print_rewritten",
        "debug_print_plan",
        "log_statement_stats",
        "log_parser_stats",
        "log_planner_stats",
        "log_executor_stats",
    ] {
        if subject.is_on(name)
            && let Some(item) = Item::of(subject, name)
        {
            items.push(item.advise("off", "lines in the log for every statement").done());
        }
    }
    let debug = subject.text("log_min_messages").is_some_and(|level| level.starts_with("debug"));
    if debug && let Some(item) = Item::of(subject, "log_min_messages") {
        items.push(
            item.advise(
                "warning",
                "what developers of the server look at, many lines for each statement",
            )
            .done(),
        );
    }
    let seconds = subject.seconds("log_min_duration_statement");
    let short = seconds.filter(|seconds| *seconds > 0.0 && *seconds < 0.01);
    if let Some((seconds, item)) = short.zip(Item::of(subject, "log_min_duration_statement")) {
        let why = format!(
            "a line in the log for every statement of more than {:.0} ms; was a unit left out? A bare number is milliseconds",
            seconds * 1e3
        );
        items.push(item.advise("1s", why).done());
    }
    items
}

/// Plans that are forbidden for all sessions.
fn planner(subject: &Subject) -> Vec<ReviewItem> {
    let plans = [
        "enable_seqscan",
        "enable_indexscan",
        "enable_indexonlyscan",
        "enable_bitmapscan",
        "enable_nestloop",
        "enable_hashjoin",
        "enable_mergejoin",
        "enable_hashagg",
        "enable_sort",
        "enable_partition_pruning",
    ];
    let off = plans.into_iter().filter(|name| subject.is_off(name));
    let judged = off.filter_map(|name| {
        let why = "it is for looking at plans: for a whole server it makes others worse than the one it was meant for";
        Some(Item::of(subject, name)?.advise("on", why).done())
    });
    judged.collect()
}

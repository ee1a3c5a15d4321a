//! Memory: D39, D46, D47 and D48.

use super::bytes::in_words;
use super::input::Subject;
use super::{Item, ReviewItem, Standing, round_size};
use crate::rules::fair_to_autovacuum;
use walwright_catalog::parameter;

const GB: f64 = 1_073_741_824.0;
const MB: f64 = 1_048_576.0;
/// Shared memory from which address translation is a cost that shows: with 4 kB pages
/// its page tables alone take 16 MB in every session that has touched all of it.
const LARGE: f64 = 8.0 * GB;
/// Bytes of a huge page where nothing says otherwise.
pub(super) const HUGE_PAGE: f64 = 2.0 * MB;
/// Sessions a processor that a pooler lets in.
const POOLED: f64 = 10.0;

/// What memory is divided by: the values in force, or those that the review advises, so
/// that its advice holds once it is followed.
pub(super) struct Plan {
    /// Sessions that there may be at once.
    pub(super) sessions: f64,
    /// Whose number that is, in words.
    pub(super) whose: &'static str,
    /// Bytes of shared buffers.
    pub(super) buffers: f64,
    /// Whether `buffers` is advised rather than in force.
    pub(super) resized: bool,
    /// What shared buffers leave of the memory; `None` where that is not known.
    pub(super) left: Option<f64>,
}

impl Plan {
    /// The plan; `None` where the settings it needs are not known.
    pub(super) fn of(subject: &Subject) -> Option<Plan> {
        let advised = |item: Option<ReviewItem>| {
            let item = item?;
            parameter(&item.name)?.read(&item.advised?).ok()
        };
        let most = advised(max_connections(subject)).and_then(|value| value.number());
        let (most, of_most) = match most {
            Some(most) => (most, "sessions of the max_connections advised"),
            None => (subject.number("max_connections")?, "max_connections"),
        };
        let (sessions, whose) = match subject.evidence.clients {
            Some(clients) if clients < most => (clients, "sessions of the load"),
            _ => (most, of_most),
        };
        let resized = advised(shared_buffers(subject)).and_then(|value| value.bytes());
        let buffers = resized.or_else(|| subject.bytes("shared_buffers"))?;
        let left = subject.ram.map(|ram| (ram - buffers).max(0.1 * ram));
        Some(Plan { sessions, whose, buffers, resized: resized.is_some(), left })
    }
}

/// A quarter of a machine's memory, as a size.
pub(super) fn quarter(ram: f64) -> String {
    round_size(0.25 * ram)
}

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    [
        shared_buffers(subject),
        huge_pages(subject),
        kernel_huge_pages(subject),
        work_mem(subject),
        autovacuum_work_mem(subject),
        effective_cache_size(subject),
        max_connections(subject),
        overcommit(subject),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn shared_buffers(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "shared_buffers")?;
    let now = subject.bytes("shared_buffers")?;
    let Some(ram) = subject.ram else { return Some(item.done()) };
    let quarter = quarter(ram);
    if now > 0.6 * ram {
        let why = format!(
            "{} of {} leaves too little for sessions and for what the kernel caches",
            in_words(now),
            in_words(ram)
        );
        return Some(item.advise(quarter, why).problem().done());
    }
    if subject.evidence.database.is_some_and(|database| database < 0.8 * now) {
        return Some(item.because("the whole database fits").done());
    }
    if now < 0.1 * ram && ram >= GB {
        let why = format!(
            "{} of {}: pages that sessions change are written out to make room and read again; a quarter of memory is a start",
            in_words(now),
            in_words(ram)
        );
        return Some(item.advise(quarter, why).done());
    }
    let why = format!("{:.0} % of memory", 100.0 * now / ram);
    Some(item.because(why).done())
}

fn huge_pages(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "huge_pages")?;
    let Plan { buffers, resized, .. } = Plan::of(subject)?;
    if buffers < LARGE {
        let why = format!(
            "{} of shared buffers{} need none",
            in_words(buffers),
            if resized { ", as advised," } else { "" }
        );
        return Some(item.because(why).done());
    }
    let why = format!(
        "{} in pages of 4 kB cost page tables in every session and misses of the processor's address cache; with try the server starts without huge pages and says nothing",
        in_words(buffers)
    );
    Some(item.advise("on", why).done())
}

fn kernel_huge_pages(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::kernel(subject, "vm.nr_hugepages")?;
    let Plan { buffers, resized, .. } = Plan::of(subject)?;
    let have: f64 = subject.kernel("vm.nr_hugepages")?.parse().ok()?;
    let page = huge_page(subject).unwrap_or(HUGE_PAGE);
    let on = subject.text("huge_pages") == Some("on");
    if buffers < LARGE && !on || subject.is_off("huge_pages") {
        return Some(item.done());
    }
    let told = subject
        .record
        .and_then(|record| record.setting("shared_memory_size_in_huge_pages"))
        .and_then(|setting| setting.value.parse::<f64>().ok())
        .filter(|pages| *pages > 0.0 && !resized);
    // Besides buffers there are locks, sessions and caches: some per cent.
    let needed = told.unwrap_or_else(|| (1.05 * buffers / page).ceil());
    if have >= needed {
        return Some(item.because(format!("{needed} are needed")).done());
    }
    let source = match told {
        Some(_) => "shared_memory_size_in_huge_pages",
        None if resized => {
            "the shared_buffers advised and 5 % more; shared_memory_size_in_huge_pages tells exactly (15 on)"
        }
        None => {
            "shared_buffers and 5 % more; shared_memory_size_in_huge_pages tells exactly (15 on)"
        }
    };
    Some(item.advise(format!("{needed}"), format!("by {source}")).done())
}

/// Size of a huge page: that of the setting, or the kernel's own.
pub(super) fn huge_page(subject: &Subject) -> Option<f64> {
    if let Some(set) = subject.bytes("huge_page_size").filter(|bytes| *bytes > 0.0) {
        return Some(set);
    }
    let kilobytes = subject.kernel("meminfo.Hugepagesize")?.split_whitespace().next()?;
    Some(kilobytes.parse::<f64>().ok()? * 1024.0)
}

/// What sessions may take together: work_mem for each of two nodes, which is what a
/// join and a sort need, in sessions that are all at it at once.
fn work_mem(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "work_mem")?;
    let each = subject.bytes("work_mem")?;
    let spilled = subject.evidence.spilled.filter(|bytes| *bytes > 0.0);
    let Plan { sessions, whose, left, .. } = Plan::of(subject)?;
    let Some(left) = left else { return Some(item.done()) };
    let together = 2.0 * each * sessions;
    if together > left {
        let fits = (0.5 * left / (2.0 * sessions)).max(MB);
        let why = format!(
            "{} for two nodes in each of {sessions} {whose} is {}, beyond the {} that shared buffers leave: the kernel may kill the server, or swap",
            in_words(each),
            in_words(together),
            in_words(left)
        );
        let item = item.advise(round_size(fits), why);
        return Some(if together > 2.0 * left { item.problem() } else { item }.done());
    }
    if let Some(spilled) = spilled {
        let more = (2.0 * each).min(0.25 * left / sessions);
        let why = format!(
            "{} a transaction went to temporary files; {} for two nodes in {sessions} sessions would still fit in memory",
            in_words(spilled),
            round_size(more)
        );
        if more > 1.5 * each {
            return Some(item.advise(round_size(more), why).done());
        }
    }
    let why = format!(
        "{} for two nodes in each of {sessions} {whose} is {}",
        in_words(each),
        in_words(together)
    );
    Some(item.because(why).done())
}

fn autovacuum_work_mem(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_work_mem")?;
    let inherits = subject.number("autovacuum_work_mem")? < 0.0;
    let each = match inherits {
        true => subject.bytes("maintenance_work_mem")?,
        false => subject.bytes("autovacuum_work_mem")?,
    };
    let workers = subject.number("autovacuum_max_workers")?;
    // Up to 16 a vacuum could use no more than 1 GB.
    let used = if subject.major < 17 { each.min(GB) } else { each };
    let together = used * workers;
    let Some(ram) = subject.ram else { return Some(item.done()) };
    if together <= ram / 8.0 {
        let why = format!("{workers} workers take up to {}", in_words(together));
        return Some(item.because(why).done());
    }
    let why = format!(
        "{workers} workers may take {} each{}, {} together, of {}",
        in_words(used),
        if inherits { " (maintenance_work_mem)" } else { "" },
        in_words(together),
        in_words(ram)
    );
    Some(item.advise(fair_to_autovacuum(ram, workers), why).done())
}

fn effective_cache_size(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "effective_cache_size")?;
    let now = subject.bytes("effective_cache_size")?;
    let Some(ram) = subject.ram else { return Some(item.done()) };
    if (0.25..=1.0).contains(&(now / ram)) {
        return Some(item.because(format!("{:.0} % of memory", 100.0 * now / ram)).done());
    }
    let why = format!(
        "the planner believes {} cached of {}; it takes nothing and weighs index scans",
        in_words(now),
        in_words(ram)
    );
    Some(item.advise(round_size(0.6 * ram), why).done())
}

/// More sessions than processors can serve only queue: then it is they that are at fault, and
/// not the memory that each may take.
fn max_connections(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "max_connections")?;
    let now = subject.number("max_connections")?;
    let Some(processors) = subject.processors.filter(|n| now > 50.0 * n.max(8.0)) else {
        return Some(item.done());
    };
    // The load that was seen is let in.
    let clients = 1.2 * subject.evidence.clients.unwrap_or(0.0);
    let enough = (POOLED * processors).max(100.0).max(clients).ceil();
    let mut why = format!(
        "{now} sessions on {processors} processors only queue: a pooler in transaction mode with a few sessions a processor does more"
    );
    let memory = subject.ram.zip(subject.bytes("work_mem")).zip(subject.bytes("shared_buffers"));
    let taken =
        memory.map(|((ram, each), buffers)| (2.0 * each * now, (ram - buffers).max(0.1 * ram)));
    let beyond = taken.filter(|(together, left)| together > left);
    if let Some((together, left)) = beyond {
        why.push_str(&format!(
            "; and work_mem for two nodes in each is {}, beyond the {} that shared buffers leave",
            in_words(together),
            in_words(left)
        ));
    }
    item = match enough < now {
        true => item.advise(format!("{enough}"), why),
        false => {
            item.item.standing = Standing::Advice;
            item.because(why)
        }
    };
    let fatal = beyond.is_some_and(|(together, left)| together > 2.0 * left);
    Some(if fatal { item.problem() } else { item }.done())
}

fn overcommit(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::kernel(subject, "vm.overcommit_memory")?;
    match subject.kernel("vm.overcommit_memory")? {
        "2" => Some(
            item.because("memory that is not there is refused: a session gets an error, and the server lives").done(),
        ),
        "1" => Some(
            item.advise("2", "the kernel promises any amount, and kills a process, often the server, when it is called in")
                .done(),
        ),
        _ => Some(
            item.advise(
                "2",
                "when memory runs out the kernel kills a process, and a killed backend restarts the server; with 2 and a fitting vm.overcommit_ratio the session gets an error. For a machine that serves the database alone",
            )
            .done(),
        ),
    }
}

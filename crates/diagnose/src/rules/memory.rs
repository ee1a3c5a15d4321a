//! Memory: pressure, what settings promise, huge pages, autovacuum's share.

use walwright_figures::WaitClass;
use walwright_record::{Row, Source};

use super::threshold::{CERTAIN, worth};
use crate::review::round_size;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

const MB: f64 = 1024.0 * 1024.0;
const GB: f64 = 1024.0 * MB;
/// Bytes swapped a second that are more than a page now and then.
const SWAPPING: f64 = 1.0 * MB;
/// Memory left to the machine below which the next allocation may swap.
const LITTLE: f64 = 0.05;
/// Share of the memory that the server may promise away: the rest is the kernel's
/// and the page cache's.
const PROMISED: f64 = 0.9;
/// Share of the memory that autovacuum workers may take together.
const VACUUMS: f64 = 0.125;
/// Shared memory from which its page tables outgrow the caches of a processor: at
/// 8 bytes for each 4 kB page, 16 MB for each session.
const LARGE: f64 = 8.0 * GB;
/// Memory of autovacuum workers that someone will miss.
const VACUUM_MEMORY: f64 = 0.1;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [
        pressure(reading),
        overcommitted(reading),
        killer(reading),
        huge_pages(reading),
        autovacuum(reading),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn memory_rows<'r>(reading: &'r Reading) -> impl Iterator<Item = &'r Row> {
    let samples = reading.record.samples(Source::Memory).iter();
    samples.filter(|s| reading.window.contains(s.at)).flat_map(|s| &s.rows)
}

fn least(reading: &Reading, column: &str) -> Option<f64> {
    memory_rows(reading).filter_map(|row| row.number(column)).min_by(f64::total_cmp)
}

/// D45: the machine swaps or stalls for want of memory.
fn pressure(reading: &Reading) -> Option<Finding> {
    let memory = reading.difference(Source::Memory).ok()?;
    let seconds = memory.length().as_secs_f64();
    // Pages of 4 kB.
    let swapped = |column: &str| memory.sum(column).ok().map(|n| n * 4096.0 / seconds);
    let (swap_in, swap_out) = (swapped("pswpin")?, swapped("pswpout")?);
    let swapping = swap_in + swap_out;
    let available = least(reading, "MemAvailable").map(|kb| kb * 1024.0);
    let total = reading.memory()?;
    let stalled = reading.difference(Source::Pressure).ok().and_then(|pressure| {
        let of =
            |row: &Row| row.text("resource") == Some("memory") && row.text("kind") == Some("some");
        let micros = pressure.sum_where("total", of).ok()?;
        Some(micros / 1e6 / pressure.length().as_secs_f64())
    });
    let stalled = stalled.unwrap_or(0.0);
    if swapping < SWAPPING && stalled < CERTAIN {
        return None;
    }
    let time = reading.latency().map(|latency| reading.counted(latency * stalled.min(1.0)));
    let shared = reading.bytes("shared_buffers").unwrap_or(0.0);
    let work = reading.bytes("work_mem").unwrap_or(0.0);
    let mut finding = reading
        .finding(
            DiagnosisId::D45,
            Kind::Problem,
            format!(
                "The machine is short of memory: {:.1} MB/s go to and from swap, and someone \
                 stalls for memory {:.0} % of the time.",
                swapping / MB,
                stalled * 100.0
            ),
        )
        .seen([
            Evidence::new("/proc/vmstat pswpin, pswpout", "swapped", Value::Bytes(swapping))
                .per(crate::Per::Second),
            Evidence::new("/proc/pressure/memory", "time stalled", Value::Fraction(stalled)),
            Evidence::new("pg_settings", "shared_buffers", Value::Bytes(shared)),
            Evidence::new("pg_settings", "work_mem", Value::Bytes(work)),
        ])
        .seen(
            available
                .map(|b| Evidence::new("/proc/meminfo", "available at least", Value::Bytes(b))),
        )
        .costs(time.clone().and_then(|t| reading.impact(t)))
        .gains(time.and_then(|t| reading.gain(&Relief::new(t, []))));
    if shared > 0.4 * total {
        finding.actions.extend(reading.set(
            "shared_buffers",
            &format!("{:.0}MB", (0.25 * total / MB).floor()),
            "Leave memory to sessions and to the page cache.",
        ));
    }
    Some(finding.advise(Action::advice(
        "Find the largest processes (ps --sort -rss) and give what does not belong here less.",
    )))
}

/// D46: what settings promise to sessions is more than there is.
fn overcommitted(reading: &Reading) -> Option<Finding> {
    let total = reading.memory()?;
    let shared = reading.bytes("shared_buffers")?;
    let work = reading.bytes("work_mem")?;
    let hash = reading.number("hash_mem_multiplier").unwrap_or(1.0);
    // Those that are there, not those that max_connections would allow.
    let sessions = reading
        .record
        .samples(Source::Sessions)
        .iter()
        .flat_map(|s| &s.rows)
        .filter_map(|row| row.number("client_backends"))
        .max_by(f64::total_cmp)
        .or(reading.summary.clients.map(f64::from))?;
    let (each, workers) = autovacuum_memory(reading).unwrap_or((0.0, 0.0));
    let promised = shared + sessions * work * hash.max(1.0) + workers * each;
    if promised < PROMISED * total {
        return None;
    }
    let spare = (0.5 * total - shared).max(0.05 * total);
    let fair = (spare / sessions / hash.max(1.0) / MB).floor().clamp(1.0, 1024.0);
    let vacuums = match workers * each {
        0.0 => String::new(),
        _ => format!(", {workers:.0} autovacuum workers"),
    };
    let mut finding = reading
        .finding(
            DiagnosisId::D46,
            Kind::Problem,
            format!(
                "One hash in each of the {sessions:.0} sessions{vacuums} and shared_buffers may \
                 take {:.1} GB together; the machine has {:.1} GB.",
                promised / GB,
                total / GB
            ),
        )
        .seen([
            Evidence::new("pg_settings", "work_mem", Value::Bytes(work)),
            Evidence::new("pg_settings", "hash_mem_multiplier", Value::Count(hash)),
            Evidence::new("pg_settings", "shared_buffers", Value::Bytes(shared)),
            Evidence::new("pg_stat_activity", "sessions", Value::Count(sessions)),
            Evidence::new("/proc/meminfo or cgroup", "memory", Value::Bytes(total)),
        ]);
    if workers * each > VACUUMS * total {
        finding.evidence.push(Evidence::new(
            "pg_settings",
            "memory that an autovacuum worker may take",
            Value::Bytes(each),
        ));
        finding.actions.extend(reading.set(
            "autovacuum_work_mem",
            &fair_to_autovacuum(total, workers),
            "Each worker takes maintenance_work_mem unless this is set.",
        ));
    }
    if fair * MB < work {
        finding.actions.extend(reading.set(
            "work_mem",
            &format!("{fair:.0}MB"),
            "What every session may take at once; give the few large statements more with SET.",
        ));
    }
    Some(finding)
}

/// What an autovacuum worker may take, and how many there may be at once. Up to 16 a vacuum
/// could use no more than 1 GB.
fn autovacuum_memory(reading: &Reading) -> Option<(f64, f64)> {
    let own = reading.bytes("autovacuum_work_mem");
    let each = own.or_else(|| reading.bytes("maintenance_work_mem"))?;
    let before_17 = reading.version().is_some_and(|version| version < 170_000);
    let workers = reading.number("autovacuum_max_workers")?;
    Some((if before_17 { each.min(GB) } else { each }, workers))
}

/// What each worker may take of so much memory.
pub(crate) fn fair_to_autovacuum(total: f64, workers: f64) -> String {
    round_size(total / 16.0 / workers.max(1.0))
}

/// D47: the kernel has killed for want of memory, or may.
fn killer(reading: &Reading) -> Option<Finding> {
    let memory = reading.difference(Source::Memory).ok();
    let group = reading.difference(Source::Cgroup).ok();
    let killed = |d: &Option<walwright_figures::Difference>| {
        d.as_ref().and_then(|d| d.sum("oom_kill").ok()).unwrap_or(0.0)
    };
    let kills = killed(&memory).max(killed(&group));
    let host = reading.record.host.as_ref().filter(|_| reading.is_local())?;
    let policy = host.kernel_settings.get("vm.overcommit_memory").map(String::as_str);
    let available = least(reading, "MemAvailable").map(|kb| kb * 1024.0);
    let scarce = available.zip(reading.memory()).is_some_and(|(a, total)| a < LITTLE * total);
    if kills < 1.0 && !(scarce && policy != Some("2")) {
        return None;
    }
    let mut finding = reading
        .finding(
            DiagnosisId::D47,
            if kills >= 1.0 { Kind::Problem } else { Kind::Information },
            match kills >= 1.0 {
                true => format!("The kernel killed {kills:.0} processes for want of memory."),
                false => "Little memory is left, and the kernel promises more than it has: it may \
                          kill the server's processes."
                    .to_owned(),
            },
        )
        .seen([Evidence::new("/proc/vmstat oom_kill", "processes killed", Value::Count(kills))])
        .seen(policy.map(|p| {
            Evidence::new("/proc/sys/vm", "overcommit_memory", Value::Text(p.to_owned()))
        }));
    if policy != Some("2") {
        finding = finding.advise(Action::kernel(
            "Let allocations fail instead of killing; set vm.overcommit_ratio so that the limit \
             leaves room for what runs.",
            "vm.overcommit_memory",
            "2",
            policy,
        ));
    }
    Some(finding)
}

/// D48: large shared memory in small pages.
fn huge_pages(reading: &Reading) -> Option<Finding> {
    let shared = reading.bytes("shared_buffers").filter(|b| *b >= LARGE)?;
    let host = reading.record.host.as_ref().filter(|_| reading.is_local());
    // `huge_pages_status` tells from 17 on; before, whether any are taken.
    let status = reading.setting("huge_pages_status").map(|s| s.value.as_str());
    let pages = |name: &str| -> Option<f64> {
        host?.kernel_settings.get(name)?.split_whitespace().next()?.parse().ok()
    };
    let taken = pages("meminfo.HugePages_Total")
        .zip(pages("meminfo.HugePages_Free"))
        .map(|(all, free)| all - free);
    let used = match status {
        Some("on") => true,
        Some(_) => false,
        None => taken? > 0.0 && !reading.is_set("huge_pages", "off"),
    };
    if used {
        return None;
    }
    let tables = memory_rows(reading)
        .filter_map(|row| row.number("PageTables"))
        .max_by(f64::total_cmp)
        .map(|kb| kb * 1024.0);
    let needed = reading.number("shared_memory_size_in_huge_pages").filter(|n| *n > 0.0);
    let needed = needed.unwrap_or_else(|| (shared * 1.05 / (2.0 * MB)).ceil());
    let mut finding = reading
        .finding(
            DiagnosisId::D48,
            Kind::Problem,
            format!(
                "{:.0} GB of shared memory are mapped in pages of 4 kB: each session carries its \
                 own page tables, and address translation misses its caches.",
                shared / GB
            ),
        )
        .seen([Evidence::new("pg_settings", "shared_buffers", Value::Bytes(shared))])
        .seen(
            tables
                .map(|b| Evidence::new("/proc/meminfo PageTables", "page tables", Value::Bytes(b))),
        )
        .blind_to("What it costs in latency: processor counters are not in the record.")
        .advise(Action::kernel(
            "Reserve huge pages for the shared memory, then restart the server.",
            "vm.nr_hugepages",
            &format!("{needed:.0}"),
            host.and_then(|h| h.kernel_settings.get("vm.nr_hugepages")).map(String::as_str),
        ));
    finding.actions.extend(reading.set("huge_pages", "try", "Let the server take them."));
    Some(finding)
}

/// D39: autovacuum takes CPU that clients wait for, or much memory.
fn autovacuum(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let group = cpu.group("server: autovacuum")?;
    let processors = reading.processors()?;
    let backends = cpu.group(walwright_figures::cpu::CLIENT_BACKENDS)?;
    // Of the time that backends wait for a processor, theirs is the part that
    // autovacuum keeps them busy.
    let busy: f64 = cpu.groups.iter().map(|g| g.processors).sum();
    let delay = backends.run_delay_per_transaction.unwrap_or_default().as_secs_f64();
    let time = reading.counted(delay * group.processors / busy.max(1e-9));
    let waits = worth(reading, Some(time.clone()));
    let resident = reading
        .record
        .samples(Source::Processes)
        .iter()
        .filter(|s| reading.window.contains(s.at))
        .flat_map(|s| &s.rows)
        .filter(|row| row.text("process_group") == Some("server: autovacuum"))
        .filter_map(|row| row.number("private_bytes"))
        .max_by(f64::total_cmp);
    let total = reading.memory();
    let large = resident.zip(total).is_some_and(|(r, total)| r > VACUUM_MEMORY * total);
    if waits.is_none() && !large {
        return None;
    }
    let relief = Relief::new(time, [WaitClass::Cpu]);
    let mut finding = reading
        .finding(
            DiagnosisId::D39,
            Kind::Problem,
            format!(
                "Autovacuum keeps {:.2} of {processors:.0} processors busy{}.",
                group.processors,
                resident
                    .filter(|_| large)
                    .map_or(String::new(), |r| format!(" and holds {:.1} GB of memory", r / GB))
            ),
        )
        .seen([Evidence::new("/proc", "CPU of autovacuum", Value::Processors(group.processors))])
        .seen(resident.map(|r| Evidence::new("/proc", "memory of its own", Value::Bytes(r))))
        .gains(waits.as_ref().and_then(|_| reading.gain(&relief)))
        .costs(waits);
    let shared = total.zip(reading.number("autovacuum_max_workers"));
    if let Some((total, workers)) =
        shared.filter(|_| large && reading.is_set("autovacuum_work_mem", "-1"))
    {
        finding.actions.extend(reading.set(
            "autovacuum_work_mem",
            &fair_to_autovacuum(total, workers),
            "Each worker takes maintenance_work_mem unless this is set.",
        ));
    }
    let delay = reading.seconds("autovacuum_vacuum_cost_delay");
    if finding.impact.is_some() && delay.is_some_and(|d| d < 2e-3) {
        finding.actions.extend(reading.set(
            "autovacuum_vacuum_cost_delay",
            "2ms",
            "Let it pause as it does by default.",
        ));
    } else if finding.impact.is_some() {
        finding = finding.advise(Action::advice(
            "Vacuum is needed: find why so many rows die (HOT updates, fewer updates) before \
             slowing it down.",
        ));
    }
    Some(finding)
}

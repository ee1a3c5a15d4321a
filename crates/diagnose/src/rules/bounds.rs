//! What bounds the load on the machine: processors that are full, other processes, the
//! hypervisor.

use walwright_figures::cpu::OTHER_RUN;
use walwright_figures::{ProcessRole, WaitClass};
use walwright_record::Source;

use super::burner::burners;
use super::threshold::{CERTAIN, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// Processors are full from here on; the rest is scheduling.
pub(super) const FULL: f64 = 0.9;
/// Part of a full machine that others keep busy from which its waits are not the load's own.
const CROWDED: f64 = 0.3;
/// Part of the machine that another process takes before it can matter.
const NEIGHBOUR: f64 = 0.05;
/// Share of the processors' time taken by the hypervisor that is worth a word.
const STEAL: f64 = 0.02;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        [saturated(reading), hypervisor(reading)].into_iter().flatten().collect();
    found.extend(neighbours(reading));
    found
}

/// D59: the processors are full; a problem where one statement fills them for nothing.
fn saturated(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let processors = reading.processors()?;
    let filled = filled_share(reading);
    let busy = filled.map(|(_, busy)| busy).or(cpu.busy).filter(|busy| *busy >= FULL)?;
    let which = match filled {
        Some((share, _)) => {
            format!("{share:.0} of {processors:.0} processors, all that the server may use,")
        }
        None => format!("{processors:.0} processors"),
    };
    let server = cpu.server_per_transaction.map(|c| c.as_secs_f64());
    let driver = cpu.driver_per_transaction.map(|c| c.as_secs_f64());
    let of = |role: ProcessRole| -> f64 {
        let groups = cpu.groups.iter().filter(|g| ProcessRole::of(&g.group) == role);
        // The sum of nothing is a negative zero, which would be shown.
        groups.fold(0.0, |sum, group| sum + group.processors)
    };
    let others = of(ProcessRole::Other);
    let burners = burners(reading);
    let burns: String =
        burners.iter().take(2).map(|burner| format!(" {}", burner.sentence())).collect();
    let wasteful = burners.first().filter(|of| of.share >= BURNS && of.needless > 0.0);
    let mut finding = reading
        .finding(
            DiagnosisId::D59,
            if wasteful.is_some() { Kind::Problem } else { Kind::Information },
            format!(
                "The {which} are {:.0} % busy: the server has {:.2} of them, other \
                 processes {others:.2}. No wait that is removed gives more throughput than the \
                 processors left.{burns}",
                busy * 100.0,
                of(ProcessRole::Server)
            ),
        )
        .seen([Evidence::new("/proc/stat", "processors busy", Value::Fraction(busy))])
        .seen(burners.iter().flat_map(|burner| burner.evidence(reading.per())))
        .seen(server.map(|s| {
            Evidence::new("/proc", "CPU of the server", Value::Seconds(s)).per(reading.per())
        }))
        .seen(driver.map(|d| {
            Evidence::new("driver", "CPU of the load generator", Value::Seconds(d))
                .per(reading.per())
        }));
    let delay = reading.summary.time.as_ref().and_then(|t| t.counted_run_delay);
    if let Some(delay) = delay {
        let waiting = reading.counted(delay.as_secs_f64());
        finding = finding.costs(reading.impact(waiting));
    }
    if let Some(burner) = wasteful
        && let Some(seconds) = burner.seconds
    {
        let saved = seconds * burner.needless;
        // Most of it where an index leads to its rows; little where it must look at all of them.
        let cost = [LITTLE * saved, 0.5 * saved, saved].map(|of| reading.with_processor_wait(of));
        let time = super::schema::bounded(cost[0], cost[1], cost[2]);
        let relief = Relief::new(time.clone(), [WaitClass::Cpu]).and_cpu(0.5 * saved);
        finding = finding
            .about(burner.statement.clone())
            .costs(reading.impact(time))
            .gains(reading.gain(&relief))
            .advise(Action::advice(
                "Look at its plan (EXPLAIN (ANALYZE, BUFFERS)): an index with the columns of its \
                 WHERE first and those of its ORDER BY next leads to its rows; a queue is taken \
                 from such an index with LIMIT and FOR UPDATE SKIP LOCKED.",
            ));
    }
    Some(finding)
}

/// Processors that the server is held to by its affinity, and how busy it keeps them, where they
/// are fewer than the machine's and it fills them.
fn filled_share(reading: &Reading) -> Option<(f64, f64)> {
    let held = reading.record.target.as_ref()?.processors?;
    let server = reading.summary.cpu.as_ref()?.groups.iter();
    let server = server.filter(|g| ProcessRole::of(&g.group) == ProcessRole::Server);
    let busy = server.fold(0.0, |sum, group| sum + group.processors) / held;
    (held < reading.processors()? && busy >= FULL).then_some((held, busy.min(1.0)))
}

/// Share of the CPU from which one statement is what fills the processors.
const BURNS: f64 = 0.4;
/// Part of what such a statement takes without need that goes at least.
const LITTLE: f64 = 0.1;

/// Looks at other processes, a few seconds apart, from which those that stay are all named.
const ENOUGH_LOOKS: usize = 4;
/// What the finding is about where there were fewer.
const NOT_SAMPLED: &str = "not sampled long enough";

/// D55: other processes keep processors busy that the load waits for.
fn neighbours(reading: &Reading) -> Vec<Finding> {
    let (Some(cpu), Some(processors)) = (reading.summary.cpu.as_ref(), reading.processors()) else {
        return Vec::new();
    };
    if filled_share(reading).is_some() {
        // What it waits for is its own.
        return Vec::new();
    }
    let delays = cpu
        .groups
        .iter()
        .filter(|g| g.group == walwright_figures::cpu::CLIENT_BACKENDS || g.group == "walwright");
    let delay: f64 =
        delays.filter_map(|g| g.run_delay_per_transaction).map(|d| d.as_secs_f64()).sum();
    // Counted per transaction that ended well; those that failed waited too.
    let load = reading.summary.load.as_ref();
    let ended =
        load.map_or(1.0, |l| l.transactions as f64 / (l.transactions + l.failed).max(1) as f64);
    let delay = delay * ended;
    let busy: f64 = cpu.groups.iter().map(|g| g.processors).sum();
    let named = cpu.groups.iter().filter_map(|g| Some((g.group.strip_prefix("other: ")?, g)));
    let named = named.map(|(name, g)| {
        let who = match g.group == OTHER_RUN {
            true => "Another run of walwright, with its server,".to_owned(),
            false => format!("Another process, {name},"),
        };
        (who, name, g.processors)
    });
    // /proc/stat counts the whole machine, also what runs in other containers.
    let all = cpu.busy.unwrap_or(0.0) * processors;
    let looks = reading.record.samples(Source::Neighbours).iter();
    let looks = looks.filter(|sample| reading.window.contains(sample.at)).count();
    let unseen = match looks < ENOUGH_LOOKS {
        // Who began or ended between two looks has no name yet.
        true => (
            "Processes that were not sampled long enough to be named".to_owned(),
            NOT_SAMPLED,
            all - busy,
        ),
        false => ("Processes that cannot be seen from here".to_owned(), "unseen", all - busy),
    };
    let busy = busy.max(all);
    // Other processes are looked at every few seconds: of a short window that says little.
    let looked = reading
        .difference(Source::Neighbours)
        .is_ok_and(|looked| looked.length() * 2 >= reading.length());
    named
        .chain(looked.then_some(unseen))
        .filter(|(.., taken)| *taken >= NEIGHBOUR * processors)
        .filter_map(|(who, name, taken)| {
            // Of the wait for a processor, a neighbour's part is its part of the work.
            let time = reading.counted(delay * taken / busy.max(1e-9));
            let impact = worth(reading, Some(time))?;
            let relief = Relief::of_neighbours(taken);
            let (verb, cure) = match name {
                "unseen" => (
                    "keep",
                    "Find what else runs on this host, in other containers or for moments only"
                        .to_owned(),
                ),
                NOT_SAMPLED => (
                    "keep",
                    "Measure for 20 s or longer: what else runs here is named then".to_owned(),
                ),
                name if OTHER_RUN.ends_with(name) => {
                    ("keeps", "Wait until the other run has ended".to_owned())
                }
                name => ("keeps", format!("Stop {name} or move it to another machine")),
            };
            Some(
                reading
                    .finding(
                        DiagnosisId::D55,
                        Kind::Problem,
                        format!(
                            "{who} {verb} {taken:.2} of {processors:.0} processors busy while the \
                             server and its clients wait for one."
                        ),
                    )
                    .about(name)
                    .seen([
                        Evidence::new(
                            "/proc",
                            match name {
                                NOT_SAMPLED => "CPU of processes without a name".to_owned(),
                                name if OTHER_RUN.ends_with(name) => format!("CPU of {name}"),
                                name => format!("CPU of {name} processes"),
                            },
                            Value::Processors(taken),
                        ),
                        Evidence::new(
                            "/proc/PID/schedstat",
                            "waiting for a processor",
                            Value::Seconds(delay),
                        )
                        .per(reading.per()),
                    ])
                    .costs(Some(impact))
                    .gains(reading.gain(&relief))
                    .advise(Action::advice(match name {
                        NOT_SAMPLED => format!("{cure}."),
                        _ => format!(
                            "{cure}, and measure again: until then this run compares with nothing."
                        ),
                    })),
            )
        })
        .collect()
}

/// Whether others keep so much of a full machine busy that short waits say nothing:
/// a flush, and the kernel's threads that end it, must wait for a processor too.
pub(super) fn is_crowded_by_others(reading: &Reading) -> bool {
    let (Some(cpu), Some(processors)) = (reading.summary.cpu.as_ref(), reading.processors()) else {
        return false;
    };
    let busy = cpu.busy.unwrap_or(0.0);
    let ours = cpu.groups.iter().filter(|g| !g.group.starts_with("other: "));
    let ours: f64 = ours.map(|g| g.processors).sum();
    busy >= FULL && busy * processors - ours >= CROWDED * processors
}

/// D55 again: the hypervisor gives the processors to other machines.
fn hypervisor(reading: &Reading) -> Option<Finding> {
    let steal = reading.summary.cpu.as_ref()?.steal.filter(|share| *share > STEAL)?;
    let kind = if steal > 2.0 * CERTAIN { Kind::Problem } else { Kind::Information };
    let time = reading.latency().map(|latency| reading.counted(latency * steal));
    Some(
        reading
            .finding(
                DiagnosisId::D55,
                kind,
                format!(
                    "The hypervisor took {:.1} % of the processors' time for other machines.",
                    steal * 100.0
                ),
            )
            .about("hypervisor")
            .seen([Evidence::new("/proc/stat steal", "time taken", Value::Fraction(steal))])
            .costs(time.and_then(|t| reading.impact(t)))
            .advise(Action::advice(
                "Compare only within one experiment whose arms alternate, or use a machine with \
                 processors of its own.",
            )),
    )
}

//! What bounds the load where it is not the server: the application, the load
//! generator, other processes; and processors that are simply full.

use walwright_record::Source;

use super::threshold::{CERTAIN, worth};
use crate::{
    Action, DiagnosisId, Evidence, Finding, Gain, Kind, Reading, Relief, Value, WaitClass, WorkUnit,
};

/// Share of a client's cycle outside the server from which the server cannot be
/// what limits: were it free, throughput could not double.
const OUTSIDE: f64 = 0.5;
/// Processors are full from here on; the rest is scheduling.
pub(super) const FULL: f64 = 0.9;
/// A driver thread busier than this keeps clients waiting: requests that come at
/// random queue before a server is fully busy.
const BUSY_THREAD: f64 = 0.8;
/// Share of its own ceiling from which the driver may shape the result.
const NEAR_CEILING: f64 = 0.7;
/// Part of a full machine that others keep busy from which its waits are not the load's own.
const CROWDED: f64 = 0.3;
/// Part of the machine that another process takes before it can matter.
const NEIGHBOUR: f64 = 0.05;
/// Share of the processors' time taken by the hypervisor that is worth a word.
const STEAL: f64 = 0.02;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let generator = generator(reading);
    let application = if generator.is_none() { application(reading) } else { None };
    let mut found: Vec<Finding> = [generator, application, saturated(reading), hypervisor(reading)]
        .into_iter()
        .flatten()
        .collect();
    found.extend(neighbours(reading));
    found
}

/// Seconds of a client's cycle in a closed loop, latency and think time.
fn cycle(reading: &Reading) -> Option<f64> {
    let load = reading.summary.load.as_ref()?;
    let closed =
        matches!(reading.summary.schedule, Some(walwright_record::Schedule::Closed { .. }));
    let rate = load.throughput.as_ref()?.center;
    (closed && rate > 0.0).then(|| f64::from(reading.summary.clients.unwrap_or(0)) / rate)
}

/// D54: the load generator cannot send more.
fn generator(reading: &Reading) -> Option<Finding> {
    let Some(instrument) = &reading.record.instrument else { return others_generator(reading) };
    let rate = reading.summary.load.as_ref()?.throughput.as_ref()?.center;
    let busiest = instrument.busiest_thread.filter(|busy| *busy > BUSY_THREAD);
    let near = instrument.ceiling.map(|ceiling| rate / ceiling).filter(|near| *near > NEAR_CEILING);
    if busiest.is_none() && near.is_none() {
        return None;
    }
    let latency = reading.latency()?;
    let time = reading.summary.time.as_ref();
    let inside = time.map_or(0.0, |t| t.on_server.center);
    // The server's part is what was seen on it; the rest waits for the generator.
    let outside = reading.counted((latency - inside).max(0.0));
    let threads = reading.record.load.as_ref().map_or(1, |l| l.threads);
    Some(
        reading
            .finding(
                DiagnosisId::D54,
                Kind::Problem,
                match (busiest, near) {
                    (Some(busy), _) => format!(
                        "The busiest thread of the load generator uses {:.0} % of a processor: the \
                         figures describe the generator, not the server.",
                        busy * 100.0
                    ),
                    (None, near) => format!(
                        "The load generator runs at {:.0} % of what it can do on this machine: the \
                         figures may describe it, not the server.",
                        near.unwrap_or(0.0) * 100.0
                    ),
                },
            )
            .seen(busiest.map(|b| Evidence::new("driver", "busiest thread", Value::Fraction(b))))
            .seen(near.map(|n| Evidence::new("driver", "share of its ceiling", Value::Fraction(n))))
            .costs(reading.impact(outside))
            .advise(Action::client(
                "Use more threads, on processors that the server does not need; the run is not \
                 valid as a measure of the server.",
                format!("--threads {}", threads * 2),
            )),
    )
}

/// D54 for a generator that is not walwright: a process of it that fills a processor.
fn others_generator(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let group = cpu.groups.iter().find(|g| g.group.starts_with("load generator: "))?;
    let samples = reading.record.samples(Source::Neighbours).iter();
    let processes = samples
        .chain(reading.record.samples(Source::Processes))
        .flat_map(|s| &s.rows)
        .filter(|row| row.text("process_group") == Some(&group.group))
        .filter_map(|row| row.number("count"))
        .max_by(f64::total_cmp)
        .unwrap_or(1.0)
        .max(1.0);
    let each = group.processors / processes;
    if each < BUSY_THREAD {
        return None;
    }
    let latency = reading.latency()?;
    let inside = reading.summary.time.as_ref().map_or(0.0, |t| t.on_server.center);
    let outside = reading.counted((latency - inside).max(0.0));
    Some(
        reading
            .finding(
                DiagnosisId::D54,
                Kind::Problem,
                format!(
                    "The load generator uses {:.0} % of a processor in each of {processes:.0} \
                     processes: one that runs on a single thread cannot send more.",
                    each * 100.0
                ),
            )
            .seen([Evidence::new(
                "/proc",
                "CPU of the load generator",
                Value::Processors(group.processors),
            )])
            .costs(reading.impact(outside))
            .blind_to("How many threads it runs: with several the limit is further out.")
            .advise(Action::client(
                "Start more processes of the generator and compare: throughput that rises was the \
                 generator's.",
                "more workers (locust --processes, k6 on several machines)",
            )),
    )
}

/// D53: clients do something else most of the time, and the server waits for them.
fn application(reading: &Reading) -> Option<Finding> {
    // Of a load that is not ours the think time is not known: the latency is the cycle.
    let seen = reading.summary.load.as_ref().and_then(|l| l.latency.as_ref());
    let latency = seen?.mean.as_secs_f64();
    let cycle = match reading.summary.schedule {
        Some(_) => cycle(reading)?,
        None => latency,
    };
    let time = reading.summary.time.as_ref().filter(|t| t.unit == WorkUnit::Transaction)?;
    let cpu = reading.summary.cpu.as_ref()?;
    let application: f64 = cpu
        .groups
        .iter()
        .filter(|g| g.group.starts_with("application: "))
        .map(|g| g.processors)
        .sum();
    let server: f64 =
        cpu.groups.iter().filter(|g| g.group.starts_with("server: ")).map(|g| g.processors).sum();
    // On a machine without a free processor, time outside may be waiting for one, unless
    // it is the application that fills it.
    if cpu.busy.is_some_and(|busy| busy >= FULL) && application < 2.0 * server {
        return None;
    }
    let queue = time.queue.unwrap_or_default().as_secs_f64();
    let outside = cycle - queue - time.on_server.center;
    let share = outside / cycle;
    if share < OUTSIDE {
        return None;
    }
    let think = (cycle - latency).max(0.0);
    let server = cpu.server_per_transaction.map(|c| c.as_secs_f64());
    let cause = format!(
        "Not bound by the database: clients spend {:.0} % of their time outside it. If the server \
         took no time at all, throughput would rise by {:.0} % at most.",
        share * 100.0,
        100.0 * (cycle / outside - 1.0)
    );
    let mut finding = reading
        .finding(DiagnosisId::D53, Kind::Problem, cause)
        .seen([
            Evidence::new(
                "driver and wait events",
                "time outside the server",
                Value::Seconds(outside),
            )
            .per(reading.per()),
            Evidence::new("driver", "of it between two transactions", Value::Seconds(think))
                .per(reading.per()),
            Evidence::new(
                "wait events",
                "time on the server",
                Value::Seconds(time.on_server.center),
            )
            .per(reading.per()),
        ])
        .seen(server.map(|s| {
            Evidence::new("/proc", "CPU of the server", Value::Seconds(s)).per(reading.per())
        }))
        .seen((application > 0.0).then(|| {
            Evidence::new("/proc", "CPU of the application", Value::Processors(application))
        }))
        .seen(cpu.driver_per_transaction.filter(|d| !d.is_zero()).map(|d| {
            Evidence::new("driver", "CPU of the clients", Value::Seconds(d.as_secs_f64()))
                .per(reading.per())
        }))
        .advise(Action::advice(
            "Look at the application: its CPU, its calls to other services, its pool. Nothing in \
             the server's configuration changes this.",
        ));
    // The share is of the cycle: between transactions nobody waits for an answer.
    let of_cycle = reading.counted(outside).map(|s| s / cycle);
    finding.impact =
        Some(crate::Impact { per_transaction: reading.counted(outside), share: of_cycle });
    finding.gain = None::<Gain>;
    Some(finding)
}

/// D59: the processors are full, and that is all.
fn saturated(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let busy = cpu.busy.filter(|busy| *busy >= FULL)?;
    let processors = reading.processors()?;
    let server = cpu.server_per_transaction.map(|c| c.as_secs_f64());
    let driver = cpu.driver_per_transaction.map(|c| c.as_secs_f64());
    let of = |starts: &str| -> f64 {
        cpu.groups.iter().filter(|g| g.group.starts_with(starts)).map(|g| g.processors).sum()
    };
    let others = of("other: ");
    let mut finding = reading
        .finding(
            DiagnosisId::D59,
            Kind::Information,
            format!(
                "The {processors:.0} processors are {:.0} % busy: the server has {:.2} of them, other \
                 processes {others:.2}. No wait that is removed gives more throughput than the \
                 processors left.",
                busy * 100.0,
                of("server: ")
            ),
        )
        .seen([Evidence::new("/proc/stat", "processors busy", Value::Fraction(busy))])
        .seen(server.map(|s| {
            Evidence::new("/proc", "CPU of the server", Value::Seconds(s)).per(reading.per())
        }))
        .seen(driver.map(|d| {
            Evidence::new("driver", "CPU of the load generator", Value::Seconds(d)).per(reading.per())
        }));
    let delay = reading.summary.time.as_ref().and_then(|t| t.counted_run_delay);
    if let Some(delay) = delay {
        let waiting = reading.counted(delay.as_secs_f64());
        finding = finding.costs(reading.impact(waiting));
    }
    Some(finding)
}

/// D55: other processes keep processors busy that the load waits for.
fn neighbours(reading: &Reading) -> Vec<Finding> {
    let (Some(cpu), Some(processors)) = (reading.summary.cpu.as_ref(), reading.processors()) else {
        return Vec::new();
    };
    let delays = cpu
        .groups
        .iter()
        .filter(|g| g.group == crate::cpu::CLIENT_BACKENDS || g.group == "walwright");
    let delay: f64 =
        delays.filter_map(|g| g.run_delay_per_transaction).map(|d| d.as_secs_f64()).sum();
    // Counted per transaction that ended well; those that failed waited too.
    let load = reading.summary.load.as_ref();
    let ended =
        load.map_or(1.0, |l| l.transactions as f64 / (l.transactions + l.failed).max(1) as f64);
    let delay = delay * ended;
    let busy: f64 = cpu.groups.iter().map(|g| g.processors).sum();
    let named = cpu.groups.iter().filter_map(|g| Some((g.group.strip_prefix("other: ")?, g)));
    let named = named.map(|(name, g)| (format!("Another process, {name},"), name, g.processors));
    // /proc/stat counts the whole machine, also what runs in other containers.
    let all = cpu.busy.unwrap_or(0.0) * processors;
    let unseen = ("Processes that cannot be seen from here".to_owned(), "unseen", all - busy);
    let busy = busy.max(all);
    named
        .chain([unseen])
        .filter(|(.., taken)| *taken >= NEIGHBOUR * processors)
        .filter_map(|(who, name, taken)| {
            // Of the wait for a processor, a neighbour's part is its part of the work.
            let time = reading.counted(delay * taken / busy.max(1e-9));
            let impact = worth(reading, Some(time.clone()))?;
            let (verb, cure) = match name {
                "unseen" => {
                    ("keep", "Find what else runs on this host, in other containers too".to_owned())
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
                            format!("CPU of {name} processes"),
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
                    .gains(reading.gain(&Relief::new(time, [WaitClass::Cpu])))
                    .advise(Action::advice(format!(
                        "{cure}, and measure again: until then this run compares with nothing."
                    ))),
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

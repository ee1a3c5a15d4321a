//! What bounds the load outside the server: the load generator, and the application
//! whose database this is.

use walwright_figures::{CpuUse, GatewayTime, GroupCpu, ProcessRole, WaitClass, WorkUnit};

use super::bounds::FULL;
use crate::{Action, DiagnosisId, Evidence, Finding, Gain, Impact, Kind, Reading, Relief, Value};

/// Share of a client's cycle outside the server from which the server cannot be
/// what limits: were it free, throughput could not double.
const OUTSIDE: f64 = 0.5;
/// A thread busier than this keeps clients waiting: requests that come at random queue
/// before a server is fully busy.
const BUSY_THREAD: f64 = 0.8;
/// Share of its own ceiling from which the driver may shape the result.
const NEAR_CEILING: f64 = 0.7;
/// Processors that an application keeps busy at least before it is said to take the CPU:
/// one that mostly waits is bound by something else.
const WORKING: f64 = 0.5;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    generator(reading).or_else(|| application(reading)).into_iter().collect()
}

/// Seconds of a client's cycle in a closed loop, latency and think time. A transaction that
/// failed was a cycle too.
fn cycle(reading: &Reading) -> Option<f64> {
    let load = reading.summary.load.as_ref()?;
    let closed =
        matches!(reading.summary.schedule, Some(walwright_record::Schedule::Closed { .. }));
    let tries = (load.transactions + load.failed) as f64 / load.transactions.max(1) as f64;
    let rate = load.throughput.as_ref()?.center * tries;
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
            .costs(waits_for_generator(reading))
            .advise(Action::client(
                "Use more threads, on processors that the server does not need; the run is not \
                 valid as a measure of the server.",
                format!("--threads {}", threads * 2),
            )),
    )
}

/// The clients' latency that is not the server's part: it waits for the generator.
fn waits_for_generator(reading: &Reading) -> Option<Impact> {
    let latency = reading.summary.load.as_ref()?.latency.as_ref()?.mean.as_secs_f64();
    let inside = reading.summary.time.as_ref().map_or(0.0, |t| t.on_server.center);
    reading.impact(reading.counted((latency - inside).max(0.0)))
}

/// D54 for a generator that is not walwright: one of its threads fills a processor.
fn others_generator(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let (group, busy) = of_role(cpu, ProcessRole::Generator)
        .filter_map(|group| Some((group, busiest_thread(reading, group)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, busy)| *busy > BUSY_THREAD)?;
    let name = short(&group.group);
    Some(
        reading
            .finding(
                DiagnosisId::D54,
                Kind::Problem,
                format!(
                    "The load generator is the limit: the busiest thread of {name} uses {:.0} % of a \
                     processor and cannot send more.",
                    busy * 100.0
                ),
            )
            .about(name)
            .seen([
                Evidence::new("/proc/PID/task", "busiest thread", Value::Fraction(busy)),
                Evidence::new("/proc", "CPU of the load generator", Value::Processors(group.processors)),
            ])
            .costs(waits_for_generator(reading))
            .advise(Action::client(
                "Start more processes or threads of the generator and compare: throughput that \
                 rises was the generator's.",
                "pgbench --jobs, locust --processes, k6 on several machines",
            )),
    )
}

/// The groups of processes of a role.
fn of_role(cpu: &CpuUse, role: ProcessRole) -> impl Iterator<Item = &GroupCpu> {
    cpu.groups.iter().filter(move |group| ProcessRole::of(&group.group) == role)
}

/// Processors that a role's processes kept busy.
fn processors_of(cpu: &CpuUse, role: ProcessRole) -> f64 {
    of_role(cpu, role).map(|group| group.processors).sum()
}

/// What a group's processes are called.
fn short(group: &str) -> &str {
    group.split_once(": ").map_or(group, |(_, name)| name)
}

/// Share of a processor that the busiest thread of a group took.
fn busiest_thread(reading: &Reading, group: &GroupCpu) -> Option<f64> {
    walwright_figures::busiest_thread(reading.record, reading.window, group)
}

/// Whether processes of a group were seen to hold connections to the server.
fn is_connected(reading: &Reading, group: &GroupCpu) -> bool {
    let mut rows = group.rows(reading.record, reading.window);
    rows.any(|row| row.number("connected").is_some_and(|count| count > 0.0))
}

/// D53: clients do something else most of the time, and the server waits for them.
fn application(reading: &Reading) -> Option<Finding> {
    // Most of the time outside is then the gateway's, until answers are durable.
    if reading.summary.time.as_ref()?.is_withheld {
        return None;
    }
    let cpu = reading.summary.cpu.as_ref()?;
    let application = processors_of(cpu, ProcessRole::Application);
    let server = processors_of(cpu, ProcessRole::Server);
    // On a machine without a free processor, time outside may be waiting for one, unless
    // it is the application that fills it.
    if cpu.busy.is_some_and(|busy| busy >= FULL) && application < 2.0 * server {
        return None;
    }
    let unit = reading.summary.time.as_ref()?.unit;
    match unit {
        WorkUnit::Transaction | WorkUnit::Request => by_latency(reading, cpu),
        WorkUnit::Commit => by_cpu(reading, cpu),
    }
}

/// From the latency that clients saw: what is outside of the server of it.
fn by_latency(reading: &Reading, cpu: &CpuUse) -> Option<Finding> {
    // Of a load that is not ours the think time is not known: the latency is the cycle.
    let seen = reading.summary.load.as_ref().and_then(|l| l.latency.as_ref());
    let latency = seen?.mean.as_secs_f64();
    let cycle = match reading.summary.schedule {
        Some(_) => cycle(reading)?,
        None => latency,
    };
    let time = reading.summary.time.as_ref()?;
    let queue = time.queue.unwrap_or_default().as_secs_f64();
    // A backend that a message wakes counts as idle until it has a processor.
    let kept_back = time.gateway.map_or(0.0, GatewayTime::sum);
    let outside = cycle - queue - kept_back - time.on_server.center - reading.run_delay();
    let share = outside / cycle;
    if share < OUTSIDE {
        return None;
    }
    let pool = time.application.and_then(|application| application.pool_wait);
    let pool = pool.map_or(0.0, |wait| wait.as_secs_f64());
    if pool >= OUTSIDE * outside {
        return small_pool(reading, pool, latency);
    }
    let think = (cycle - latency).max(0.0);
    let mut cause = format!(
        "Not bound by the database: clients spend {:.0} % of their time outside it. If the server \
         took no time at all, throughput would rise by {:.0} % at most.",
        share * 100.0,
        100.0 * (cycle / outside - 1.0)
    );
    let works = largest(cpu, ProcessRole::Application);
    if let Some((group, each)) = works.and_then(|g| Some((g, g.per_transaction?))) {
        cause.push_str(&format!(
            " The application ({}) uses {:.2} ms of CPU a {}.",
            short(&group.group),
            each.as_secs_f64() * 1e3,
            time.unit.name()
        ));
    }
    let finding = reading.finding(DiagnosisId::D53, Kind::Problem, cause).seen([
        Evidence::new("driver and wait events", "time outside the server", Value::Seconds(outside))
            .per(reading.per()),
        Evidence::new("driver", "of it between two transactions", Value::Seconds(think))
            .per(reading.per()),
        Evidence::new("wait events", "time on the server", Value::Seconds(time.on_server.center))
            .per(reading.per()),
    ]);
    Some(told(reading, cpu, finding, outside, cycle))
}

/// D53 where the application keeps requests back: they wait for a session of its pool, which is
/// the server's time too, since a request holds one for what the server takes.
fn small_pool(reading: &Reading, wait: f64, latency: f64) -> Option<Finding> {
    let held = (latency - wait).max(0.0);
    let time = reading.counted(wait);
    let cause = format!(
        "The application's pool is the limit: a {} waits {:.1} ms for a session, {:.0} % of its \
         time, and then takes {:.1} ms.",
        reading.summary.time.as_ref()?.unit.name(),
        wait * 1e3,
        100.0 * wait / latency,
        held * 1e3,
    );
    let server = reading.summary.time.as_ref()?.on_server.center;
    Some(
        reading
            .finding(DiagnosisId::D53, Kind::Problem, cause)
            .about("pool")
            .seen([
                Evidence::new("application", "wait for a session", Value::Seconds(wait))
                    .per(reading.per()),
                Evidence::new("wait events", "time on the server", Value::Seconds(server))
                    .per(reading.per()),
            ])
            .costs(reading.impact(time.clone()))
            .gains(reading.gain(&Relief::of_outside(time).at_least(0.0)))
            .blind_to(
                "How long sessions wait for each other's locks and pages once there are more of \
                 them: few work at once now.",
            )
            .advise(Action::client(
                "Give the pool more sessions, as many as keep the processors busy: two to four for \
                 each to begin with. Whatever shortens a request's time on the server shortens the \
                 queue as well.",
                "maximumPoolSize (HikariCP), Maximum Pool Size (Npgsql), default_pool_size (PgBouncer)",
            )),
    )
}

/// Without the clients' latency: their CPU against the time of the server. What serves
/// one request after the other cannot be faster than its own CPU.
fn by_cpu(reading: &Reading, cpu: &CpuUse) -> Option<Finding> {
    let time = reading.summary.time.as_ref()?;
    let pool = time.application.and_then(|application| application.pool_wait);
    let pool = pool.map_or(0.0, |wait| wait.as_secs_f64());
    if pool >= OUTSIDE * time.whole() {
        return small_pool(reading, pool, time.whole());
    }
    let working = |group: &&GroupCpu| match ProcessRole::of(&group.group) {
        ProcessRole::Application => true,
        // One that talks to the server itself is its client.
        ProcessRole::Generator => is_connected(reading, group),
        _ => false,
    };
    let clients: Vec<&GroupCpu> = cpu.groups.iter().filter(working).collect();
    let processors: f64 = clients.iter().map(|group| group.processors).sum();
    let own: f64 =
        clients.iter().filter_map(|g| g.per_transaction).map(|each| each.as_secs_f64()).sum();
    // What sessions wait for their client is the client's time.
    let gaps = time.part(WaitClass::Client).map_or(0.0, |part| part.per_transaction.center);
    let inside = (time.on_server.center - gaps).max(0.0);
    let share = own / (own + inside);
    if processors < WORKING || share < OUTSIDE {
        return None;
    }
    let first = clients.iter().max_by(|a, b| a.processors.total_cmp(&b.processors))?;
    let what = match ProcessRole::of(&first.group) {
        ProcessRole::Generator => "the client",
        _ => "the application",
    };
    let name = short(&first.group);
    let mut cause = format!(
        "Not bound by the database: {what} ({name}) takes the CPU, {:.2} ms a {}, while the server works \
         {:.2} ms. If the server took no time at all, throughput would rise by {:.0} % at most.",
        own * 1e3,
        time.unit.name(),
        inside * 1e3,
        100.0 * inside / own
    );
    if let Some(busy) = busiest_thread(reading, first).filter(|busy| *busy > BUSY_THREAD) {
        cause.push_str(&format!(" Its busiest thread uses {:.0} % of a processor.", busy * 100.0));
    }
    let finding = reading
        .finding(DiagnosisId::D53, Kind::Problem, cause)
        .about(name)
        .seen([
            Evidence::new("/proc", "CPU of the clients", Value::Seconds(own)).per(reading.per()),
            Evidence::new("wait events", "time on the server", Value::Seconds(inside))
                .per(reading.per()),
            Evidence::new("/proc", "CPU of the clients", Value::Processors(processors)),
        ])
        .blind_to(
            "What the clients waited for besides, such as other services: without a log of theirs \
             their latency is not known.",
        );
    Some(told(reading, cpu, finding, own, own + inside))
}

/// The group of a role that uses most.
fn largest(cpu: &CpuUse, role: ProcessRole) -> Option<&GroupCpu> {
    of_role(cpu, role).max_by(|a, b| a.processors.total_cmp(&b.processors))
}

/// What both kinds of evidence have in common.
fn told(reading: &Reading, cpu: &CpuUse, finding: Finding, outside: f64, cycle: f64) -> Finding {
    let application = processors_of(cpu, ProcessRole::Application);
    let mut finding = finding
        .seen(cpu.server_per_transaction.map(|server| {
            Evidence::new("/proc", "CPU of the server", Value::Seconds(server.as_secs_f64()))
                .per(reading.per())
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
    let of_cycle = reading.counted(outside).map(|s| (s / cycle).clamp(0.0, 1.0));
    finding.impact = Some(Impact { per_transaction: reading.counted(outside), share: of_cycle });
    finding.gain = None::<Gain>;
    finding
}

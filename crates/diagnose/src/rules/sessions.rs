//! Sessions: held open across the client's own work, reset, too many.

use std::collections::BTreeMap;

use walwright_figures::{StatementUse, StatementUses, WaitClass};
use walwright_record::{Row, Source};
use walwright_stats::{Estimate, Interval};

use super::commit::COMMIT;
use super::forgotten_plans::ForgottenPlans;
use super::locks::idle_blockers;
use super::temporary_tables::{Churn, drops_tables, is_reset};
use super::threshold::{FEW, matters, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// A gap between two messages of a transaction that no network explains: round
/// trips inside a data centre stay below a millisecond.
const LINGERING: f64 = 2e-3;
/// Times the gaps after other statements from which those after some stand out.
const STANDS_OUT: f64 = 4.0;
/// Fewest sessions seen in such gaps.
const LOOKS: f64 = 30.0;
/// Runnable sessions for each processor from which a smaller pool would keep the
/// processors as busy. With four one may flush and one wait for its client while
/// two are ready.
const POOL: f64 = 4.0;
/// Runnable sessions for each processor that are certainly too many.
const CROWD: f64 = 2.0 * POOL;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [idle_in_transaction(reading), reset(reading), crowd(reading), lost_prepares(reading)]
        .into_iter()
        .flatten()
        .collect()
}

/// Messages of a transaction that a client sends and waits for, where statements are known.
pub(super) fn round_trips(reading: &Reading) -> Option<f64> {
    let uses = reading.statements.as_ref().ok()?;
    let calls: f64 = uses.toplevel().map(|s| s.calls).sum();
    Some((calls / uses.work.count).max(1.0))
}

/// The same from the scripts of a load that is ours.
pub(super) fn scripted_trips(reading: &Reading) -> Option<f64> {
    let workload = reading.record.workload.as_ref()?;
    let weight: u32 = workload.scripts.iter().map(|s| s.weight).sum();
    let sent: usize = workload.scripts.iter().map(|s| s.statements.len() * s.weight as usize).sum();
    (weight > 0).then(|| (sent as f64 / f64::from(weight)).max(1.0))
}

/// D8: the client holds its transaction across its own work.
fn idle_in_transaction(reading: &Reading) -> Option<Finding> {
    let idle = |row: &Row| row.text("state").is_some_and(|s| s.starts_with("idle in transaction"));
    let time = reading.spent(|row| WaitClass::of(row).is_some() && idle(row))?;
    let trips = round_trips(reading).or_else(|| scripted_trips(reading));
    let gap = trips.map_or(0.0, |trips| time.center / trips);
    let oldest = oldest_idle(reading).unwrap_or(0.0);
    let blocking = idle_blockers(reading).unwrap_or(0.0);
    let lingers = gap >= LINGERING || oldest >= 1.0;
    let (gap, time, between) = if lingers {
        (gap, time, "between two messages".to_owned())
    } else {
        let after = lingering_after(reading, time.center, idle)?;
        let between = format!("after {}", after.statement);
        (after.gap, time.map(|seconds| seconds * after.part), between)
    };
    // Those who wait for a row that an idle transaction holds wait for its client.
    let locks = reading.in_classes(&[WaitClass::Lock])?;
    let cost = sum(&time, &locks.map(|l| l * blocking));
    let impact = worth(reading, Some(cost.clone()))?;
    // The client's own work remains, outside of its transaction.
    let relief = Relief::new(cost, [WaitClass::Client, WaitClass::Lock]).and_moves(time.center);
    let mut finding = reading
        .finding(
            DiagnosisId::D8,
            Kind::Problem,
            format!(
                "Clients hold their transactions open while they do something else: {:.1} ms \
                 {between}, where a round trip takes well below one.",
                gap * 1e3
            ),
        )
        .seen([
            Evidence::new("pg_stat_activity", "idle in transaction", Value::Seconds(time.center))
                .per(reading.per()),
            Evidence::new("pg_stat_activity", "longest idle in transaction", Value::Seconds(oldest)),
            Evidence::new(
                "pg_blocking_pids()",
                "lock waits whose blocker is idle in its transaction",
                Value::Fraction(blocking),
            ),
        ])
        .costs(Some(impact))
        .gains(reading.gain(&relief))
        .not_because(format!(
            "Not momentary gaps: those between the statements of a busy client stay below {:.0} ms.",
            LINGERING * 1e3
        ))
        .advise(Action::advice(
            "Do the application's own work (calls to other services, computing) before BEGIN or \
             after COMMIT; set application_name to find the code.",
        ));
    let timeout = reading.seconds("idle_in_transaction_session_timeout");
    if timeout == Some(0.0) && oldest >= 1.0 {
        finding.actions.extend(reading.set(
            "idle_in_transaction_session_timeout",
            "60s",
            "As a safety net, end transactions that are forgotten; the client sees an error.",
        ));
    }
    Some(finding)
}

/// Statements after which clients let their transactions wait far longer than after others.
struct Lingering {
    /// The one of them after which most of that time goes by.
    statement: String,
    /// Seconds after each execution of theirs.
    gap: f64,
    /// Their part of all the time between two messages of a transaction.
    part: f64,
}

/// Those that hide in the mean of all messages, of which each transaction lets `time` seconds go
/// by. A session that waits for its client shows the statement that it ran last.
fn lingering_after(reading: &Reading, time: f64, idle: impl Fn(&Row) -> bool) -> Option<Lingering> {
    let uses = reading.statements.as_ref().ok()?;
    let mut seen: BTreeMap<String, f64> = BTreeMap::new();
    let samples = reading.record.samples(Source::Waits).iter();
    let inside = samples.filter(|sample| reading.window.contains(sample.at));
    for row in inside.flat_map(|sample| &sample.rows).filter(|row| idle(row)) {
        let id = row.0.get("query_id").map(ToString::to_string).unwrap_or_default();
        *seen.entry(id).or_default() += row.number("sessions").unwrap_or(0.0);
    }
    let all: f64 = seen.values().sum();
    let calls = |of: &StatementUse| of.calls / uses.work.count;
    let waits = |of: &StatementUse| time * seen.get(&of.query_id).copied().unwrap_or(0.0) / all;
    let (long, others): (Vec<&StatementUse>, Vec<&StatementUse>) =
        uses.toplevel().partition(|of| waits(of) >= LINGERING * calls(of));
    let sum = |of: &[&StatementUse], what: &dyn Fn(&StatementUse) -> f64| -> f64 {
        of.iter().map(|of| what(of)).sum()
    };
    let gap = sum(&long, &waits) / sum(&long, &calls);
    let of_others = sum(&others, &waits) / sum(&others, &calls);
    let looks = sum(&long, &|of| seen.get(&of.query_id).copied().unwrap_or(0.0));
    let most = long.iter().max_by(|a, b| waits(a).total_cmp(&waits(b)))?;
    // Where all gaps are long it is the machine, or all of the client's work: the mean says so.
    (looks >= LOOKS && gap >= STANDS_OUT * of_others).then(|| Lingering {
        statement: format!("`{}`", most.short()),
        gap,
        part: sum(&long, &waits) / time,
    })
}

fn oldest_idle(reading: &Reading) -> Option<f64> {
    let samples = reading.record.samples(Source::Sessions).iter();
    samples
        .filter(|s| reading.window.contains(s.at))
        .flat_map(|s| &s.rows)
        .filter_map(|row| row.number("oldest_idle_in_transaction_seconds"))
        .max_by(f64::total_cmp)
}

/// Two times of the same ticks: their ends add up at worst.
pub(super) fn sum(a: &Estimate, b: &Estimate) -> Estimate {
    let interval = a
        .interval
        .zip(b.interval)
        .map(|(a, b)| Interval { low: a.low + b.low, high: a.high + b.high });
    Estimate { center: a.center + b.center, interval, ..a.clone() }
}

/// D10: the pool resets the session each time it is returned. What the reset makes necessary
/// again, tables that it drops and plans that it throws away, is its doing too.
fn reset(reading: &Reading) -> Option<Finding> {
    let uses = reading.statements.as_ref().ok()?;
    let resets: Vec<_> = uses.toplevel().filter(|s| is_reset(s)).collect();
    let calls: f64 = resets.iter().map(|s| s.calls).sum();
    if calls < FEW {
        return None;
    }
    let executing: f64 = resets.iter().map(|s| s.seconds()).sum::<f64>() / uses.work.count;
    let each = calls / uses.work.count;
    // A reset outside a transaction costs its round trip too. What a round trip
    // takes shows inside transactions, as the gap between two messages.
    let gaps = reading.in_classes(&[WaitClass::Client]).map_or(0.0, |e| e.center);
    let trip = each * gaps / round_trips(reading).unwrap_or(1.0);
    let churn = Churn::of(reading, uses).filter(|churn| churn.by_resets);
    let zero = || reading.counted(0.0);
    let remade = churn.as_ref().map_or_else(zero, |churn| churn.making.clone());
    let replanned = replanned(uses, &resets);
    let guessed =
        ForgottenPlans::of(reading, uses).map(|plans| plans.all()).filter(|of| of[1] > 0.0);
    let planning = match (replanned, guessed) {
        (None, Some([least, likely, most])) => super::schema::bounded(least, likely, most),
        (counted, _) => reading.counted(counted.unwrap_or(0.0)),
    };
    let again = sum(&remade, &planning);
    let execution = reading.execution(executing + again.center);
    // What a backend does for a message beside executing it, reading, parsing and answering,
    // no statement is charged with: each message has its part of it.
    let beside = beside_execution(reading, uses);
    let part = (each / round_trips(reading).unwrap_or(1.0)).min(1.0);
    let answering = beside * part;
    // The client's view of the same commands where the driver timed them.
    let timed = timed_by_driver(reading)
        .unwrap_or_else(|| executing + trip + reading.with_processor_wait(answering));
    // One that drops tables is a commit that is flushed (RecordTransactionCommit), the others
    // are none.
    let flushed: f64 = resets.iter().filter(|s| drops_tables(s)).map(|s| s.calls).sum();
    let flushed = commits(reading).map_or(0.0, |commits| flushed / uses.work.count / commits);
    let flushing = reading.in_classes(&COMMIT).filter(|_| flushed > 0.0);
    let flushing = flushing.map_or_else(zero, |waits| waits.map(|w| w * flushed.min(1.0)));
    let apart = sum(&again, &flushing);
    let center = (timed + again.center).max(execution.time) + flushing.center;
    let longer = center - apart.center;
    let time = match apart.center > 0.0 {
        true => apart.map(|seconds| seconds + longer),
        false => reading.counted(center),
    };
    let impact = reading.impact(time.clone())?;
    // What the others spend beside executing may be the plans that a reset makes them lose.
    let lost = match resets.iter().any(forgets) {
        true => reading.with_processor_wait(beside - answering),
        false => 0.0,
    };
    let text = resets.first().map(|s| s.short()).unwrap_or_default();
    let mut from = vec![WaitClass::Cpu];
    if flushed > 0.0 {
        from.extend(COMMIT);
        from.push(WaitClass::Client);
    }
    let least = match &churn {
        Some(_) => time.low().unwrap_or(time.center),
        None => executing,
    };
    let mut relief = Relief::new(time, from).at_least(least / 2.0).and_flushes(flushed);
    relief = match &churn {
        // A commit deletes the files of the tables that it drops.
        Some(_) => relief.and_cpu(execution.cpu_around),
        None => relief.at_most_more(lost).and_cpu(execution.cpu + answering).and_messages(part),
    };
    let gain = reading.gain(&relief);
    if !matters(&impact, gain.as_ref()) {
        return None;
    }
    let lost = match &churn {
        Some(_) => "the temporary tables it drops are made again for the next caller",
        None => "what the session had prepared or planned is lost with it",
    };
    let mut finding = reading
        .finding(
            DiagnosisId::D10,
            Kind::Problem,
            format!(
                "Sessions are reset at each checkout: {each:.2} calls of {text} a {}, and {lost}.",
                reading.per().name()
            ),
        )
        .seen([
            Evidence::new("pg_stat_statements", format!("calls of {text}"), Value::Count(each))
                .per(reading.per()),
            Evidence::new("pg_stat_statements", "their time", Value::Seconds(executing))
                .per(reading.per()),
        ])
        .costs(Some(impact))
        .gains(gain)
        .advise(Action::client(
            "Return connections without a reset where the application leaves nothing behind \
             in a session.",
            "No Reset On Close=true (Npgsql); server_reset_query= (PgBouncer, session mode)",
        ));
    if let Some(churn) = &churn {
        let again = Value::Seconds(churn.making.center);
        let again = Evidence::new("pg_stat_sys_tables", "time to make the tables again", again);
        finding = finding.seen(churn.evidence(reading, uses)).seen([again.per(reading.per())]);
        if flushed > 0.0 {
            let share = Value::Fraction(flushed.min(1.0));
            let what = "commits that are resets which drop tables";
            finding = finding.seen([Evidence::new("pg_stat_statements.wal_records", what, share)]);
        }
    }
    Some(match replanned {
        Some(seconds) if seconds > 0.0 => {
            let seconds = Value::Seconds(seconds);
            let what = "planning again inside functions";
            finding.seen([Evidence::new("pg_stat_statements.total_plan_time", what, seconds)
                .per(reading.per())])
        }
        Some(_) => finding,
        None => finding
            .seen(guessed.map(|[_, likely, _]| {
                let what = "planning again inside statements, by what their pages do not explain";
                Evidence::new("pg_stat_statements", what, Value::Seconds(likely)).per(reading.per())
            }))
            .blind_to(
                "Plans that functions and foreign keys make again after a reset: \
                 pg_stat_statements.track = all with track_planning = on shows them.",
            ),
    })
}

/// Whether a reset throws plans away.
pub(super) fn forgets(reset: &&StatementUse) -> bool {
    let text = reset.plain();
    text.starts_with("discard all") || text.starts_with("discard plans")
}

/// CPU seconds of a transaction that backends spend beside executing statements, at least: what
/// statements wait for counts as execution.
fn beside_execution(reading: &Reading, uses: &StatementUses) -> f64 {
    let counted = reading.summary.time.as_ref().and_then(|time| time.counted_cpu);
    let executing: f64 = uses.toplevel().map(StatementUse::seconds).sum();
    counted.map_or(0.0, |cpu| (cpu.as_secs_f64() - executing / uses.work.count).max(0.0))
}

/// Seconds of a transaction in which functions plan again what resets made them forget; `None`
/// where the server does not count it.
fn replanned(uses: &StatementUses, resets: &[&StatementUse]) -> Option<f64> {
    if !resets.iter().any(forgets) {
        return Some(0.0);
    }
    let nested: Vec<f64> = uses
        .all
        .iter()
        .filter(|s| !s.toplevel)
        .filter_map(|s| {
            // A plan is made a few times and then kept, unless it is thrown away.
            let again = s.sum("plans")? > s.calls / 2.0;
            Some(if again { s.sum("total_plan_time")? / 1e3 } else { 0.0 })
        })
        .collect();
    (!nested.is_empty()).then(|| nested.iter().sum::<f64>() / uses.work.count)
}

/// Commits of the database a transaction.
fn commits(reading: &Reading) -> Option<f64> {
    let database = reading.difference(Source::Database).ok()?;
    let commits = database.sum("xact_commit").ok()? / reading.work(&database).ok()?.count;
    (commits > 0.0).then_some(commits)
}

/// Seconds of a transaction that the driver waited for resets, from its own clock.
fn timed_by_driver(reading: &Reading) -> Option<f64> {
    let workload = reading.record.workload.as_ref()?;
    let all = reading.summary.load.as_ref()?.transactions as f64;
    let mut sum = None;
    for (script, timed) in workload.scripts.iter().zip(&reading.record.statement_latency) {
        for (label, histogram) in script.statements.iter().zip(timed) {
            let word = label.trim_start().to_ascii_lowercase();
            if ["discard", "deallocate", "reset"].iter().any(|w| word.starts_with(w)) {
                let mean = histogram.mean()?.as_secs_f64();
                *sum.get_or_insert(0.0) += mean * histogram.count() as f64 / all;
            }
        }
    }
    sum
}

/// D11: more sessions want a processor than can ever have one.
fn crowd(reading: &Reading) -> Option<Finding> {
    let processors = reading.processors()?;
    let cpu = reading.summary.cpu.as_ref()?;
    let backends = cpu.group(walwright_figures::cpu::CLIENT_BACKENDS)?;
    let delay = backends.run_delay_per_transaction?.as_secs_f64();
    let rate = backends.processors / backends.per_transaction?.as_secs_f64();
    // Those that run and those that are ready to.
    let runnable = backends.processors + delay * rate;
    let others: f64 =
        cpu.groups.iter().filter(|g| g.group.starts_with("other: ")).map(|g| g.processors).sum();
    let each = runnable / processors;
    // Where others take the processors, the crowd is theirs.
    if each < CROWD || others > 0.2 * processors {
        return None;
    }
    let time = reading.counted(delay * (1.0 - POOL / each));
    let impact = worth(reading, Some(time.clone()))?;
    let pool = (POOL * processors).ceil();
    let mut finding = reading
        .finding(
            DiagnosisId::D11,
            Kind::Problem,
            format!(
                "{:.0} sessions at a time want one of {processors:.0} processors: more sessions add \
                 waiting, not throughput.",
                runnable
            ),
        )
        .seen([
            Evidence::new("/proc/PID/schedstat", "sessions running or ready", Value::Count(runnable)),
            Evidence::new("/proc", "processors", Value::Processors(processors)),
        ])
        .costs(Some(impact))
        .blind_to(
            "Where the knee lies shows only in a sweep: run with --clients 1,2,4,8,… and fit it.",
        )
        .advise(Action::client(
            "Put a pool before the server and find its best size by a sweep over clients.",
            format!("pool size {pool:.0}"),
        ));
    // Throughput stays as it is; what a transaction waits for moves into the pool's
    // queue and is shorter only as far as switching between sessions costs.
    finding.gain = None;
    Some(finding)
}

/// D12: a pooler lends another session, where the statement was never prepared.
fn lost_prepares(reading: &Reading) -> Option<Finding> {
    let load = reading.summary.load.as_ref()?;
    let of = |code: &str| load.failures.get(code).copied().unwrap_or(0) as f64;
    // invalid_sql_statement_name; duplicate_prepared_statement.
    let (missing, twice) = (of("26000"), of("42P05"));
    let failed = missing + twice;
    if failed < 1.0 {
        return None;
    }
    let share = failed / (load.transactions as f64 + load.failed as f64);
    Some(
        reading
            .finding(
                DiagnosisId::D12,
                Kind::Problem,
                "Requests fail because a statement was prepared in another session: the pooler \
                 lends sessions per transaction and does not carry prepared statements along.",
            )
            .seen([
                Evidence::new(
                    "driver",
                    "prepared statement does not exist (26000)",
                    Value::Count(missing),
                ),
                Evidence::new("driver", "prepared statement exists (42P05)", Value::Count(twice)),
            ])
            .costs(reading.impact(reading.counted(reading.latency()? * share)))
            .advise(Action::client(
                "Let the pooler track prepared statements.",
                "max_prepared_statements=200 (PgBouncer 1.21 or newer)",
            ))
            .advise(Action::client(
                "Or do not prepare on the server from this client.",
                "prepareThreshold=0 (JDBC), --protocol extended (walwright)",
            )),
    )
}

//! What fixing a cause is predicted to gain: a relief, put into the queueing model of the run.

use serde::Serialize;
use walwright_figures::WaitClass;
use walwright_figures::queueing::{Calibration, Network, Solution, Station, around};
use walwright_stats::{Confidence, Estimate, Interval, Method};

/// Part of what a transaction takes of a station that is always left: beyond a hundredfold a
/// prediction says no more.
const LEAST_LEFT: f64 = 0.01;
/// A station is what limits next from this part of its time on.
const LIMITS: f64 = 0.9;

/// What limits next, once the cause is gone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its name: `processors`, `WAL flush`, `load generator`, …
    pub name: String,
    /// Transactions a second at which it would be saturated, where that is known.
    pub limit: Option<f64>,
    /// Share of the remaining latency, 0 to 1, where it is a wait.
    pub share: Option<f64>,
}

/// What fixing one cause is predicted to gain. The intervals carry the error of the samples and
/// that of the model (`walwright_figures::queueing`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Rise of throughput, 0.06 is 6 %; `None` in an open loop, whose rate is given, and where
    /// the clients are not known.
    pub throughput: Option<Estimate>,
    /// Fall of the mean latency, 0 to 1.
    pub latency: Estimate,
    /// What limits next.
    pub next: Option<Bottleneck>,
    /// What it is the gain of, so that several can be taken together.
    #[serde(skip)]
    pub(crate) relief: Relief,
}

impl Gain {
    /// The gain of a change after which the network is solved so, and so at both ends of what the
    /// change may do.
    pub(crate) fn of(calibration: &Calibration, then: &Solution, ends: &[Solution; 2]) -> Gain {
        let now = calibration.solution();
        let rise = |of: &Solution| of.rate / now.rate;
        let fall = |of: &Solution| of.latency / now.latency;
        let throughput = calibration.given.is_none().then(|| {
            let ratio = around(rise(then), [rise(&ends[0]), rise(&ends[1])], 0.0);
            ratio.map(|ratio| (ratio - 1.0).max(0.0))
        });
        let ratio = around(fall(then), [fall(&ends[0]), fall(&ends[1])], 0.0);
        Gain {
            throughput,
            latency: ratio.map(|ratio| (1.0 - ratio).clamp(0.0, 1.0)),
            next: next(calibration, then),
            relief: Relief::of_neighbours(0.0),
        }
    }
}

/// What a fix takes away from a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Relief {
    /// Seconds of a transaction that disappear; the interval holds what the fix may leave.
    pub time: Estimate,
    /// The classes the time is taken from. Empty for all of them alike.
    pub from: Vec<WaitClass>,
    /// CPU seconds of a transaction that disappear with it.
    pub cpu: f64,
    /// Share of the flushes that disappear with it, 0 to 1.
    pub flushes: f64,
    /// Share of the load generator's work that disappears with it, 0 to 1.
    pub messages: f64,
    /// Processors that others keep busy and that become free.
    pub neighbours: f64,
    /// Seconds of it that clients spend between transactions instead.
    pub moved: f64,
    /// Whether all of it is time outside of the server.
    pub outside: bool,
    /// Seconds that a queue outside of the server becomes shorter by for each of them, where they
    /// are not the queue themselves.
    pub queue: f64,
}

impl Relief {
    /// Relief of `time` a transaction that is spent in these classes.
    pub fn new(time: Estimate, from: impl Into<Vec<WaitClass>>) -> Self {
        let from = from.into();
        Relief {
            time,
            from,
            cpu: 0.0,
            flushes: 0.0,
            messages: 0.0,
            neighbours: 0.0,
            moved: 0.0,
            outside: false,
            queue: 0.0,
        }
    }

    /// Relief of time outside of the server, such as waiting for a session of a pool.
    pub fn of_outside(time: Estimate) -> Self {
        Relief { outside: true, ..Relief::new(time, []) }
    }

    /// Relief of processors that others keep busy.
    pub fn of_neighbours(processors: f64) -> Self {
        let none = Estimate::symmetric(0.0, 0.0, Confidence::P95, Method::CostModel);
        Relief { neighbours: processors.max(0.0), ..Relief::new(none, [WaitClass::RunQueue]) }
    }

    /// States what will disappear at least, in seconds of a transaction.
    #[must_use]
    pub fn at_least(mut self, seconds: f64) -> Self {
        let high = self.time.high().unwrap_or(self.time.center);
        let low = seconds.clamp(0.0, self.time.center);
        self.time.interval = Some(Interval { low, high });
        self
    }

    /// States how many seconds of a transaction more may disappear.
    #[must_use]
    pub fn at_most_more(mut self, seconds: f64) -> Self {
        if let Some(interval) = &mut self.time.interval {
            interval.high += seconds.max(0.0);
        }
        self
    }

    /// States the CPU that disappears with it, in seconds of a transaction.
    #[must_use]
    pub fn and_cpu(mut self, seconds: f64) -> Self {
        self.cpu = seconds.max(0.0);
        self
    }

    /// States the share of the messages, and so of the load generator's work, that
    /// disappear with it.
    #[must_use]
    pub fn and_messages(mut self, share: f64) -> Self {
        self.messages = share.clamp(0.0, 1.0);
        self
    }

    /// States the share of the flushes that disappear with it.
    #[must_use]
    pub fn and_flushes(mut self, share: f64) -> Self {
        self.flushes = share.clamp(0.0, 1.0);
        self
    }

    /// States the seconds of it that clients then spend between their transactions.
    #[must_use]
    pub fn and_moves(mut self, seconds: f64) -> Self {
        self.moved = seconds.max(0.0);
        self
    }

    /// The gain of it under the load that a model was calibrated by.
    pub fn gain(&self, calibration: &Calibration) -> Gain {
        Relief::gain_together(&[self], calibration)
    }

    /// The gain of several at once. Each takes its part of what the others leave.
    pub(crate) fn gain_together(reliefs: &[&Relief], calibration: &Calibration) -> Gain {
        let now = calibration.solution();
        let after = |seconds: &dyn Fn(&Relief) -> f64| {
            let relieve = |network: Network, of: &&Relief| of.relieve(&network, &now, seconds(of));
            calibration.solve(&reliefs.iter().fold(calibration.network.clone(), relieve))
        };
        let ends = [
            after(&|of| of.time.low().unwrap_or(of.time.center)),
            after(&|of| of.time.high().unwrap_or(of.time.center)),
        ];
        let relief = reliefs.first().map_or_else(|| Relief::of_neighbours(0.0), |r| (*r).clone());
        Gain { relief, ..Gain::of(calibration, &after(&|of| of.time.center), &ends) }
    }

    /// The gain of it where nothing is known of the clients: of the latency alone.
    pub fn gain_of(&self, latency: f64) -> Gain {
        let queue = if self.outside { 0.0 } else { self.queue };
        let fall = |seconds: f64| (seconds * (1.0 + queue) / latency).clamp(0.0, 1.0 - LEAST_LEFT);
        let relief = self.clone();
        Gain { throughput: None, latency: self.time.clone().map(fall), next: None, relief }
    }

    /// The network without so many seconds.
    fn relieve(&self, of: &Network, now: &Solution, seconds: f64) -> Network {
        let mut network = of.clone();
        let at = |station: Station| -> f64 {
            now.parts.iter().filter(|(of, _)| *of == station).map(|(_, seconds)| seconds).sum()
        };
        let beyond = seconds * if self.outside { 1.0 } else { self.queue };
        if beyond > 0.0 {
            let left = (1.0 - beyond / at(Station::Outside).max(beyond)).max(LEAST_LEFT);
            let outside = network.delays.iter_mut().filter(|d| d.station == Station::Outside);
            outside.for_each(|delay| delay.seconds *= left);
        }
        if self.outside {
            return network;
        }
        let processing = &mut network.processing;
        processing.neighbours = (processing.neighbours - self.neighbours).max(0.0);
        // Who was woken waited for a slice of those that were running, in proportion.
        let running = processing.processors * processing.busy_then;
        if running.is_finite() && running > 0.0 {
            let kept = (1.0 - self.neighbours / running).max(0.0);
            processing.backend.delay *= kept;
            processing.driver.delay *= kept;
            network.commits.delayed *= kept;
        }
        processing.driver.cpu *= 1.0 - self.messages;
        processing.driver.delay *= 1.0 - self.messages;
        network.commits.waits *= 1.0 - self.flushes;

        let backend = at(Station::Cpu);
        let occupied = backend + at(Station::RunQueue);
        let part = if self.time.center > 0.0 { seconds / self.time.center } else { 1.0 };
        network.think += self.moved * part;
        let mut cpu = self.cpu * part;
        let stretched = if backend > 0.0 { occupied / backend } else { 1.0 };
        let mut waits: Vec<Station> =
            self.from.iter().filter_map(|class| station(*class)).collect();
        // Several classes are one station.
        waits.sort_unstable();
        waits.dedup();
        // Where flushes go, or a client answers sooner, locks are held shorter: the model's
        // own conclusion.
        if waits.iter().any(|station| !matches!(station, Station::Lock | Station::Lwlock)) {
            waits.retain(|station| *station != Station::Lock);
        }
        if self.flushes > 0.0 {
            waits.retain(|station| *station != Station::Flush);
        }
        let on_processor =
            self.from.iter().any(|c| matches!(c, WaitClass::Cpu | WaitClass::RunQueue));
        if self.cpu == 0.0 && on_processor && waits.is_empty() {
            cpu = seconds / stretched;
        }
        let mut rest = (seconds - cpu * stretched).max(0.0);
        // Time of statements beyond their CPU is in waits that the rule does not name.
        if waits.is_empty() && self.neighbours == 0.0 && self.flushes == 0.0 {
            waits = vec![Station::Io, Station::Lock, Station::Lwlock, Station::Other];
            if self.from.is_empty() {
                waits.extend([
                    Station::Flush,
                    Station::Client,
                    Station::Outside,
                    Station::Replication,
                ]);
                let all: f64 = waits.iter().map(|station| at(*station)).sum();
                cpu = seconds * occupied / (occupied + all) / stretched;
                rest = seconds - cpu * stretched;
            }
        }
        let worker = &mut network.processing.backend;
        let left = if worker.cpu > 0.0 { (1.0 - cpu / worker.cpu).max(LEAST_LEFT) } else { 1.0 };
        worker.cpu *= left;
        worker.delay *= left;

        let all: f64 = waits.iter().map(|station| at(*station)).sum();
        let left = if all > 0.0 { (1.0 - rest / all).max(LEAST_LEFT) } else { 1.0 };
        for station in waits {
            match station {
                Station::Flush => network.commits.waits *= left,
                Station::Lock => network.lock.left *= left,
                Station::Lwlock => network.lwlock.left *= left,
                station => {
                    let delays = network.delays.iter_mut().filter(|d| d.station == station);
                    delays.for_each(|delay| delay.seconds *= left);
                }
            }
        }
        network
    }
}

/// Where a session waits that is in this class; `None` for processors.
fn station(class: WaitClass) -> Option<Station> {
    match class {
        WaitClass::Cpu | WaitClass::RunQueue => None,
        WaitClass::Flush | WaitClass::FlushQueue => Some(Station::Flush),
        WaitClass::Replication => Some(Station::Replication),
        WaitClass::Io => Some(Station::Io),
        WaitClass::Lock => Some(Station::Lock),
        WaitClass::Lwlock => Some(Station::Lwlock),
        WaitClass::Client => Some(Station::Client),
        WaitClass::Other => Some(Station::Other),
    }
}

/// What is full, or else the largest part of the latency.
fn next(calibration: &Calibration, then: &Solution) -> Option<Bottleneck> {
    let full =
        |name: &str, limit: Option<f64>| Bottleneck { name: name.to_owned(), limit, share: None };
    let ceiling = calibration.network.ceiling;
    if ceiling.is_some_and(|ceiling| then.rate >= LIMITS * ceiling) {
        return Some(full("load generator", ceiling));
    }
    if then.processors_busy.is_some_and(|busy| busy >= LIMITS) {
        return Some(full("processors", then.processors_limit));
    }
    let (station, seconds) = then.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = Some(seconds / then.latency);
    Some(Bottleneck { name: station.label().to_owned(), limit: None, share })
}

#[cfg(test)]
mod tests {
    use walwright_figures::WorkUnit;
    use walwright_figures::queueing::{Commits, Delay, Processing, Serial, Worker};

    use super::*;

    fn exact(center: f64) -> Estimate {
        Estimate::symmetric(center, 0.0, Confidence::P95, Method::BlockBootstrap)
    }

    /// The diary's own figures: 9 clients, 7.38 ms, of which 0.435 ms are flushes.
    fn diary(processors: f64) -> Calibration {
        let delay = |station, seconds| Delay { station, seconds };
        let network = Network {
            clients: 9.0,
            think: 0.0,
            processing: Processing {
                processors,
                neighbours: 0.0,
                backend: Worker { cpu: 1.0e-3, crowding: 1.0, delay: 0.0 },
                driver: Worker::default(),
                gateway: Worker::default(),
                behind: 0.0,
                idle_cost: 0.0,
                busy_then: 0.0,
            },
            commits: Commits { flush: 0.29e-3, waits: 1.0, ..Commits::default() },
            lock: Serial::default(),
            lwlock: Serial::default(),
            driver: None,
            delays: vec![delay(Station::Client, 4.0e-3), delay(Station::Outside, 1.945e-3)],
            ceiling: None,
            gathered: None,
        };
        let rate = network.solve().rate;
        Calibration { network, given: None, unit: WorkUnit::Transaction, rate, is_observed: false }
    }

    fn rise(of: &Calibration, relief: &Relief) -> f64 {
        relief.gain(of).throughput.unwrap().center
    }

    #[test]
    fn free_flushes_gain_a_few_percent_in_the_diary() {
        let relief = Relief::new(exact(0.4e-3), [WaitClass::Flush]).and_flushes(1.0);
        let gain = relief.gain(&diary(64.0));
        let throughput = gain.throughput.unwrap();
        assert!((throughput.center - 0.05).abs() < 0.015, "{throughput:?}");
        let ends = throughput.interval.unwrap();
        assert!(ends.low < throughput.center && throughput.center < ends.high && ends.high < 0.2);
        assert_eq!(gain.next.unwrap().name, "client");
    }

    #[test]
    fn full_processors_limit_what_a_shorter_wait_gains() {
        let full = diary(1.0);
        let relief = Relief::new(exact(3.0e-3), [WaitClass::Client]);
        let gain = relief.gain(&full);
        assert!(gain.throughput.unwrap().center < 0.2);
        let next = gain.next.unwrap();
        assert_eq!((next.name.as_str(), next.limit), ("processors", Some(1_000.0)));
        // CPU that goes with it raises the limit.
        assert!(rise(&full, &relief.and_cpu(0.5e-3)) > 0.3);
    }

    #[test]
    fn cpu_that_goes_takes_its_wait_for_a_processor_with_it() {
        let full = diary(1.0);
        let relief = Relief::new(exact(0.5e-3), [WaitClass::Cpu]).and_cpu(0.5e-3);
        let all = full.solution().latency;
        // Half a millisecond of CPU is worth more than half a millisecond of latency.
        assert!(rise(&full, &relief) > 0.5e-3 / (all - 0.5e-3), "{}", rise(&full, &relief));
    }

    #[test]
    fn a_flush_and_its_queue_are_one_wait() {
        let diary = diary(64.0);
        let once = Relief::new(exact(0.3e-3), [WaitClass::Flush]);
        let twice = Relief::new(exact(0.3e-3), [WaitClass::Flush, WaitClass::FlushQueue]);
        assert_eq!(rise(&diary, &once), rise(&diary, &twice));
    }

    #[test]
    fn work_that_leaves_a_transaction_stays_with_its_client() {
        let diary = diary(64.0);
        let gone = Relief::new(exact(3.0e-3), [WaitClass::Client]);
        assert!(rise(&diary, &gone) > 0.3);
        let moved = gone.clone().and_moves(3.0e-3);
        assert!(rise(&diary, &moved).abs() < 0.02, "{}", rise(&diary, &moved));
    }

    #[test]
    fn a_wait_for_the_slice_of_a_neighbour_goes_with_it() {
        let mut crowded = diary(2.0);
        let processing = &mut crowded.network.processing;
        (processing.neighbours, processing.busy_then) = (1.8, 1.0);
        processing.backend.delay = 5.0e-3;
        crowded.network.commits.delayed = 2.0e-3;
        assert!(rise(&crowded, &Relief::of_neighbours(1.8)) > 0.8);
    }

    #[test]
    fn a_shorter_flush_lets_a_hot_row_go_sooner() {
        let mut hot = diary(64.0);
        hot.network.delays.clear();
        hot.network.commits.flush = 2.0e-3;
        let relief =
            Relief::new(exact(1.5e-3), [WaitClass::Flush, WaitClass::Lock]).and_flushes(0.5);
        let alone = rise(&hot, &relief);
        hot.network.lock = Serial { share: 1.0, of_rest: 0.5, left: 1.0 };
        assert!(rise(&hot, &relief) > 0.3 && alone > 0.3);
    }

    #[test]
    fn an_open_loop_gains_latency_alone() {
        let mut open = diary(64.0);
        open.given = Some(300.0);
        let gain = Relief::new(exact(2.0e-3), [WaitClass::Client]).gain(&open);
        assert_eq!(gain.throughput, None);
        assert!((gain.latency.center - 0.28).abs() < 0.02, "{:?}", gain.latency);
    }

    #[test]
    fn think_time_is_no_latency_to_win() {
        let mut thinking = diary(64.0);
        thinking.network.think = 10.0e-3;
        let relief = Relief::new(exact(3.69e-3), [WaitClass::Client]);
        let cycle = 9.0 / thinking.network.solve().rate;
        let expected = cycle / (cycle - 3.69e-3) - 1.0;
        assert!((rise(&thinking, &relief) - expected).abs() < 0.01);
    }

    #[test]
    fn free_neighbours_give_their_processors_back() {
        let mut crowded = diary(2.0);
        crowded.network.processing.neighbours = 1.0;
        assert!(rise(&crowded, &Relief::of_neighbours(1.0)) > 0.05);
    }

    #[test]
    fn what_may_stay_widens_the_interval_downwards() {
        let relief = Relief::new(exact(3.0e-3), [WaitClass::Client]);
        let low = |relief: &Relief| relief.gain(&diary(64.0)).throughput.unwrap().low().unwrap();
        assert!(low(&relief.clone().at_least(0.0)) < low(&relief));
    }
}

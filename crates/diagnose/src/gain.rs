//! What fixing a cause can gain at most, and what stands behind it.
//!
//! If service that takes W of the latency R disappeared, N clients of a closed
//! loop with a cycle of C = R + Z could do no more than N / (C − W) transactions
//! a second, and no more than the busiest of the remaining resources allows
//! (operational analysis: Lazowska et al., "Quantitative System Performance",
//! chapter 5). That is a bound, not a promise: other queues grow as one shrinks.
//!
//! Where the processors are full, whatever is left of a transaction was made longer by
//! the CPU that goes: it shrinks in that proportion at most. Below that, what is left
//! waits less for a processor, as a queue before c servers does: its wait is
//! ρ^c / (1 − ρ^c) times the service at a utilisation of ρ (M/M/c; exact for one and two
//! servers, near for more), so it falls as this does when ρ falls with the CPU that goes.

use serde::Serialize;
use walwright_figures::WaitClass;
use walwright_stats::Estimate;

/// Processors this busy make all that runs on them wait.
const FULL: f64 = 0.9;

/// Part of a cycle that is always left: a bound of a hundredfold says no more.
const LEAST_CYCLE: f64 = 0.01;

/// A relative change that is bounded: 0.06 is 6 %.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// What is to be expected at least.
    pub least: f64,
    /// What cannot be exceeded, with the interval that sampling leaves.
    pub most: Estimate,
}

impl Bound {
    /// The upper end of the interval, or the centre where there is none.
    pub fn high(&self) -> f64 {
        self.most.high().unwrap_or(self.most.center).max(self.most.center)
    }

    /// Whether a measured change lies between both ends.
    pub fn contains(&self, change: f64) -> bool {
        self.least <= change && change <= self.high()
    }
}

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

/// The bound on the gain of fixing one cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Rise of throughput; `None` in an open loop, whose rate is given.
    pub throughput: Option<Bound>,
    /// Fall of the mean latency.
    pub latency: Bound,
    /// What limits next.
    pub next: Option<Bottleneck>,
}

/// What a fix takes away from a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Relief {
    /// Seconds of a transaction that can disappear at most.
    pub time: Estimate,
    /// Seconds that will disappear at least. 0 where the time may move to another queue.
    pub least: f64,
    /// The classes the time is taken from, for what is left behind it.
    pub from: Vec<WaitClass>,
    /// CPU seconds of a transaction that disappear with it at most.
    pub cpu: f64,
    /// Share of the flushes that disappear with it, 0 to 1.
    pub flushes: f64,
    /// Share of the load generator's work that disappears with it, 0 to 1.
    pub messages: f64,
}

impl Relief {
    /// Relief of `time` a transaction that is spent in these classes.
    pub fn new(time: Estimate, from: impl Into<Vec<WaitClass>>) -> Self {
        Relief { time, least: 0.0, from: from.into(), cpu: 0.0, flushes: 0.0, messages: 0.0 }
    }

    /// States what will disappear at least, in seconds of a transaction.
    #[must_use]
    pub fn at_least(mut self, seconds: f64) -> Self {
        self.least = seconds.max(0.0);
        self
    }

    /// States the CPU that can disappear with it at most, in seconds of a transaction.
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
}

/// A resource that serves transactions and can be saturated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Resource {
    pub(crate) kind: ResourceKind,
    /// Seconds of it that a transaction takes.
    pub(crate) demand: f64,
    /// Seconds of it that transactions can have each second: the number of
    /// processors, 1 for a device that serves one at a time.
    pub(crate) capacity: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceKind {
    Processors,
    WalDevice,
    Generator,
}

impl ResourceKind {
    fn name(self) -> &'static str {
        match self {
            ResourceKind::Processors => "processors",
            ResourceKind::WalDevice => "WAL flushes, one at a time",
            ResourceKind::Generator => "load generator",
        }
    }
}

/// How the load was offered, and what serves it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// Mean latency in seconds.
    pub(crate) latency: f64,
    /// The rate at which a closed loop ran; `None` in an open loop.
    pub(crate) closed: Option<ClosedLoop>,
    pub(crate) resources: Vec<Resource>,
    /// Seconds of a transaction by class, what is outside the server as `None`.
    pub(crate) parts: Vec<(Option<WaitClass>, f64)>,
    /// Seconds of a transaction that processes were ready to run and waited for a
    /// processor; 0 where the kernel does not show it.
    pub(crate) run_delay: f64,
    /// Share of a flush by which it is longer than one of the idle storage, 0 to 1; 0 where
    /// either is not known.
    pub(crate) slowed_flush: f64,
}

/// A closed loop: each client begins again when its last transaction has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClosedLoop {
    pub(crate) clients: f64,
    /// Transactions a second, all clients.
    pub(crate) rate: f64,
}

impl ClosedLoop {
    /// Seconds from one transaction of a client to its next.
    fn cycle(self) -> f64 {
        self.clients / self.rate
    }

    /// Transactions a second once `w` seconds are gone from the cycle.
    fn rate_without(self, w: f64) -> f64 {
        let cycle = self.cycle();
        self.clients / (cycle - w.max(0.0)).max(LEAST_CYCLE * cycle)
    }
}

impl Model {
    pub(crate) fn gain(&self, relief: &Relief) -> Gain {
        let waits = self.largest_left(relief);
        let Some(closed) = self.closed else {
            let fall = |w: f64| (w / self.latency).clamp(0.0, 1.0 - LEAST_CYCLE);
            let latency = Bound { least: fall(relief.least), most: relief.time.clone().map(fall) };
            return Gain { throughput: None, latency, next: waits };
        };
        let queue = Queue::eased(self, closed, relief);
        let limits = self.limits(closed, relief, queue.as_ref());
        let cap = limits.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
        // Part of the rest of a transaction that full processors made longer for the sake of
        // what goes, at most.
        let crowding = queue.as_ref().filter(|queue| queue.full).map_or(0.0, |queue| queue.goes);
        let queueing = queue.as_ref().map_or(0.0, |queue| self.queueing(queue));
        let rate = |w: f64| closed.rate_without(w).min(cap);
        let without = |w: f64| {
            let rest = (self.latency - w).max(0.0);
            w + (rest * crowding).max(queueing.min(rest))
        };
        let rise = |w: f64| (rate(w) / closed.rate - 1.0).max(0.0);
        let think = (closed.cycle() - self.latency).max(0.0);
        let fall =
            |w: f64| (1.0 - (closed.clients / rate(w) - think) / self.latency).clamp(0.0, 1.0);
        let binding = limits
            .into_iter()
            .filter(|(_, rate)| *rate < closed.rate_without(without(relief.time.center)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(kind, rate)| Bottleneck {
                name: kind.name().to_owned(),
                limit: Some(rate),
                share: None,
            });
        Gain {
            throughput: Some(Bound {
                least: rise(relief.least),
                most: relief.time.clone().map(|w| rise(without(w))),
            }),
            latency: Bound {
                least: fall(relief.least),
                most: relief.time.clone().map(|w| fall(without(w))),
            },
            next: binding.or(waits),
        }
    }

    /// Seconds that the rest of a transaction waits less for processors that are not full
    /// once the relief's CPU is gone, at most.
    fn queueing(&self, queue: &Queue) -> f64 {
        let flushing = [WaitClass::Flush, WaitClass::FlushQueue].map(Some);
        let flushes = self.parts.iter().filter(|(class, _)| flushing.contains(class));
        let flushes: f64 = flushes.map(|(_, time)| time).sum();
        // What goes waited for its processor too, and that is in its own time.
        self.run_delay * (1.0 - queue.goes) * queue.eased
            + flushes * queue.shorter_flush(self.slowed_flush)
    }

    /// Transactions a second at which each resource is saturated once the relief is there.
    fn limits(
        &self,
        closed: ClosedLoop,
        relief: &Relief,
        queue: Option<&Queue>,
    ) -> Vec<(ResourceKind, f64)> {
        let shorter = queue.map_or(0.0, |queue| queue.shorter_flush(self.slowed_flush));
        self.resources
            .iter()
            .filter_map(|resource| {
                let left = match resource.kind {
                    ResourceKind::Processors => resource.demand - relief.cpu,
                    ResourceKind::WalDevice => {
                        resource.demand * (1.0 - relief.flushes) * (1.0 - shorter)
                    }
                    ResourceKind::Generator => resource.demand * (1.0 - relief.messages),
                };
                // What was reached can be reached, whatever the counters round to.
                (left > 0.0).then(|| (resource.kind, (resource.capacity / left).max(closed.rate)))
            })
            .collect()
    }

    /// The largest part of the latency once the relief is taken from its classes in proportion.
    fn largest_left(&self, relief: &Relief) -> Option<Bottleneck> {
        let of = |class: &Option<WaitClass>| class.is_some_and(|c| relief.from.contains(&c));
        let relieved: f64 = self.parts.iter().filter(|(c, _)| of(c)).map(|(_, t)| t).sum();
        let kept = match relieved > 0.0 {
            true => (1.0 - relief.time.center / relieved).clamp(0.0, 1.0),
            false => 1.0,
        };
        let left: Vec<(Option<WaitClass>, f64)> = self
            .parts
            .iter()
            .map(|(class, time)| (*class, if of(class) { kept * time } else { time.max(0.0) }))
            .collect();
        let whole: f64 = left.iter().map(|(_, time)| time).sum();
        let (class, time) = left.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (time > 0.0).then(|| Bottleneck {
            name: class.map_or("outside the server", WaitClass::label).to_owned(),
            limit: None,
            share: Some(time / whole),
        })
    }
}

/// The queue for processors once a relief's CPU is gone.
struct Queue {
    /// Whether the processors were full before.
    full: bool,
    /// Share of the CPU that goes, 0 to 1.
    goes: f64,
    /// Share of the wait that goes with it, 0 to 1.
    eased: f64,
    /// Share of the time in which all processors were busy before.
    all_busy: f64,
}

impl Queue {
    fn eased(model: &Model, closed: ClosedLoop, relief: &Relief) -> Option<Queue> {
        let all = |r: &&Resource| r.kind == ResourceKind::Processors && r.demand > 0.0;
        let r = model.resources.iter().find(all)?;
        let goes = (relief.cpu / r.demand).min(1.0);
        let all_busy = |utilisation: f64| utilisation.min(FULL).powf(r.capacity);
        let wait = |utilisation: f64| all_busy(utilisation) / (1.0 - all_busy(utilisation));
        let before = r.demand * closed.rate / r.capacity;
        let eased = 1.0 - wait(before * (1.0 - goes)) / wait(before);
        Some(Queue { full: before >= FULL, goes, eased, all_busy: all_busy(before) })
    }

    /// Share of a flush that goes: one that ends waits for a processor when all are busy.
    fn shorter_flush(&self, slowed: f64) -> f64 {
        slowed * self.all_busy * self.eased
    }
}

#[cfg(test)]
mod tests {
    use walwright_stats::{Confidence, Method};

    use super::*;

    fn estimate(center: f64, half: f64) -> Estimate {
        Estimate::symmetric(center, half, Confidence::P95, Method::BlockBootstrap)
    }

    /// E1: the diary's own numbers, 9 clients, 7.38 ms, 0.435 ms of flushes.
    fn diary(resources: Vec<Resource>) -> Model {
        Model {
            latency: 7.38e-3,
            closed: Some(ClosedLoop { clients: 9.0, rate: 9.0 / 7.38e-3 }),
            resources,
            parts: vec![
                (Some(WaitClass::Cpu), 1.0e-3),
                (Some(WaitClass::Flush), 0.435e-3),
                (Some(WaitClass::Client), 4.0e-3),
                (None, 1.945e-3),
            ],
            run_delay: 0.0,
            slowed_flush: 0.0,
        }
    }

    #[test]
    fn free_flushes_could_gain_six_percent_in_the_diary() {
        let relief = Relief::new(estimate(0.435e-3, 0.05e-3), [WaitClass::Flush]).and_flushes(1.0);
        let gain = diary(Vec::new()).gain(&relief);
        let throughput = gain.throughput.unwrap();
        assert!((throughput.most.center - 0.0626).abs() < 0.001, "{throughput:?}");
        assert!((gain.latency.most.center - 0.0589).abs() < 0.001);
        assert!(throughput.contains(0.02) && !throughput.contains(0.2));
        assert_eq!(gain.next.unwrap().name, "client");
    }

    #[test]
    fn a_saturated_resource_caps_the_gain_and_is_named() {
        let busy = Resource { kind: ResourceKind::Processors, demand: 1.6e-3, capacity: 2.0 };
        let relief = Relief::new(estimate(3.0e-3, 0.1e-3), [WaitClass::Client]);
        let gain = diary(vec![busy]).gain(&relief);
        // 2 processors over 1.6 ms allow 1,250 a second; 1,219.5 are done.
        let next = gain.next.unwrap();
        assert_eq!((next.name.as_str(), next.limit), ("processors", Some(1_250.0)));
        assert!((gain.throughput.unwrap().most.center - 0.025).abs() < 1e-6);
        // CPU that goes with it raises the cap.
        let gain = diary(vec![busy]).gain(&relief.and_cpu(0.6e-3));
        assert!(gain.throughput.unwrap().most.center > 0.6);
    }

    #[test]
    fn work_that_goes_shortens_the_queue_for_a_processor() {
        // 1.2 ms of CPU at 1,219.5 a second keep 73 % of two processors busy.
        let busy = Resource { kind: ResourceKind::Processors, demand: 1.2e-3, capacity: 2.0 };
        let relief = Relief::new(estimate(0.4e-3, 0.0), [WaitClass::Cpu]).and_cpu(0.3e-3);
        let rise = |model: &Model| model.gain(&relief).throughput.unwrap().most.center;
        let free = diary(vec![busy]);
        assert!((rise(&free) - 0.4 / 6.98).abs() < 1e-6);
        // At 55 % the queue is 0.37 times as long, for the three quarters that stay.
        let queued = Model { run_delay: 2.0e-3, ..free };
        let shorter = 2.0e-3 * 0.75 * (1.0 - (0.301 / 0.699) / (0.535 / 0.465));
        assert!((rise(&queued) - ((7.38 / (6.98 - 1e3 * shorter)) - 1.0)).abs() < 2e-3);
        // Half of the flushes' 0.435 ms is not the device's.
        let slowed = Model { slowed_flush: 0.5, ..queued };
        let shorter = shorter + 0.535 * 0.5 * 0.435e-3 * (1.0 - (0.301 / 0.699) / (0.535 / 0.465));
        assert!((rise(&slowed) - ((7.38 / (6.98 - 1e3 * shorter)) - 1.0)).abs() < 2e-3);
    }

    #[test]
    fn flushes_that_go_free_their_device() {
        let device = Resource { kind: ResourceKind::WalDevice, demand: 0.8e-3, capacity: 1.0 };
        let relief = Relief::new(estimate(4.0e-3, 0.1e-3), [WaitClass::FlushQueue]);
        let stuck = diary(vec![device]).gain(&relief);
        assert!(stuck.throughput.unwrap().most.center < 0.03);
        let freed = diary(vec![device]).gain(&relief.and_flushes(0.9));
        assert!(freed.throughput.unwrap().most.center > 1.0);
    }

    #[test]
    fn an_open_loop_gains_latency_alone() {
        let open = Model { closed: None, ..diary(Vec::new()) };
        let gain = open.gain(&Relief::new(estimate(3.69e-3, 0.0), [WaitClass::Client]));
        assert_eq!(gain.throughput, None);
        assert!((gain.latency.most.center - 0.5).abs() < 1e-9);
    }

    #[test]
    fn think_time_is_no_latency_to_win() {
        let mut thinking = diary(Vec::new());
        thinking.closed = Some(ClosedLoop { clients: 9.0, rate: 900.0 });
        let gain = thinking.gain(&Relief::new(estimate(3.69e-3, 0.0), [WaitClass::Client]));
        // The cycle is 10 ms: 10 / 6.31.
        assert!((gain.throughput.unwrap().most.center - 0.5848).abs() < 1e-3);
        assert!((gain.latency.most.center - 0.5).abs() < 1e-9);
    }
}

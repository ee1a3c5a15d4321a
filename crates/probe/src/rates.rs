//! How often a probe looks, and what that may cost.

use std::time::Duration;

/// How often to look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Between readings of counters and sessions, of the server and of the host.
    pub counters: Duration,
    /// Between readings of statements.
    pub statements: Duration,
    /// Between readings of tables and indexes, and of other processes.
    pub tables: Duration,
    /// Between ticks of wait events.
    pub waits: Duration,
    /// Processors that all readings together may take, of the server and of this machine; those
    /// that would take more are taken less often. `None`: about 1 % of the server's machine.
    pub at_most: Option<f64>,
}

impl Default for Rates {
    /// Counters and statements each second, tables each five, wait events ten times a second.
    fn default() -> Self {
        Rates {
            counters: Duration::from_secs(1),
            statements: Duration::from_secs(1),
            tables: Duration::from_secs(5),
            waits: Duration::from_millis(100),
            at_most: None,
        }
    }
}

impl Rates {
    /// The shares of a machine that readings may take (`*_BUDGET`), all together.
    const ALL_BUDGETS: f64 = 0.0105;

    /// For days on end: counters each ten seconds, statements and tables each minute, wait
    /// events each second, at 0.2 % of a processor and no more: what is seen has to be kept and
    /// judged for another 0.1 %.
    pub fn watching() -> Rates {
        Rates {
            counters: Duration::from_secs(10),
            statements: Duration::from_secs(60),
            tables: Duration::from_secs(60),
            waits: Duration::from_secs(1),
            at_most: Some(0.002),
        }
    }

    /// What budgets, which are shares of a machine, are shares of where the machine has so many
    /// processors.
    pub(crate) fn budget_processors(&self, processors: f64) -> f64 {
        self.at_most.map_or(processors, |most| processors.min(most / Rates::ALL_BUDGETS))
    }

    /// The time that the first reading of tables and indexes, by far the dearest, is paid for
    /// over.
    pub(crate) fn first_paid_over(&self) -> Duration {
        12 * self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watching_takes_no_more_of_a_large_machine_than_of_a_small_one() {
        let rates = Rates::watching();
        let taken = rates.budget_processors(64.0) * Rates::ALL_BUDGETS;
        assert!((taken - 0.002).abs() < 1e-9, "{taken}");
        assert_eq!(Rates::default().budget_processors(64.0), 64.0);
        assert_eq!(Rates::default().first_paid_over(), Duration::from_secs(60));
    }
}

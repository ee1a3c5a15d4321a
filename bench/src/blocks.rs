//! Blocks: every contender once, in random order.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{SeedableRng, random};
use serde_json::{Value, json};
use walwright_stats::{Confidence, Estimate, median, paired_effect, precision_of_mean};

use crate::Measured;

/// One side of a comparison.
pub struct Contender<'a> {
    /// For the table.
    pub name: String,
    run: Box<dyn Fn() -> anyhow::Result<Measured> + 'a>,
    results: Vec<Measured>,
}

/// Contenders that take turns.
pub struct Blocks<'a> {
    contenders: Vec<Contender<'a>>,
}

/// How one contender compares with another: the geometric mean over blocks, with its
/// 95 % interval.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// Mean ratio.
    pub center: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({ "ratio": self.center, "low": self.low, "high": self.high })
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.center, self.low, self.high)
    }
}

impl<'a> Blocks<'a> {
    /// No contenders yet.
    pub fn new() -> Self {
        Blocks { contenders: Vec::new() }
    }

    /// Adds a contender; its number.
    pub fn add(&mut self, name: &str, run: impl Fn() -> anyhow::Result<Measured> + 'a) -> usize {
        let contender =
            Contender { name: name.to_owned(), run: Box::new(run), results: Vec::new() };
        self.contenders.push(contender);
        self.contenders.len() - 1
    }

    /// Runs the blocks. Says on standard error where it is.
    ///
    /// # Errors
    /// The first contender that fails.
    pub fn run(&mut self, blocks: usize) -> anyhow::Result<()> {
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        let mut rng = StdRng::seed_from_u64(random());
        let begun = Instant::now();
        for block in 0..blocks {
            order.shuffle(&mut rng);
            for number in &order {
                let contender = &mut self.contenders[*number];
                let measured = (contender.run)()?;
                eprintln!(
                    "[{:4.0} s] block {} of {blocks}: {}: {:.0}/s, {:.1} us of CPU",
                    begun.elapsed().as_secs_f64(),
                    block + 1,
                    contender.name,
                    measured.throughput,
                    measured.cpu_us
                );
                contender.results.push(measured);
            }
        }
        Ok(())
    }

    /// Median of a figure of a contender.
    pub fn median(&self, contender: usize, figure: impl Fn(&Measured) -> f64) -> f64 {
        let values: Vec<f64> = self.contenders[contender].results.iter().map(figure).collect();
        median(&values).unwrap_or(f64::NAN)
    }

    /// Mean of a figure of a contender over the blocks, with its 95 % interval where there are
    /// several; `None` before the first.
    pub fn mean(&self, contender: usize, figure: impl Fn(&Measured) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.contenders[contender].results.iter().map(figure).collect();
        precision_of_mean(&values, Confidence::P95)
    }

    /// How `contender` compares with `base` in a figure.
    ///
    /// # Errors
    /// When a figure is not positive.
    pub fn ratio(
        &self,
        contender: usize,
        base: usize,
        figure: impl Fn(&Measured) -> f64,
    ) -> anyhow::Result<Ratio> {
        let of = |number: usize| -> Vec<f64> {
            self.contenders[number].results.iter().map(&figure).collect()
        };
        let effect = paired_effect(&of(base), &of(contender), Confidence::P95, 0)?.change;
        let (low, high) = effect.interval.map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
        Ok(Ratio { center: 1.0 + effect.center, low: 1.0 + low, high: 1.0 + high })
    }

    /// Name of a contender.
    pub fn name(&self, contender: usize) -> &str {
        &self.contenders[contender].name
    }
}

impl Default for Blocks<'_> {
    fn default() -> Self {
        Self::new()
    }
}

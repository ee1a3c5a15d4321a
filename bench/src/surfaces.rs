//! Simulated servers: surfaces whose truth is known, seen through noise and drift.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use walwright_search::{Configuration, Dimension, Domain, Range, Space};

/// A surface: the logarithm of throughput over configurations.
pub struct Surface {
    /// What is special about it.
    pub name: &'static str,
    /// Its dimensions.
    pub space: Space,
    /// What a search begins with.
    pub baseline: Configuration,
    /// The highest score there is.
    pub best: f64,
    /// Whether nothing can be gained.
    pub is_flat: bool,
    truth: fn(&Position) -> Option<f64>,
}

/// A configuration as numbers between 0 and 1.
pub struct Position<'a> {
    space: &'a Space,
    configuration: &'a Configuration,
}

impl Position<'_> {
    /// Where a dimension stands; special values outside its range stand at -1.
    fn at(&self, index: usize) -> f64 {
        let dimension = &self.space.dimensions[index];
        dimension.position(&self.configuration[&dimension.name]).unwrap_or(-1.0)
    }

    /// The word a dimension has.
    fn is(&self, index: usize, word: &str) -> bool {
        self.configuration[&self.space.dimensions[index].name] == word
    }
}

impl Surface {
    /// The true score of a configuration; `None` where the server would not run.
    pub fn truth(&self, configuration: &Configuration) -> Option<f64> {
        (self.truth)(&Position { space: &self.space, configuration })
    }
}

fn number(index: usize, home: f64, special: &[f64]) -> Dimension {
    Dimension {
        name: format!("parameter_{index:02}"),
        group: format!("layer {}", index % 5),
        domain: Domain::Range(Range {
            low: 0.0,
            high: 1000.0,
            log: false,
            whole: true,
            unit: None,
            special: special.to_vec(),
        }),
        home: home.to_string(),
        trial: None,
        restart: index.is_multiple_of(4),
    }
}

fn words(index: usize, words: &[&str]) -> Dimension {
    Dimension {
        domain: Domain::Words(words.iter().map(|word| (*word).to_owned()).collect()),
        home: words[0].to_owned(),
        ..number(index, 0.0, &[])
    }
}

fn surface(
    name: &'static str,
    dimensions: Vec<Dimension>,
    best: f64,
    truth: fn(&Position) -> Option<f64>,
) -> Surface {
    let space = Space { dimensions };
    Surface { name, baseline: space.home(), space, best, is_flat: false, truth }
}

fn numbers(count: usize) -> Vec<Dimension> {
    (0..count).map(|index| number(index, 200.0, &[])).collect()
}

/// A hill of this height with its top at `top`, nothing beyond half the range from it.
fn hill(x: f64, top: f64, height: f64) -> f64 {
    height * (1.0 - (2.0 * (x - top)).powi(2)).max(0.0)
}

/// All surfaces.
pub fn surfaces() -> Vec<Surface> {
    let flat = Surface { is_flat: true, ..surface("flat", numbers(12), 0.0, |_| Some(0.0)) };
    let mut mis_set = surface("mis-set", numbers(14), 0.0, |p| {
        let harm = |index: usize, size: f64| -size * (p.at(index) - 0.2).max(0.0);
        Some(harm(1, 1.5) + harm(4, 0.6) + harm(9, 0.4))
    });
    for index in [1, 4, 9] {
        mis_set.baseline.insert(mis_set.space.dimensions[index].name.clone(), "950".to_owned());
    }
    vec![
        surface("few of many", numbers(18), 0.55, |p| {
            Some(hill(p.at(2), 0.75, 0.25) + hill(p.at(7), 0.6, 0.2) + 0.1 * p.at(11))
        }),
        surface("interaction", numbers(8), 0.4, |p| {
            let both = p.at(1).min(p.at(3)).max(0.0);
            Some(0.4 * both - 0.2 * (p.at(1) - p.at(3)).abs())
        }),
        surface("cliff", numbers(8), 0.4, |p| {
            // More of it is better until memory is used up; far beyond, nothing starts.
            match p.at(0) {
                x if x > 0.95 => None,
                x if x > 0.8 => Some(0.4 - 0.7),
                x => Some(0.5 * x),
            }
        }),
        surface(
            "special values",
            {
                let mut dimensions = numbers(8);
                dimensions[2] = number(2, 600.0, &[0.0]);
                dimensions[5] = words(5, &["off", "pglz", "lz4", "zstd"]);
                dimensions
            },
            0.35,
            |p| {
                let delay = if p.at(2) == 0.0 { 0.2 } else { 0.1 * (1.0 - p.at(2)) - 0.1 };
                let word = if p.is(5, "lz4") {
                    0.15
                } else if p.is(5, "pglz") {
                    -0.1
                } else {
                    0.0
                };
                Some(delay + word)
            },
        ),
        mis_set,
        flat,
    ]
}

/// What a measurement of a surface shows: the truth, noise, and a drift that wanders.
pub struct Bench {
    rng: StdRng,
    sigma: f64,
    drift: f64,
}

/// Step of the drift from run to run, in units of the noise.
const WANDER: f64 = 0.2;

impl Bench {
    /// A bench whose single measurement has the standard deviation `sigma`.
    pub fn new(sigma: f64, seed: u64) -> Bench {
        Bench { rng: StdRng::seed_from_u64(seed), sigma, drift: 0.0 }
    }

    /// One measurement; `None` for a crash.
    pub fn measure(&mut self, surface: &Surface, configuration: &Configuration) -> Option<f64> {
        self.drift += WANDER * self.sigma * self.normal();
        let seen = self.drift + self.sigma * self.normal();
        surface.truth(configuration).map(|truth| truth + seen)
    }

    /// A random number of the standard normal distribution (Box & Muller).
    fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.rng.random::<f64>(), self.rng.random::<f64>());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

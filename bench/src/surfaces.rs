//! Simulated servers: surfaces whose truth is known, seen through noise and drift.
//!
//! A kind of surface has a shape; where its hills, edges and special values lie, how high
//! they are and in which dimensions, is drawn from a seed. Two families of seeds keep the
//! surfaces on which the constants of a search are chosen apart from those that judge it.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use walwright_search::{Configuration, Dimension, Domain, Range, Space};

/// Where a surface and its noise come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// To choose constants and rules by.
    Training,
    /// Never looked at while choosing: the figures to quote.
    HeldOut,
}

impl Family {
    /// A seed of its own for everything that is drawn, by what it is drawn for.
    pub fn seed(self, kind: Kind, number: u64, what: u64) -> u64 {
        let family: u64 = match self {
            Family::Training => 0x7EA1,
            Family::HeldOut => 0x4E1D,
        };
        // Multiplying by an odd constant with scattered bits keeps neighbours apart.
        [kind as u64, number, what].into_iter().fold(family, |seed, next| {
            (seed ^ next).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        })
    }
}

/// The shape of a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Three or four dimensions of many matter.
    FewOfMany,
    /// Two dimensions help only together.
    Interaction,
    /// More helps up to an edge; beyond it performance falls, further out nothing starts.
    Cliff,
    /// A special value and a word are what helps.
    SpecialValues,
    /// The defaults are best, and the baseline is at odds with them.
    MisSet,
    /// Nothing can be gained.
    Flat,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::FewOfMany,
        Kind::Interaction,
        Kind::Cliff,
        Kind::SpecialValues,
        Kind::MisSet,
        Kind::Flat,
    ];

    /// Those whose names hold one of these parts; all where none is named.
    ///
    /// # Errors
    /// When there is none of a name.
    pub fn chosen(names: &[String]) -> anyhow::Result<Vec<Kind>> {
        for part in names {
            if !Kind::ALL.iter().any(|kind| kind.name().contains(part)) {
                let known = Kind::ALL.map(Kind::name).join(", ");
                anyhow::bail!("no kind of surface is called {part}: there are {known}");
            }
        }
        let is_named = |kind: &Kind| names.iter().any(|part| kind.name().contains(part));
        Ok(Kind::ALL.into_iter().filter(|kind| names.is_empty() || is_named(kind)).collect())
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FewOfMany => "few of many",
            Kind::Interaction => "interaction",
            Kind::Cliff => "cliff",
            Kind::SpecialValues => "special values",
            Kind::MisSet => "mis-set",
            Kind::Flat => "flat",
        }
    }
}

/// What one or two dimensions contribute. Terms of one surface share no dimension, so
/// that the best of the sum is the sum of the best.
enum Term {
    /// A hill with its top at `top`, nothing farther than `reach` from it.
    Hill { of: usize, top: f64, reach: f64, height: f64 },
    /// A straight line from nothing to this height.
    Slope { of: usize, height: f64 },
    /// The lesser of two counts, and a difference between them costs.
    Both { of: [usize; 2], height: f64, apart: f64 },
    /// More is better up to an edge, a loss beyond it, and a crash beyond the end.
    Cliff { of: usize, rise: f64, edge: f64, fall: f64, end: f64 },
    /// Zero is worth this much; of other values less is better, at most 0.
    Zero { of: usize, worth: f64, cost: f64 },
    /// A good word and a bad one.
    Words { of: usize, good: (&'static str, f64), bad: (&'static str, f64) },
    /// What lies above the default costs this much for the whole range.
    Harm { of: usize, size: f64 },
}

impl Term {
    /// Its part of the score; `None` where the server would not run.
    fn value(&self, at: &Position) -> Option<f64> {
        Some(match *self {
            Term::Hill { of, top, reach, height } => {
                height * (1.0 - ((at.position(of) - top) / reach).powi(2)).max(0.0)
            }
            Term::Slope { of, height } => height * at.position(of).max(0.0),
            Term::Both { of: [a, b], height, apart } => {
                let (a, b) = (at.position(a).max(0.0), at.position(b).max(0.0));
                height * a.min(b) - apart * (a - b).abs()
            }
            Term::Cliff { of, rise, edge, fall, end } => match at.position(of) {
                x if x > end => return None,
                x if x > edge => rise * edge - fall,
                x => rise * x,
            },
            Term::Zero { of, worth, cost } => match at.position(of) {
                x if x <= 0.0 => worth,
                x => -cost * x,
            },
            Term::Words { of, good, bad } => match at.word(of) {
                word if word == good.0 => good.1,
                word if word == bad.0 => -bad.1,
                _ => 0.0,
            },
            Term::Harm { of, size } => -size * (at.position(of) - HOME).max(0.0),
        })
    }

    /// The highest it can be.
    fn best(&self) -> f64 {
        match *self {
            Term::Hill { height, .. } | Term::Slope { height, .. } | Term::Both { height, .. } => {
                height
            }
            Term::Cliff { rise, edge, .. } => rise * edge,
            Term::Zero { worth, .. } => worth,
            Term::Words { good, .. } => good.1,
            Term::Harm { .. } => 0.0,
        }
    }
}

/// A surface: the logarithm of throughput over configurations.
pub struct Surface {
    /// Its shape.
    pub kind: Kind,
    /// Its dimensions.
    pub space: Space,
    /// What a search begins with.
    pub baseline: Configuration,
    /// The highest score there is.
    pub best: f64,
    terms: Vec<Term>,
}

/// A configuration as numbers between 0 and 1.
struct Position<'a> {
    space: &'a Space,
    configuration: &'a Configuration,
}

impl Position<'_> {
    /// Where a dimension stands.
    fn position(&self, index: usize) -> f64 {
        let dimension = &self.space.dimensions[index];
        dimension.position(&self.configuration[&dimension.name]).unwrap_or(-1.0)
    }

    /// The word a dimension has.
    fn word(&self, index: usize) -> &str {
        &self.configuration[&self.space.dimensions[index].name]
    }
}

/// Where the default of a number stands.
const HOME: f64 = 0.2;

impl Surface {
    /// The surface of a kind with this number.
    pub fn new(family: Family, kind: Kind, number: u64) -> Surface {
        let mut rng = StdRng::seed_from_u64(family.seed(kind, number, 0));
        let count = match kind {
            Kind::FewOfMany => rng.random_range(14..=24),
            Kind::MisSet | Kind::Flat => rng.random_range(8..=16),
            _ => rng.random_range(6..=10),
        };
        let mut dimensions: Vec<Dimension> =
            (0..count).map(|index| dimension(index, &[])).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.shuffle(&mut rng);
        let mut any = order.into_iter();
        let mut next = || any.next().unwrap_or(0);
        let mut within = |low: f64, high: f64| low + (high - low) * rng.random::<f64>();
        let mut baseline = Configuration::new();
        let terms = match kind {
            Kind::FewOfMany => {
                let hills = 2 + usize::from(within(0.0, 1.0) < 0.5);
                let mut terms: Vec<Term> = (0..hills)
                    .map(|_| Term::Hill {
                        of: next(),
                        top: within(0.5, 0.95),
                        reach: within(0.35, 0.6),
                        height: within(0.1, 0.3),
                    })
                    .collect();
                terms.push(Term::Slope { of: next(), height: within(0.05, 0.15) });
                terms
            }
            Kind::Interaction => {
                let height = within(0.25, 0.5);
                vec![Term::Both {
                    of: [next(), next()],
                    height,
                    apart: height * within(0.25, 0.75),
                }]
            }
            Kind::Cliff => {
                let edge = within(0.5, 0.85);
                vec![Term::Cliff {
                    of: next(),
                    rise: within(0.4, 0.7),
                    edge,
                    fall: within(0.3, 0.9),
                    end: edge + 0.75 * (1.0 - edge),
                }]
            }
            Kind::SpecialValues => {
                let (zero, words) = (next(), next());
                dimensions[zero] = Dimension { home: "600".to_owned(), ..dimension(zero, &[0.0]) };
                dimensions[words] = choice(words);
                let mut good = ["pglz", "lz4", "zstd"];
                let place = (within(0.0, 3.0) as usize).min(2);
                good.swap(0, place);
                vec![
                    Term::Zero { of: zero, worth: within(0.1, 0.25), cost: within(0.0, 0.2) },
                    Term::Words {
                        of: words,
                        good: (good[0], within(0.08, 0.25)),
                        bad: (good[1], within(0.0, 0.2)),
                    },
                ]
            }
            Kind::MisSet => (0..3)
                .map(|_| {
                    let of = next();
                    baseline.insert(dimensions[of].name.clone(), "950".to_owned());
                    Term::Harm { of, size: within(0.3, 1.5) }
                })
                .collect(),
            Kind::Flat => Vec::new(),
        };
        let space = Space { dimensions };
        let mut whole = space.home();
        whole.extend(baseline);
        let best = terms.iter().map(Term::best).sum();
        Surface { kind, baseline: whole, space, best, terms }
    }

    /// The true score of a configuration; `None` where the server would not run.
    pub fn truth(&self, configuration: &Configuration) -> Option<f64> {
        let at = Position { space: &self.space, configuration };
        self.terms.iter().map(|term| term.value(&at)).sum()
    }
}

fn dimension(index: usize, special: &[f64]) -> Dimension {
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
        home: (HOME * 1000.0).to_string(),
        trial: None,
        restart: index.is_multiple_of(4),
    }
}

fn choice(index: usize) -> Dimension {
    Dimension {
        domain: Domain::Words(["off", "pglz", "lz4", "zstd"].map(str::to_owned).to_vec()),
        home: "off".to_owned(),
        ..dimension(index, &[])
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_scores_above_the_best_and_families_share_no_surface() {
        for kind in Kind::ALL {
            let of = |family| Surface::new(family, kind, 3);
            let (surface, other) = (of(Family::Training), of(Family::HeldOut));
            let mut rng = StdRng::seed_from_u64(1);

            let scores: Vec<f64> =
                (0..2000).filter_map(|_| surface.truth(&surface.space.sample(&mut rng))).collect();
            let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(highest <= surface.best + 1e-12, "{}: {highest}", kind.name());
            assert!(highest >= 0.6 * surface.best, "{}: {highest}", kind.name());
            if kind != Kind::Flat {
                let (a, b) = (surface.truth(&surface.baseline), other.truth(&other.baseline));
                assert_ne!((surface.best, a), (other.best, b));
                assert!(a.unwrap() < surface.best - 0.05);
            }
        }
    }
}

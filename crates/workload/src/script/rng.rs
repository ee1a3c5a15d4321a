//! The generator behind `random()` and its relatives.

/// xoroshiro128**, seeded through splitmix64: the generator of PostgreSQL
/// (`src/common/pg_prng.c`), so that a script draws the same numbers here as
/// in pgbench from the same state.
///
/// It is two words and `Copy`-cheap to clone: a driver that retries a failed
/// transaction keeps a clone from before the first try and restores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    s0: u64,
    s1: u64,
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let (s0, s1) = (next(), next());
        // The all-zero state is a fixed point of the generator.
        if s0 == 0 && s1 == 0 {
            return Rng { s0: 0x5851_F42D_4C95_7F2D, s1: 0x1405_7B7E_F767_814F };
        }
        Rng { s0, s1 }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s0 = self.s0;
        let sx = self.s1 ^ s0;
        let result = s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        result
    }

    /// A uniform integer in `[low, high]`; `low` when the range is empty.
    ///
    /// Masks to the smallest power of two and rejects, as PostgreSQL does, so
    /// it is exactly uniform.
    #[inline]
    pub fn range_u64(&mut self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        let range = high - low;
        let shift = range.leading_zeros();
        loop {
            let value = self.next_u64() >> shift;
            if value <= range {
                return low + value;
            }
        }
    }

    /// A uniform double in `[0, 1)` with 52 random bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> (64 - 52)) as f64 * (1.0 / (1u64 << 52) as f64)
    }

    /// A standard normal deviate (Box-Muller, as `pg_prng_double_normal`).
    pub fn next_normal(&mut self) -> f64 {
        // 1 - [0, 1) is (0, 1], whose logarithm is finite.
        let u1 = 1.0 - self.next_f64();
        let u2 = 1.0 - self.next_f64();
        (-2.0 * u1.ln()).sqrt() * (2.0 * std::f64::consts::PI * u2).sin()
    }
}

/// The generators of a run, all derived from one seed in pgbench's order: one
/// per client, then `default_seed`, then what else the run needs.
///
/// With the same seed, number of clients and script, a client draws the same
/// numbers as under `pgbench --random-seed`.
#[derive(Debug, Clone)]
pub struct RunSeeds {
    seed: u64,
    clients: Vec<Rng>,
    default_seed: i64,
    base: Rng,
}

impl RunSeeds {
    /// Derives the generators of `clients` clients.
    pub fn new(seed: u64, clients: usize) -> Self {
        let mut base = Rng::from_seed(seed);
        let clients = (0..clients).map(|_| Rng::from_seed(base.next_u64())).collect();
        let default_seed = base.next_u64() as i64;
        RunSeeds { seed, clients, default_seed, base }
    }

    /// The generator of the random functions of one client.
    pub fn client(&self, client: usize) -> Option<&Rng> {
        self.clients.get(client)
    }

    /// The seed that everything is derived from (`:random_seed`).
    pub fn random_seed(&self) -> u64 {
        self.seed
    }

    /// `:default_seed`.
    pub fn default_seed(&self) -> i64 {
        self.default_seed
    }

    /// A further generator, different at each call: for choosing scripts, for
    /// the gaps of an open loop.
    pub fn another(&mut self) -> Rng {
        Rng::from_seed(self.base.next_u64())
    }
}

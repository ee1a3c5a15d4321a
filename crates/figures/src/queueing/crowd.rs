//! How many of the other clients are at a station.

/// Weights below this part of the largest change no figure.
const NEGLIGIBLE: f64 = 1e-12;

/// Of more clients than this the mean is all that shows: they scatter by less than a hundredth
/// of it, and summing over them would take for ever.
const MANY: f64 = 100_000.0;

/// The other clients of a closed loop, each at a station with the same chance and on its own:
/// so many of them are there with the chances of a binomial distribution. It is exact where
/// they do not hinder each other elsewhere, and what approximate mean value analysis assumes
/// (Schweitzer's: the others are as a client of a system of their number leaves them).
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// Other clients.
    pub(super) others: f64,
    /// Chance that one of them is at the station, 0 to 1.
    pub(super) chance: f64,
}

impl Crowd {
    /// Of so many clients, each of which spends this part of its time at the station.
    pub(super) fn new(clients: f64, chance: f64) -> Crowd {
        Crowd { others: (clients - 1.0).max(0.0), chance: chance.clamp(0.0, 1.0) }
    }

    /// Chance that any other is there.
    pub(super) fn any(self) -> f64 {
        1.0 - (1.0 - self.chance).powf(self.others)
    }

    /// By how much work takes longer, as a part of itself, when it shares `servers` with
    /// whoever is there and with `background` more: processor sharing, so
    /// E[max(1, (1 + others + background) / servers)] − 1.
    pub(super) fn stretch(self, servers: f64, background: f64) -> f64 {
        // A mean number of clients need not be whole.
        let (low, part) = (self.others.floor(), self.others.fract());
        let of = |others: f64| {
            expected(others, self.chance, |n| ((1.0 + n + background) / servers - 1.0).max(0.0))
        };
        if part > 0.0 { of(low) * (1.0 - part) + of(low + 1.0) * part } else { of(low) }
    }
}

/// The mean of a function of a binomial number, summed outwards from its likeliest value.
fn expected(n: f64, chance: f64, of: impl Fn(f64) -> f64) -> f64 {
    if chance <= 0.0 || n <= 0.0 {
        return of(0.0);
    }
    if chance >= 1.0 {
        return of(n);
    }
    if n > MANY {
        return of(n * chance);
    }
    let odds = chance / (1.0 - chance);
    let mode = ((n + 1.0) * chance).floor().min(n);
    let (mut weights, mut sum) = (1.0, of(mode));
    let (mut k, mut weight) = (mode, 1.0);
    while k < n && weight > NEGLIGIBLE {
        weight *= odds * (n - k) / (k + 1.0);
        k += 1.0;
        weights += weight;
        sum += weight * of(k);
    }
    (k, weight) = (mode, 1.0);
    while k > 0.0 && weight > NEGLIGIBLE {
        weight *= k / (odds * (n - k + 1.0));
        k -= 1.0;
        weights += weight;
        sum += weight * of(k);
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_where_there_are_as_many_servers_as_clients() {
        assert_eq!(Crowd::new(2.0, 0.7).stretch(2.0, 0.0), 0.0);
        assert!(Crowd::new(3.0, 0.7).stretch(2.0, 0.0) > 0.0);
    }

    #[test]
    fn one_server_is_shared_with_the_mean_number_of_others() {
        // The last as a damaged record may have it.
        for clients in [2.0, 17.0, 2_000.0, 4e9, 1e300] {
            let crowd = Crowd::new(clients, 0.3);
            assert!(
                (crowd.stretch(1.0, 0.0) / (0.3 * (clients - 1.0)) - 1.0).abs() < 1e-9,
                "{clients}"
            );
        }
    }

    #[test]
    fn a_crowd_shares_the_servers_evenly() {
        let crowd = Crowd::new(101.0, 1.0);
        assert!((crowd.stretch(4.0, 0.0) - (101.0 / 4.0 - 1.0)).abs() < 1e-9);
        assert_eq!(crowd.any(), 1.0);
    }

    #[test]
    fn a_part_of_a_client_lies_between_its_neighbours() {
        let [two, between, three] =
            [2.0, 2.5, 3.0].map(|clients| Crowd::new(clients, 0.5).stretch(1.0, 0.0));
        assert!(two < between && between < three, "{two} {between} {three}");
    }
}

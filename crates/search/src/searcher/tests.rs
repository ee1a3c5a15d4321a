use rand::RngExt;

use super::*;
use crate::random::generator;
use crate::{Dimension, Domain, Effect, Purpose, Range};

fn normal(rng: &mut impl RngExt) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

fn range(name: &str, home: &str, special: &[f64]) -> Dimension {
    Dimension {
        name: name.to_owned(),
        group: format!("group {}", name.len() % 3),
        domain: Domain::Range(Range {
            low: 0.0,
            high: 100.0,
            log: false,
            whole: true,
            unit: None,
            special: special.to_vec(),
        }),
        home: home.to_owned(),
        trial: None,
        restart: false,
    }
}

fn space() -> Space {
    let mut dimensions = vec![range("cache", "20", &[]), range("delay", "0", &[0.0])];
    dimensions.extend((0..6).map(|i| range(&format!("idle{i}"), "50", &[])));
    Space { dimensions }
}

fn number(configuration: &Configuration, name: &str) -> f64 {
    configuration[name].parse().unwrap()
}

/// More cache helps up to 80; any delay but 0 hurts.
fn truth(configuration: &Configuration) -> f64 {
    let cache = number(configuration, "cache").min(80.0) / 100.0;
    let delay = number(configuration, "delay");
    0.5 * cache - if delay == 0.0 { 0.0 } else { 0.3 + 0.01 * delay }
}

fn options(runs: u32, seed: u64) -> Options {
    Options { runs, seed, worth: 0.05, allowed_loss: None, starts: Vec::new() }
}

fn baseline(changes: &[(&str, &str)]) -> Configuration {
    space().configuration(changes.iter().copied()).unwrap()
}

/// Runs a search to its end, or for `most` more trials.
fn run(
    searcher: &mut Searcher,
    sigma: f64,
    most: usize,
    f: impl Fn(&Configuration) -> Option<f64>,
) {
    for _ in 0..most {
        let Some(ask) = searcher.ask() else { return };
        let mut rng = generator(searcher.options.seed ^ 77, u64::from(ask.trial));
        let outcome = match f(&ask.configuration) {
            Some(score) => Outcome::score(score + sigma * normal(&mut rng)),
            None => Outcome::Crashed,
        };
        searcher.tell(ask.trial, outcome).unwrap();
    }
}

fn concluded(mut searcher: Searcher, sigma: f64) -> Conclusion {
    run(&mut searcher, sigma, usize::MAX, |c| Some(truth(c)));
    assert!(searcher.trials().len() as u32 <= searcher.budget().runs);
    searcher.conclusion().unwrap().clone()
}

#[test]
fn it_finds_what_matters_and_keeps_little_else() {
    let mut gains = 0;
    for seed in 0..6 {
        let searcher = Searcher::new(space(), &space().home(), options(60, seed)).unwrap();
        let end = concluded(searcher, 0.02);
        gains += usize::from(end.is_proposed);
        assert_eq!(end.configuration["delay"], "0", "{end:#?}");
        for line in &end.lines {
            match line.standing {
                Standing::Proven => assert!(!line.without.is_modelled(), "{line:?}"),
                Standing::Likely => assert!(line.without.is_modelled(), "{line:?}"),
                _ => assert!(!line.without.is_loss(), "{line:?}"),
            }
        }
        if end.is_proposed {
            let better = truth(&end.configuration) - truth(&space().home());
            assert!(better > 0.15, "{better}");
            let changed = space().changes(&end.configuration, &space().home()).count();
            assert!(changed <= 3, "{changed}");
        }
    }
    assert!(gains >= 5, "{gains} of 6");
}

#[test]
fn only_ranges_without_special_values_can_have_an_edge() {
    let mut space = space();
    let words = Domain::Words(["off", "pglz", "lz4"].map(str::to_owned).to_vec());
    space.dimensions.insert(1, Dimension { domain: words, ..range("words", "off", &[]) });
    // The cache, three words, the delay and its mark, the idle ones.
    assert_eq!(space.features(&space.home()).len(), 12);
    assert_eq!(space.scales(), [0, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn an_edge_is_approached_and_not_crossed() {
    // More cache helps up to 63; beyond it the server swaps, further out it does not start.
    let cliff = |c: &Configuration| match number(c, "cache") {
        cache if cache > 90.0 => None,
        cache if cache > 63.0 => Some(0.004 * cache - 0.6),
        cache => Some(0.004 * cache),
    };
    let mut lost = Vec::new();
    for seed in 0..4 {
        let mut searcher = Searcher::new(space(), &space().home(), options(60, seed)).unwrap();
        run(&mut searcher, 0.05, usize::MAX, cliff);
        let end = searcher.conclusion().unwrap();
        lost.push(0.004 * 63.0 - cliff(&end.configuration).unwrap());
    }
    // A smooth process alone stays two to twelve steps before it.
    assert!(lost.iter().all(|lost| *lost < 0.005), "{lost:?}");
}

#[test]
fn a_quiet_opening_does_not_tell_lines_apart_that_later_noise_hides() {
    let faint = |c: &Configuration| Some(0.2 * truth(c));
    let told = (0..4).map(|seed| {
        let mut searcher = Searcher::new(space(), &space().home(), options(60, seed)).unwrap();
        let opening = searcher.budget().baseline as usize;
        run(&mut searcher, 0.02, opening, faint);
        run(&mut searcher, 0.1, usize::MAX, faint);
        searcher.lines.len()
    });
    // By the noise of the opening alone they are ten.
    let told: usize = told.sum();
    assert!(told < 6, "{told} lines of four searches have blocks of their own");
}

#[test]
fn a_mis_set_baseline_is_undone_and_the_harm_is_named() {
    let wrong = baseline(&[("delay", "60"), ("cache", "2"), ("idle0", "99")]);
    let mut options = options(60, 1);
    options.starts = vec![Start { name: "defaults".to_owned(), configuration: space().home() }];
    let end = concluded(Searcher::new(space(), &wrong, options).unwrap(), 0.02);
    assert!(end.is_proposed);
    assert!(truth(&end.configuration) >= truth(&space().home()) - 0.01);
    let delay = end.lines.iter().find(|line| line.name == "delay").unwrap();
    assert_eq!((delay.standing, &*delay.was, &*delay.value), (Standing::HarmUndone, "60", "0"));
    let harm = delay.harm.estimate().unwrap();
    assert!(harm.interval.unwrap().contains(f64::exp_m1(-0.9)), "{harm:?}");
    assert_eq!(end.lines[0].name, "delay", "largest first");
}

#[test]
fn on_a_flat_surface_it_says_so() {
    let mut proven = 0;
    for seed in 0..60 {
        let mut searcher = Searcher::new(space(), &space().home(), options(24, seed)).unwrap();
        run(&mut searcher, 0.05, usize::MAX, |_| Some(1.0));
        let end = searcher.conclusion().unwrap();
        proven += usize::from(end.gain.is_gain());
        let gain = end.gain.estimate().unwrap();
        let interval = gain.interval.unwrap();
        assert!(interval.low > -0.5 && interval.high < 0.5);
        if !end.is_proposed {
            assert_eq!(&end.configuration, searcher.baseline());
            assert!(interval.high <= 0.05, "{gain:?}");
        }
    }
    // What is not excluded is worth a confirmation, and no claim.
    assert!(proven <= 4, "{proven} of 60");
}

#[test]
fn a_search_read_back_goes_on_as_if_it_had_not_stopped() {
    let fresh = || Searcher::new(space(), &space().home(), options(40, 9)).unwrap();
    let mut whole = fresh();
    run(&mut whole, 0.02, usize::MAX, |c| Some(truth(c)));
    let mut parts = fresh();
    while parts.ask().is_some() {
        run(&mut parts, 0.02, 7, |c| Some(truth(c)));
        let text = serde_json::to_string(&parts).unwrap();
        parts = serde_json::from_str(&text).unwrap();
    }
    assert_eq!(
        parts.conclusion().unwrap().configuration,
        whole.conclusion().unwrap().configuration
    );
    assert_eq!(parts.trials(), whole.trials());
}

#[test]
fn a_state_with_races_goes_on() {
    let mut searcher = Searcher::new(space(), &space().home(), options(40, 9)).unwrap();
    while searcher.stage != Stage::Search {
        run(&mut searcher, 0.02, 1, |c| Some(truth(c)));
    }
    let mut written = serde_json::to_value(&searcher).unwrap();
    written["stage"] = "race".into();
    written["race"] = serde_json::json!({ "incumbent": {}, "challengers": [], "current": 0 });
    written["budget"]["race"] = 2.into();
    written["queue"][0]["purpose"] =
        serde_json::json!({ "purpose": "race", "challenger": 1, "is_challenger": true });
    let mut read: Searcher = serde_json::from_value(written).unwrap();
    assert_eq!(read.ask().unwrap().purpose, Purpose::Again);
    run(&mut read, 0.02, usize::MAX, |c| Some(truth(c)));
    assert_eq!(read.trials().len(), 40);
    assert!(read.conclusion().unwrap().gain.is_gain());
}

#[test]
fn it_keeps_away_from_what_crashes() {
    let crashes = |c: &Configuration| number(c, "cache") > 60.0;
    let mut searcher = Searcher::new(space(), &space().home(), options(60, 3)).unwrap();
    run(&mut searcher, 0.02, usize::MAX, |c| (!crashes(c)).then(|| truth(c)));
    let end = searcher.conclusion().unwrap();
    assert!(!crashes(&end.configuration), "{end:?}");
    let searched: Vec<bool> = searcher
        .trials()
        .iter()
        .filter(|trial| trial.purpose == Purpose::Search)
        .map(|trial| trial.score().is_none())
        .collect();
    let crashed = searched.iter().filter(|crashed| **crashed).count();
    assert!(3 * crashed <= searched.len(), "{crashed} of {}", searched.len());
}

#[test]
fn any_budget_ends_in_a_conclusion() {
    for runs in [0, 8, 12, 20, 33, 90] {
        let searcher = Searcher::new(space(), &space().home(), options(runs, 5)).unwrap();
        let end = concluded(searcher, 0.02);
        assert!(end.blocks >= 2, "{runs}: {end:?}");
        assert!(end.gain.estimate().unwrap().interval.is_some());
    }
}

#[test]
fn a_winner_that_crashes_in_a_block_is_not_proposed() {
    let mut searcher = Searcher::new(space(), &space().home(), options(40, 5)).unwrap();
    while let Some(ask) = searcher.ask() {
        let outcome = match ask.purpose {
            Purpose::Ablate { arm: 1, block: 0 } => Outcome::Crashed,
            _ => Outcome::score(truth(&ask.configuration)),
        };
        searcher.tell(ask.trial, outcome).unwrap();
    }
    let end = searcher.conclusion().unwrap();
    assert_eq!((&end.gain, end.is_proposed), (&Effect::Crashed, false));
}

#[test]
fn without_a_model_the_best_keeps_what_is_to_be_kept() {
    let better = baseline(&[("cache", "80")]);
    let mut options = options(20, 5);
    options.allowed_loss = Some(0.03);
    options.starts = vec![Start { name: "rules".to_owned(), configuration: better.clone() }];
    for (kept, best) in [(-0.03, &better), (-0.04, &space().home())] {
        let mut searcher = Searcher::new(space(), &space().home(), options.clone()).unwrap();
        searcher.tell(0, Outcome::Measured { score: 0.0, kept: Some(0.0) }).unwrap();
        let next = searcher.ask().unwrap();
        assert_eq!(next.configuration, better);
        searcher.tell(next.trial, Outcome::Measured { score: 0.5, kept: Some(kept) }).unwrap();
        assert_eq!(searcher.best(), *best, "{kept}");
    }
}

/// A search of forty measurements whose score rises with the cache and twice as much with the
/// delay, which costs what is to be kept, to so much noise of that.
fn beside_a_constraint(allowed_loss: Option<f64>, sigma: f64, seed: u64) -> Searcher {
    let options = Options { allowed_loss, ..options(40, seed) };
    let mut searcher = Searcher::new(space(), &space().home(), options).unwrap();
    while let Some(ask) = searcher.ask() {
        let mut rng = generator(seed ^ 77, u64::from(ask.trial));
        let outcome = Outcome::Measured {
            score: of_both(&ask.configuration) + 0.02 * normal(&mut rng),
            kept: Some(cost(&ask.configuration) + sigma * normal(&mut rng)),
        };
        searcher.tell(ask.trial, outcome).unwrap();
    }
    searcher
}

fn of_both(c: &Configuration) -> f64 {
    0.005 * number(c, "cache") + 0.01 * number(c, "delay")
}

fn cost(c: &Configuration) -> f64 {
    -0.003 * number(c, "delay")
}

/// What such a search recommends: the changes of the score and of what is to be kept.
fn recommended(allowed_loss: Option<f64>, sigma: f64, seed: u64) -> (f64, f64) {
    let searcher = beside_a_constraint(allowed_loss, sigma, seed);
    let found = &searcher.conclusion().unwrap().configuration;
    (of_both(found) - of_both(&space().home()), cost(found))
}

#[test]
fn a_gain_counts_the_less_the_likelier_more_is_lost_than_may_be() {
    let (gain, lost) = recommended(None, 0.05, 0);
    assert!(gain > 1.0 && lost < -0.2, "all that may be had: {gain} {lost}");
    let least = (-0.06_f64).ln_1p();
    for seed in 0..3 {
        let (gain, lost) = recommended(Some(0.06), 0.005, seed);
        assert!(gain > 0.3 && lost >= least, "{seed}, hardly any noise: {gain} {lost}");
    }
    let noisy: Vec<(f64, f64)> = (0..4).map(|seed| recommended(Some(0.06), 0.05, seed)).collect();
    assert!(noisy.iter().all(|(gain, _)| *gain > 0.2), "{noisy:?}");
    let kept = noisy.iter().filter(|(_, lost)| *lost >= least).count();
    assert!(kept >= 3, "{noisy:?}");
}

#[test]
fn what_costs_too_much_stands_for_nothing_that_does_not() {
    let searcher = beside_a_constraint(Some(0.06), 0.01, 1);
    let model = searcher.model().unwrap();
    let dear = baseline(&[("cache", "80"), ("delay", "90")]);
    let cheap = baseline(&[("cache", "80")]);
    assert!(searcher.ahead(&model, &dear, &cheap).mean > 0.3);
    assert!(!searcher.may_stand_for(&model, &dear, &cheap));
    assert!(searcher.may_stand_for(&model, &cheap, &dear));
    let worth = |c: &Configuration| model.worth(&space().features(c));
    assert!(worth(&cheap) > 10.0 * worth(&dear).max(0.01), "{} {}", worth(&cheap), worth(&dear));

    // Nor does it become the favourite.
    let mut searcher = searcher;
    assert!(searcher.probability_better(&dear, &cheap) < 0.1);
    searcher.options.allowed_loss = None;
    assert!(searcher.probability_better(&dear, &cheap) > 0.9);
}

#[test]
fn what_is_to_be_kept_can_be_told_later() {
    let told = beside_a_constraint(Some(0.06), 0.01, 1);
    let mut without = serde_json::to_value(&told).unwrap();
    for trial in without["trials"].as_array_mut().unwrap() {
        let outcome = trial["outcome"].as_object_mut().unwrap();
        assert!(outcome.remove("kept").is_some());
        outcome.insert("feasible".to_owned(), true.into());
    }
    without["options"].as_object_mut().unwrap().remove("allowed_loss").unwrap();
    let mut without: Searcher = serde_json::from_value(without).unwrap();
    assert_ne!(without, told);
    assert!(without.trials().iter().all(|trial| trial.kept().is_none()));
    let outcomes: Vec<Outcome> = told.trials().iter().map(|trial| trial.outcome).collect();
    without.keep_beside(Some(0.06), outcomes.into_iter());
    assert_eq!(without, told);
}

#[test]
fn results_that_were_not_asked_for_are_refused() {
    let mut searcher = Searcher::new(space(), &space().home(), options(20, 5)).unwrap();
    let told = searcher.tell(7, Outcome::score(1.0));
    assert_eq!(told, Err(SearchError::NotAsked { told: 7, asked: Some(0) }));
    assert_eq!(searcher.tell(0, Outcome::score(f64::NAN)), Err(SearchError::Score(0)));
    assert_eq!(searcher.tell(0, Outcome::Crashed), Err(SearchError::BaselineCrashed));
    assert_eq!(searcher.ask().unwrap().trial, 0);
    // Nor may it crash later on, whatever it is measured for.
    while searcher.ask().is_some_and(|ask| !matches!(ask.purpose, Purpose::Ablate { arm: 0, .. })) {
        let ask = searcher.ask().unwrap();
        searcher.tell(ask.trial, Outcome::score(truth(&ask.configuration))).unwrap();
    }
    let of_ablation = searcher.ask().unwrap();
    let told = searcher.tell(of_ablation.trial, Outcome::Crashed);
    assert_eq!(told, Err(SearchError::BaselineCrashed));
    assert_eq!(searcher.ask(), Some(of_ablation));
    let nothing = Searcher::new(Space::default(), &Configuration::new(), options(20, 5));
    assert_eq!(nothing.unwrap_err(), SearchError::NothingToSearch);
}

#[test]
fn late_in_a_search_the_model_still_knows_what_the_gain_is_made_of() {
    for seed in 0..3 {
        let searcher = Searcher::new(space(), &space().home(), options(60, seed)).unwrap();
        let end = concluded(searcher, 0.005);
        let cache = end.lines.iter().find(|line| line.name == "cache").unwrap();
        let mut without = end.winner.clone();
        without.insert(cache.name.clone(), cache.home.clone());
        let expected = (truth(&without) - truth(&end.winner)).exp_m1();
        let told = cache.without.estimate().unwrap().center;
        assert!((told - expected).abs() < 0.3 * expected.abs(), "{told}, in truth {expected}");
    }
}

//! `walwright run --power-cut-after`.

use crate::common::Place;

const CUT: [&str; 6] = ["run", "--power-cut-after=2s", "--clients=4", "--plain", "-q", "--json"];

#[test]
fn a_power_cut_tells_what_is_lost_and_how_long_recovery_took() {
    let place = Place::new();
    let safe = place.run(&[&CUT[..], &["--power-cut-loses=random", "--seed=3"]].concat());
    let safe = safe.code(0).json();
    let audit = &safe["power_cut"];
    assert!(audit["acknowledged"].as_u64() > Some(0), "{safe}");
    assert_eq!(audit["lost"], 0, "{safe}");
    assert!(audit["recovery_seconds"].as_f64() > Some(0.0), "{safe}");
    let (pages, lost) = (&audit["unflushed"]["pages"], &audit["unflushed"]["pages_lost"]);
    assert!(lost.as_u64() > Some(0) && lost.as_u64() < pages.as_u64(), "{safe}");
    assert!(safe["load"].as_str().unwrap().contains("4 clients"), "{safe}");

    let unflushed = place.run(&[&CUT[..5], &["--set=fsync=off"]].concat()).code(4).out();
    assert!(unflushed.contains("acknowledged commits are LOST"), "{unflushed}");
}

#[test]
fn what_a_power_cut_cannot_see_or_has_no_use_for_is_refused() {
    let place = Place::new();
    place.run(&[&CUT[..], &["--dsn=host=localhost"]].concat()).misused(&["--dsn"]);
    place.run(&[&CUT[..], &["--workload=tpcb"]].concat()).misused(&["--workload"]);
    place.run(&["run", "--power-cut-loses=random"]).misused(&["--power-cut-after"]);
    place.run(&["run", "--power-cut-after=2s", "-c1,2"]).misused(&["one number of --clients"]);
    place
        .run(&["run", "--power-cut-after=2s", "-q", "--set=io_method=io_uring"])
        .misused(&["io_uring"]);
}

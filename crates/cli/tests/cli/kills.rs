//! A few of the kills that `bench/src/bin/kills.rs` makes by the hundred.

use walwright_server::{Major, Places};

use crate::common::{Place, install};
use crate::kill_rounds::{Kills, Kind};

#[test]
fn a_server_is_as_it_was_after_kills_at_random_moments_and_a_rollback() {
    let place = std::sync::Arc::new(Place::new());
    let places = Places::open(Some(place.path("server"))).unwrap();
    let commands = std::sync::Arc::clone(&place);
    let walwright = move |lab: &std::path::Path, args: &[&str]| {
        let lab = lab.display().to_string();
        commands.command(&[&["--lab", &lab], args].concat())
    };
    let home = place.path("");
    let mut kills =
        Kills::new(&places, install(Major::V18), &home, 5, Box::new(walwright)).unwrap();
    let mut rolled_back = 0;
    for kind in Kind::ALL.into_iter().chain([Kind::Rollback, Kind::Rollback]) {
        let cycle = kills.cycle(kind).unwrap();
        assert_eq!(cycle.differences, Vec::<String>::new(), "{kind:?}");
        rolled_back += cycle.rolled_back;
    }
    assert!(rolled_back > 0, "{rolled_back}: the kills came before there was anything to undo");
}

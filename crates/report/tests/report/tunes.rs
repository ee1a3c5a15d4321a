//! What every rendering says of tunes.

use walwright_report::terminal::Style;
use walwright_report::tune_document;
use walwright_tune::fixture::{ended, ended_with_schema};
use walwright_tune::{Phase, TuneState};

use crate::renderings::{markup, text_of};

const STYLE: Style = Style { width: 80, colour: false, unicode: true };

/// A tune of a name and a time that do not change.
fn at_its_time(mut state: TuneState) -> TuneState {
    state.id = "20261121-072100-abc".to_owned();
    state.begun = walwright_record::Timestamp(1_795_000_000_000_000);
    state
}

#[test]
fn a_tune_that_has_ended() {
    let mut state = at_its_time(ended());
    state.promoted = Some("config.env".to_owned());
    let document = tune_document(&state, &state.plan.objective().unwrap());
    insta::assert_snapshot!("tune_terminal", document.terminal(&STYLE));
    insta::assert_snapshot!("tune_markdown", document.markdown());
    let page = markup(&document);
    insta::assert_snapshot!("tune_page", text_of(&page));
    assert_eq!(page.matches("<circle").count(), state.made.len(), "a mark each measurement");
}

#[test]
fn a_tune_that_goes_on() {
    let mut state = at_its_time(ended_with_schema());
    state.phase = Phase::Confirm;
    state.confirmation.made.truncate(4);
    let document = tune_document(&state, &state.plan.objective().unwrap());
    insta::assert_snapshot!("tune_unfinished", document.terminal(&STYLE));
}

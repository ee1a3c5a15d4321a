//! What is on disk after each step, and after a crash between two.

use super::*;

fn intent(purpose: &str) -> Intent {
    Intent {
        purpose: purpose.to_owned(),
        server: None,
        root: PathBuf::from("/"),
        changes: vec![Change::Setting {
            name: "work_mem".to_owned(),
            before: None,
            after: Some("8MB".to_owned()),
            restart: false,
        }],
        order: Vec::new(),
        by_hand: false,
    }
}

fn undone() -> Outcome {
    Outcome::Undone { why: "asked".to_owned(), left: Vec::new() }
}

fn ledger() -> (tempfile::TempDir, Ledger) {
    let directory = tempfile::tempdir().unwrap();
    let lab = Lab::at(Some(directory.path().join("a/lab")));
    (directory, Ledger::of(&lab))
}

#[test]
fn sets_are_numbered_and_keep_their_ends() {
    let (_directory, ledger) = ledger();
    assert_eq!(ledger.sets().unwrap(), []);
    assert_eq!(ledger.next_to_undo().unwrap(), None);
    assert!(!ledger.path().exists(), "asking makes nothing");
    let one = ledger.begin(intent("one")).unwrap();
    let two = ledger.begin(intent("two")).unwrap();
    assert_eq!((one.id, two.id), (1, 2));
    ledger.end(2, Outcome::Done).unwrap();
    // A set that this process begun and did not end is as good as cut short.
    assert_eq!(ledger.next_to_undo().unwrap().unwrap().id, 1);
    ledger.end(1, undone()).unwrap();
    assert_eq!(ledger.next_to_undo().unwrap().unwrap().id, 2);
    ledger.end(2, undone()).unwrap();
    assert_eq!(ledger.next_to_undo().unwrap(), None);
    assert_eq!(ledger.set(2).unwrap().unwrap().intent, intent("two"));
}

#[test]
fn a_torn_last_line_is_no_line() {
    let (_directory, ledger) = ledger();
    ledger.begin(intent("one")).unwrap();
    ledger.end(1, Outcome::Done).unwrap();
    let whole = std::fs::read(ledger.path()).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // However much of the end reached the disk, the set counts as cut short until all did.
    for length in first..whole.len() {
        std::fs::write(ledger.path(), &whole[..length]).unwrap();
        let state = ledger.sets().unwrap()[0].state.clone();
        assert_eq!(state, State::Begun, "{length}");
    }
    // And what is noted after it is read.
    std::fs::write(ledger.path(), &whole[..whole.len() - 7]).unwrap();
    assert_eq!(ledger.begin(intent("two")).unwrap().id, 2);
    let states: Vec<State> = ledger.sets().unwrap().into_iter().map(|set| set.state).collect();
    assert_eq!(states, [State::Begun, State::Begun]);
}

#[test]
fn processes_that_note_at_once_get_numbers_of_their_own() {
    let (_directory, ledger) = ledger();
    let mut ids: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| ledger.begin(intent("at once")).unwrap().id)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    ids.sort_unstable();
    assert_eq!(ids, (1..=8).collect::<Vec<u64>>());
}

#[test]
fn what_a_living_process_has_set_is_not_the_next_to_undo() {
    let (_directory, ledger) = ledger();
    ledger.begin(intent("applied")).unwrap();
    ledger.end(1, Outcome::Done).unwrap();
    let mut child =
        std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
    let owner = Owner::of(child.id());
    let event = Event::Begin { id: 2, at: Timestamp::now(), owner, intent: intent("a run") };
    ledger.append(&mut ledger.open().unwrap(), &event).unwrap();
    let run = || ledger.set(2).unwrap().unwrap();
    let next = || ledger.next_to_undo().unwrap().unwrap().id;
    assert!(run().is_in_progress());
    ledger.end(2, Outcome::Done).unwrap();
    assert!(run().is_in_progress() && !run().is_cut_short());
    assert_eq!((next(), run().pid()), (1, child.id()));
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert!(!run().is_in_progress());
    assert_eq!(next(), 2);
}

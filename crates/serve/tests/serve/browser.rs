//! Every kind of page in a real browser: everybody can use it, and it asks for nothing that its
//! policy refuses.

use std::path::Path;

use walwright_record::journal::{Entry, Machine};
use walwright_record::{Event, RunId};
use walwright_store::journal::Journal;
use walwright_store::{Lab, Store};
use walwright_testing::browser::{Browser, Screen, Tab, axe};

use crate::fixture::{Rules, Served, TOKEN, begin, keep, lab, record};

const EXPERIMENT: &str = "20260922-000100-exp";

/// An experiment of four blocks, of which `done` were run.
fn experiment(lab: &Path, id: &str, done: u32, ending: &str) {
    let folder = lab.join("experiments").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let header = serde_json::json!({
        "format": 1, "id": id, "name": "larger WAL", "begun": 1_790_000_000_000_000_i64,
        "ending": ending, "walwright_version": "0.1.0", "command": "walwright experiment wal.toml",
        "blocks": 4, "arms": ["roomy"], "consent": [], "stop_when_clear": false,
        "workload": "tpcb", "server": null, "origin": "/lab",
    });
    std::fs::write(folder.join("header.json"), header.to_string()).unwrap();
    let plan = "name = \"larger WAL\"\nblocks = 4\nmetric = \"throughput\"\n\
        [workload]\nname = \"tpcb\"\n[load]\nclients = 4\nduration = \"10s\"\n\
        [[arm]]\nname = \"roomy\"\nsettings = { max_wal_size = \"8GB\" }\n";
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
    let cells = (0..done).flat_map(|block| (0..3).map(move |place| (block, place)));
    let cell = |(block, place): (u32, u32)| {
        let rate = 1_000.0 + 7.0 * f64::from(block) + 4.0 * f64::from(place % 2);
        let rate = if place == 2 { 1.2 * rate } else { rate };
        let run = format!("20260922-0001{block}{place}-run");
        let figures = serde_json::json!({"throughput": rate, "latency_p99": 4.0 / rate});
        let cell = serde_json::json!({"block": block, "place": place, "run": run, "figures": figures,
            "warnings": [], "seconds": 12.0, "failed": null});
        cell.to_string()
    };
    let cells: Vec<String> = cells.map(cell).collect();
    std::fs::write(folder.join("cells.jsonl"), cells.join("\n") + "\n").unwrap();
}

/// What is wrong with a page that says this, with all of it unfolded.
fn looked(tab: &mut Tab<'_>, axe: &str, at: &str, says: &str) -> Vec<String> {
    let text = tab.value("document.body.textContent");
    let text = text.as_str().unwrap().to_lowercase();
    let missing =
        (!text.contains(&says.to_lowercase())).then(|| format!("{at}: no {says}: {text}"));
    tab.value("document.querySelectorAll('details').forEach((of) => { of.open = true; })");
    let light = tab.barriers(axe).into_iter().map(|barrier| format!("{at}: {barrier}"));
    let dark = tab.barriers_in_the_dark(Screen::DESK).into_iter();
    let dark = dark.map(|barrier| format!("{at}, dark: {barrier}"));
    missing.into_iter().chain(light).chain(dark).collect()
}

#[test]
fn everybody_can_use_every_page_in_light_and_dark() {
    let (Some(mut browser), Some(axe)) = (Browser::start(), axe()) else { return };
    let lab = lab();
    let lab = lab.path();
    let [a, b] = ["20260922-000000-abc", "20260922-000001-abd"];
    keep(lab, &record(a, Some("before the fix"), 100));
    keep(lab, &record(b, None, 90));
    let at = walwright_testing::second(10.0);
    let text = "a note that is longer than a list of runs has room for".to_owned();
    let note = Event { at, kind: "note".to_owned(), text };
    Store::open(lab).unwrap().add_event(&RunId(b.to_owned()), &note).unwrap();
    let live = record("20260922-000002-abe", Some("under way"), 100);
    let mut writer = begin(lab, &live);
    for interval in &live.intervals[..10] {
        writer.interval(interval).unwrap();
    }
    experiment(lab, EXPERIMENT, 4, "all_blocks");
    experiment(lab, "20260922-000200-exp", 2, "unfinished");
    let entry = Entry::asking("Is a larger WAL worth it?");
    let machine = Machine::default();
    Journal::of(&Lab::at(Some(lab.to_owned()))).append(entry, machine).unwrap();
    let state = walwright_tune::fixture::ended();
    let folder = lab.join("tunes").join(&state.id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("state.json"), serde_json::to_vec(&state).unwrap()).unwrap();

    let served = Served::start(lab, Rules { reading: true, actions: true });
    let site = format!("http://{}", served.address);
    let compared = format!("/compare?run={a}&run={b}");
    let relative = format!("{compared}#scale=relative");
    let tune = format!("/tunes/{}", state.id);
    let pages = [
        ("/", "Start a run"),
        ("/?q=nothing", "There are none"),
        (&format!("/runs/{a}"), "Label and notes"),
        ("/runs/20260922-000002-abe", "run under way"),
        ("/compare", "Baseline"),
        (&compared, "What differs besides"),
        (&relative, "What differs besides"),
        ("/experiments", "larger WAL"),
        (&format!("/experiments/{EXPERIMENT}"), "roomy"),
        ("/experiments/20260922-000200-exp", "roomy"),
        ("/tunes", "throughput"),
        (&tune, "search"),
        ("/journal", "Is a larger WAL worth it?"),
        ("/jobs", "Started here"),
        ("/gateway", "--gateway"),
        ("/nothing", "no such page"),
    ];
    let mut wrong = Vec::new();
    // Nobody has brought the token yet.
    let mut tab = browser.open(&site, Screen::DESK);
    wrong.extend(looked(&mut tab, &axe, "without the token", "this needs the token"));
    tab.complaints();
    tab.go(&format!("{site}/?token={TOKEN}"));
    for (at, says) in &pages {
        tab.go(&format!("{site}{at}"));
        wrong.extend(looked(&mut tab, &axe, at, says));
        let refused = tab.complaints().into_iter();
        wrong.extend(refused.filter(|of| !of.contains("404")).map(|of| format!("{at}: {of}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // On paper nothing can be clicked.
    tab.go(&format!("{site}/"));
    tab.call("Emulation.setEmulatedMedia", &serde_json::json!({"media": "print"}));
    let printed = "['nav.bar', '.deeds', 'main'].map((of) => \
        getComputedStyle(document.querySelector(of)).display === 'none').join()";
    assert_eq!(tab.value(printed), "true,true,false");
}

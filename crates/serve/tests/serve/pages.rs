//! What the pages say.

use std::io::Read;

use flate2::read::GzDecoder;
use walwright_record::{Event, RunId};
use walwright_store::Store;

use crate::fixture::{Rules, Served, TOKEN, keep, lab, record};

#[test]
fn runs_are_listed_searched_and_ordered() {
    let lab = lab();
    keep(lab.path(), &record("20260922-000000-abc", Some("before the fix"), 100));
    keep(lab.path(), &record("20260922-000001-abd", Some("after the fix"), 90));
    let served = Served::start(lab.path(), Rules::default());
    let order = |path: &str| {
        let text = served.get(path).text();
        let place = |id: &str| text.find(&format!("href=\"/runs/{id}\""));
        (place("20260922-000000-abc"), place("20260922-000001-abd"))
    };
    let (first, second) = order("/");
    assert!(second < first && second.is_some(), "the newest first");
    let (first, second) = order("/?order=begun&ascending=yes");
    assert!(first < second && first.is_some());
    let (first, second) = order("/?q=AFTER");
    assert!(first.is_none() && second.is_some());
    let text = served.get("/").text();
    assert!(text.contains("class=\"sparkline\""), "{text}");
    assert!(served.get("/?q=nothing+like+it").text().contains("0 of 2 runs"));

    // What was noted of a run stands in its row and is searched.
    let noted = RunId("20260922-000000-abc".to_owned());
    let long = "the disk of the neighbour failed here, and its array was rebuilt for an hour";
    let store = Store::open(lab.path()).unwrap();
    for (second, text) in [(20.0, long), (10.0, "who else is here?")] {
        let at = walwright_testing::second(second);
        let note = Event { at, kind: "note".to_owned(), text: text.to_owned() };
        store.add_event(&noted, &note).unwrap();
    }
    let (first, second) = order("/?q=Neighbour");
    assert!(first.is_some() && second.is_none());
    let (first, second) = order("/?q=rebuilt+before");
    assert!(first.is_some() && second.is_none(), "in a note and in the label");
    let text = served.get("/").text();
    assert!(
        text.contains("<summary>who else is here? · the disk of the neig…</summary>"),
        "{text}"
    );
    assert!(text.contains(&format!("who else is here? · {long}")), "{text}");
    assert_eq!(served.get("/runs/latest").header("location"), Some("/runs/20260922-000001-abd"));
    assert_eq!(served.get("/runs/nothing").status, 404);
    for path in ["/experiments", "/tunes", "/journal"] {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    let compared = served.get("/compare?run=20260922-000000-abc&run=20260922-000001-abd");
    assert_eq!(compared.status, 200);
    assert!(compared.text().contains("after the fix against before the fix"));
    let text = compared.text();
    for (chosen, label) in [("abc", "0-abc before the fix"), ("abd", "1-abd after the fix")] {
        let option = format!("{chosen}\" selected>20260922-00000{label}");
        assert_eq!(text.matches(&option).count(), 1, "{text}");
    }
    let one = served.get("/compare?run=20260922-000000-abc");
    assert!(one.status == 200 && one.text().contains("Choose two to four runs"), "{one:?}");
    let same = served.get("/compare?run=20260922-000000-abc&run=20260922-000000-abc");
    assert!(same.status == 400 && same.text().contains("class=\"picker\""), "{same:?}");
    assert_eq!(served.get(&format!("/compare?{}", "run=latest&".repeat(5))).status, 400);
}

#[test]
fn a_page_is_compressed_for_who_takes_it_and_small() {
    let lab = lab();
    keep(lab.path(), &record("20260922-000000-abc", None, 100));
    let served = Served::start(lab.path(), Rules::default());
    let plain = served.get("/runs/20260922-000000-abc");
    assert_eq!(plain.header("content-encoding"), None);
    let packed = served.get_with("/runs/20260922-000000-abc", "Accept-Encoding: br, gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = String::new();
    GzDecoder::new(&packed.body[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.text());
    assert!(packed.body.len() < 100_000);
    let refused = served.get_with("/", "Accept-Encoding: gzip;q=0\r\n");
    assert_eq!(refused.header("content-encoding"), None);
}

#[test]
fn a_tune_is_listed_and_shown_with_its_search() {
    let lab = lab();
    let state = walwright_tune::fixture::ended();
    let folder = lab.path().join("tunes").join(&state.id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("state.json"), serde_json::to_vec(&state).unwrap()).unwrap();
    let served = Served::start(lab.path(), Rules::default());
    let address = format!("/tunes/{}", state.id);
    assert!(served.get("/tunes").text().contains(&format!("href=\"{address}\"")));
    let page = served.get(&address);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<svg"), "the path of the search is drawn");
    assert!(!page.text().contains("data-live"), "it has ended");
    assert!(served.get(&format!("{address}/events")).text().contains("event: end"));
}

#[test]
fn a_note_stands_on_the_timeline_where_it_was_written() {
    let lab = lab();
    keep(lab.path(), &record("20260922-000000-abc", None, 100));
    let served = Served::start(lab.path(), Rules { actions: true, ..Rules::default() });
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let post = |form: &str| served.post("/runs/20260922-000000-abc/note", &right, form);
    let before = served.get("/runs/20260922-000000-abc").text();
    assert!(!before.contains("the cache was warm"));
    let written = post("note=from+here+on+the+cache+was+warm&at=12.5");
    assert_eq!(written.header("location"), Some("/runs/20260922-000000-abc#at=12.5"));
    let text = served.get("/runs/20260922-000000-abc").text();
    assert!(text.contains("rom here on the cache was warm"), "{text}");
    let series = served.get("/runs/20260922-000000-abc/series").text();
    assert!(series.contains("\"kind\":\"note\",\"from\":null,\"to\":12.5"), "{series}");
    for wrong in ["note=x", "at=3", "note=x&at=-1", "note=x&at=NaN", "note=a%0Ab&at=1"] {
        assert_eq!(post(wrong).status, 400, "{wrong}");
    }
}

//! Pages in a real browser: what can be done with them, that they need nothing else, and that
//! everybody can use them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use walwright_cost::{Capacity, Cost, Machine, PriceList, Terms, smaller};
use walwright_record::{Event, Record, RunState};
use walwright_report::html::{Links, POLICY, SCRIPT, STYLE};
use walwright_report::{
    Document, GatewayPin, GatewayPool, GatewaySeen, JobRow, RunReport, Spread, comparison, cost,
    experiment, format, gateway, job, scaling, storage, tune_document, with_proofs,
};
use walwright_testing::browser::{Browser, Screen, Tab, axe};
use walwright_testing::site::Site;

use crate::comparison::compared as comparisons;
use crate::synthetic::{PREPARE, WARM_UP, at, record_of};
use crate::{experiments, lists, scaling as scalings, storage as storages};

/// A minute whose checkpoint slows it down from its 24th second on, with a vacuum and a fault.
fn minute() -> Record {
    let mut record = record_of(60);
    for (second, kind, text) in
        [(40.0, "autovacuum", "autovacuum of <accounts>"), (70.0, "server_lost", "it was lost")]
    {
        record.events.push(Event { at: at(second), kind: kind.into(), text: text.into() });
    }
    // As long as the names of a real machine are.
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let host = record.host.as_mut().unwrap();
    host.kernel_settings.insert(clock.to_owned(), "tsc".to_owned());
    record
}

/// The script has drawn the plots.
const DRAWN: &str = "document.querySelectorAll('.give').length > 8";

struct Saved {
    directory: tempfile::TempDir,
}

impl Saved {
    fn new() -> Saved {
        Saved { directory: tempfile::tempdir().unwrap() }
    }

    fn page(&self, name: &str, html: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, html).unwrap();
        path
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the page shows: the ends of its axis.
fn range(tab: &mut Tab<'_>) -> [f64; 2] {
    let range = tab.value("walwright.sheet.view().range");
    [number(&range[0]), number(&range[1])]
}

/// The place of a moment on a panel, in pixels of the window.
fn place(tab: &mut Tab<'_>, panel: &str, second: f64) -> (f64, f64) {
    let [x, y, width, height] = tab.place(&format!("svg[data-panel={panel}]"));
    let [from, to] = range(tab);
    // Between the ticks and the legend, in units of the picture.
    let across = 64.0 + (second - from) / (to - from) * (1000.0 - 204.0 - 64.0);
    (x + across / 1000.0 * width, y + height / 2.0)
}

fn opened<'b>(browser: &'b mut Browser, page: &Path, fragment: &str, screen: Screen) -> Tab<'b> {
    let mut tab = browser.open_file(page, fragment, screen);
    tab.until(DRAWN);
    tab
}

#[test]
fn a_file_is_zoomed_pointed_at_marked_and_taken_from() {
    let Some(mut browser) = Browser::start() else { return };
    let saved = Saved::new();
    let report = RunReport::new(minute());
    let page = saved.page("run.html", &report.document().html());
    let mut tab = opened(&mut browser, &page, "", Screen::DESK);
    let end = range(&mut tab)[1];

    // A drag zooms all panels, and the address tells it.
    let (from, to) = (place(&mut tab, "wal", 30.0), place(&mut tab, "wal", 50.0));
    let whole =
        tab.value("document.querySelector('svg[data-panel=throughput] .line').getAttribute('d')");
    tab.drag(from, to, false);
    tab.until("location.hash.startsWith('#zoom=')");
    let [from, to] = range(&mut tab);
    assert!((from - 30.0).abs() < 0.2 && (to - 50.0).abs() < 0.2, "{from} to {to}");
    tab.until(&format!(
        "document.querySelector('svg[data-panel=throughput] .line').getAttribute('d') !== {whole}"
    ));
    let zoomed = tab.value("location.hash").as_str().unwrap().to_owned();

    // The crosshair reads the record's own figures.
    let second = 45;
    let interval = &report.record.intervals[second];
    let (x, y) = place(&mut tab, "throughput", second as f64 + 0.5);
    tab.point(x, y);
    let done = interval.scripts[0].transactions as f64;
    let p99 = interval.scripts[0].latency.percentile(99.0).unwrap();
    for (panel, name, shown) in [
        ("throughput", "transactions", format::rate(done)),
        ("latency", "p99", format::latency(p99)),
    ] {
        tab.until(&format!(
            "[...document.querySelectorAll('svg[data-panel={panel}] .legend')].some((l) => \
             l.querySelector('.name').textContent === '{name}' && l.querySelector('.value').textContent === '{shown}')"
        ));
    }

    // Keys do the same.
    tab.value("document.querySelector('.timeline').focus()");
    tab.press("ArrowRight", false);
    tab.press("ArrowRight", false);
    tab.until("location.hash.includes('at=31')");
    tab.until("document.querySelector('.told').textContent.includes('Throughput, transactions')");
    tab.press("+", false);
    tab.until(&format!(
        "(([a, b]) => b - a < {})(walwright.sheet.view().range)",
        (to - from) * 0.6
    ));
    tab.press("0", false);
    tab.press("Escape", false);
    tab.until("location.hash === ''");
    assert_eq!(range(&mut tab), [0.0, end]);

    // What is marked is compared with the rest: the checkpoint took throughput down.
    let begin = (WARM_UP + 24) as f64;
    let (from, to) = (place(&mut tab, "waits", begin), place(&mut tab, "waits", begin + 12.0));
    tab.drag(from, to, true);
    tab.until("document.querySelectorAll('.changed tbody tr').length > 3");
    let rows = tab.value(
        "[...document.querySelectorAll('.changed tbody tr')].map((row) => row.children[0].textContent + row.children[4].textContent)",
    );
    let rows = rows.to_string();
    assert!(rows.contains("Throughput, transactions▼"), "{rows}");
    assert!(rows.contains("checkpointer▲"), "{rows}");
    let quiet =
        tab.value(&format!("walwright.sheet.compare({}, {}).length", WARM_UP + 5, WARM_UP + 15));
    let changed = tab.value(&format!("walwright.sheet.compare({begin}, {}).length", begin + 12.0));
    assert!(number(&changed) > 3.0 && quiet == 0, "{quiet} and {changed}");

    // A finding that was seen in a part of the run marks that part.
    tab.value("document.querySelector('a[href^=\"#mark=\"]').click()");
    let marked = format!("String(walwright.sheet.view().mark) === '{begin},{}'", begin + 15.0);
    tab.until(&marked);

    // A pan moves what was drawn; once the view rests it is drawn as if it had been opened there.
    let drawn = "['wal', 'map'].map((id) => document.querySelector(`svg[data-panel=${id}]`).firstElementChild.outerHTML).join('') + document.querySelector('svg[data-panel=map]').innerHTML";
    let paths = tab.value(
        "(async () => {
            const wal = document.querySelector('svg[data-panel=wal]');
            wal.scrollIntoView({ block: 'center' });
            // However long frames take here, the view does not rest between them.
            const timer = window.setTimeout;
            let rest = () => {};
            window.setTimeout = (what, after, ...more) => after === 120 ? (rest = what, 0) : timer(what, after, ...more);
            const seen = [], frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            for (let from = 20; from <= 26; from += 2) {
                walwright.sheet.set({ zoom: [from, from + 20] });
                await frame();
                const line = wal.querySelector('.moves .line[transform]');
                seen.push([line.getAttribute('d'), line.closest('.moves').getAttribute('transform')]);
            }
            window.setTimeout = timer;
            rest();
            return seen;
        })()",
    );
    assert_ne!(paths[0][0], paths[1][0], "with as much beside it as is panned to: {paths}");
    let moved = |i: usize| -> f64 {
        let text = paths[i][1].as_str().unwrap_or_else(|| panic!("not moved: {paths}"));
        text.trim_start_matches("translate(").trim_end_matches(')').parse().unwrap()
    };
    assert_eq!((&paths[1][0], &paths[1][0]), (&paths[2][0], &paths[3][0]), "drawn once");
    // Two seconds of twenty are a tenth of the plot's width.
    assert!((moved(2) + 73.2).abs() < 0.2 && (moved(3) + 146.4).abs() < 0.2, "{paths}");
    tab.until("document.querySelector('.moves[transform]') === null");
    tab.value("new Promise((done) => setTimeout(done)).then(() => walwright.sheet.drawAll())");
    let panned = tab.value(drawn);
    tab.until("location.hash.startsWith('#zoom=26,46')");
    tab.value(
        "walwright.sheet.set({ zoom: null }).then(() => walwright.sheet.set({ zoom: [26, 46] }))",
    );
    tab.until("document.querySelector('.shown').textContent.startsWith('0:26 to')");
    tab.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done))).then(() => walwright.sheet.drawAll())");
    assert_eq!(tab.value(drawn), panned);
    tab.value("walwright.sheet.set({ zoom: null })");
    // A legend that is drawn anew under the pointer is not clicked.
    tab.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done))).then(() => walwright.sheet.drawAll())");

    // One line alone, another scale, any percentile; a link keeps them.
    tab.click("svg[data-panel=latency] .legend[data-track='2']");
    tab.until(
        "document.querySelectorAll('svg[data-panel=latency] .line:not(.legend *)').length === 1",
    );
    tab.click("figure:has(svg[data-panel=throughput]) .log");
    tab.until("location.hash.includes('log=throughput')");
    tab.value("(() => { const p = document.querySelector('.give input'); p.value = '99.9'; p.dispatchEvent(new Event('change')); })()");
    tab.until("location.hash.includes('p=99.9')");
    let link = tab.value("location.href").as_str().unwrap().to_owned();
    assert_eq!(tab.complaints(), Vec::<String>::new());
    assert_eq!(
        tab.requests().iter().filter(|a| !a.starts_with("blob:")).count(),
        1,
        "the page alone"
    );
    drop(tab);
    let mut tab = browser.open(&link, Screen::DESK);
    tab.until(DRAWN);
    let view = tab.value("walwright.sheet.view()");
    assert_eq!((&view["log"], &view["p"]), (&json!(["throughput"]), &json!(99.9)));
    assert_eq!(view["solo"], json!([["latency", "p99"]]));
    assert!(zoomed.contains(',') && view["mark"].is_array(), "{view}");

    // Any percentile, from counts in rows a tenth wide, is near the one from all latencies.
    let typical = tab.value("walwright.sheet.percentile(99.9)");
    let exact = report.summary.load.as_ref().unwrap().latency.as_ref().unwrap().p99_9.as_secs_f64();
    assert!((number(&typical) / exact - 1.0).abs() < 0.06, "{typical} for {exact}");

    // What is copied is what is shown.
    let csv = tab.value("walwright.sheet.text('throughput', 'csv')");
    let csv = csv.as_str().unwrap();
    let first = report.record.intervals[0].scripts[0].transactions;
    assert!(csv.starts_with("seconds,transactions (per second)"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().starts_with(&format!("0.5,{first}")), "{csv}");
    assert_eq!(csv.lines().count(), 1 + report.record.intervals.len());
    let copied: Value = serde_json::from_str(
        tab.value("walwright.sheet.text('latency', 'json')").as_str().unwrap(),
    )
    .unwrap();
    assert_eq!((&copied["unit"], &copied["tracks"][0]["name"]), (&json!("seconds"), &json!("p99")));

    // So is what the map of latencies counts.
    let csv = tab.value("walwright.sheet.text('map', 'csv')");
    let csv = csv.as_str().unwrap();
    let heads = "seconds,longer than (seconds),up to (seconds),transactions";
    assert_eq!(csv.lines().next(), Some(heads));
    let counted = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap());
    let counted: u64 = counted.map(|count| count.parse::<u64>().unwrap()).sum();
    let latencies = report.record.intervals.iter().flat_map(|interval| &interval.scripts);
    assert_eq!(counted, latencies.map(|script| script.latency.count()).sum::<u64>());
    let copied = tab.value("walwright.sheet.text('map', 'json')");
    let copied: Value = serde_json::from_str(copied.as_str().unwrap()).unwrap();
    assert_eq!(copied["panel"], "Latency map");
    assert_eq!(copied["cells"].as_array().unwrap().len(), csv.lines().count() - 1);

    // Pictures to take away stand alone.
    let kept = tempfile::tempdir().unwrap();
    tab.downloads(kept.path());
    let give = ["throughput", "map"].map(|panel| ["svg", "png"].map(|kind| (panel, kind))).concat();
    for (panel, kind) in give {
        tab.click(&format!(
            "figure:has(svg[data-panel={panel}]) .give button[aria-label$='download as {}']",
            kind.to_uppercase()
        ));
        let name = tab.downloaded();
        assert!(name.ends_with(&format!("-{panel}.{kind}")), "{name}");
    }
    for panel in ["throughput", "map"] {
        let [svg, png] = ["svg", "png"].map(|kind| {
            let end = format!("-{panel}.{kind}");
            let mut files = std::fs::read_dir(kept.path()).unwrap().flatten();
            let file = files.find(|file| file.file_name().to_string_lossy().ends_with(&end));
            std::fs::read(file.unwrap().path()).unwrap()
        });
        let svg = String::from_utf8(svg).unwrap();
        assert!(
            svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && !svg.contains("class="),
            "{svg}"
        );
        assert!(svg.contains("rgb(") && !svg.contains("var("), "colours are written out");
        assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{panel}: {}", png.len());
    }

    // On paper nothing can be clicked.
    tab.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    let seen = "[...document.querySelectorAll('.screen')].filter((of) => of.checkVisibility()).map((of) => of.className)";
    assert_eq!(tab.value(seen), json!([]));
    assert_eq!(tab.complaints(), Vec::<String>::new());
}

#[test]
fn figures_are_written_alike_here_and_there() {
    let Some(mut browser) = Browser::start() else { return };
    let saved = Saved::new();
    let page = saved.page("run.html", &RunReport::new(record_of(20)).document().html());
    let mut tab = opened(&mut browser, &page, "", Screen::DESK);
    let values: Vec<f64> = (-7..13)
        .flat_map(|e| {
            [1.0, 1.5, 2.345, 9.994, 9.996, 99.94, 99.96, 999.4].map(|m| m * 10_f64.powi(e))
        })
        .chain([0.0, 1023.0, 1024.0, 5.5 * 1048576.0, 0.043, -3.2, -1234.6])
        .collect();
    let written = tab.value(&format!(
        "{}.map((v) => [walwright.write.rate(v), walwright.write.seconds(v), walwright.write.bytes(v), walwright.write.share(v), walwright.write.count(v), walwright.clock(v)])",
        json!(values)
    ));
    for (value, written) in values.iter().zip(written.as_array().unwrap()) {
        let ours = [
            format::rate(*value),
            format::seconds(*value),
            format::byte_rate(*value),
            format::percent(*value),
            format::about(*value),
            format::clock(value.min(1e7)),
        ];
        let clock = if *value > 1e7 { json!(ours[5]) } else { written[5].clone() };
        let theirs = json!([written[0], written[1], written[2], written[3], written[4], clock]);
        assert_eq!(theirs, json!(ours), "{value}");
    }
}

#[test]
fn a_served_page_obeys_its_policy_and_follows_a_run() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::new(POLICY);
    site.put("/page.css", "text/css", STYLE.to_owned());
    site.put("/page.js", "text/javascript", SCRIPT.to_owned());
    let whole = minute();
    let cut = at((PREPARE + WARM_UP + 20) as f64);
    let mut half = whole.clone();
    half.intervals.retain(|interval| interval.start < cut);
    half.samples.values_mut().for_each(|samples| samples.retain(|sample| sample.at < cut));
    half.phases.retain(|phase| phase.start < cut);
    half.events.retain(|event| event.at < cut);
    (half.header.state, half.header.ended) = (RunState::Running, None);
    half.phases.last_mut().unwrap().end = None;
    let mut warming = half.clone();
    warming.phases.retain(|phase| phase.start < at((PREPARE + 1) as f64));
    let warming = RunReport::new(warming).document().markdown();
    assert!(warming.contains("faithful mode.\n"), "it has not ended: {warming}");
    let (half, whole) = (RunReport::new(half), RunReport::new(whole));
    let links = Links {
        icon: "/favicon.ico",
        style: "/page.css",
        script: "/page.js",
        series: Some("/series"),
        live: Some("/live"),
        above: "<nav class=\"bar\" aria-label=\"Lab\"><a href=\"/\">Runs</a></nav>",
    };
    let serve = |report: &RunReport| {
        site.put("/run", "text/html", report.document().linked(&links));
        site.put("/series", "application/json", report.document().series().unwrap().json());
    };
    serve(&half);
    let mut tab = browser.open(&format!("http://{}/run", site.address), Screen::DESK);
    let asked = |tab: &mut Tab<'_>, part: &str| tab.requests().iter().any(|a| a.ends_with(part));
    assert!(!asked(&mut tab, "/series"), "nobody reached for the figures yet");
    let (x, y) = tab.middle("svg[data-panel=throughput]");
    tab.point(x, y);
    tab.until("walwright.sheet.view().range");
    assert!(asked(&mut tab, "/series"));
    let before = range(&mut tab);

    // The run goes on: the axis grows, and what is said of it changes.
    let first = tab.value("document.querySelector('main > header').textContent");
    tab.value("document.querySelectorAll('section#reproduce').length");
    serve(&whole);
    let late = whole.document().series().unwrap().since(35.0);
    site.events.send(format!("event: series\ndata: {late}")).unwrap();
    tab.until(&format!("walwright.sheet.view().range[1] > {}", before[1]));
    let csv = tab.value("walwright.sheet.text('throughput', 'csv')");
    assert_eq!(csv.as_str().unwrap().lines().count(), 1 + whole.record.intervals.len());
    site.events.send("event: page\ndata: 1".to_owned()).unwrap();
    tab.until(&format!("document.querySelector('main > header').textContent !== {first}"));
    site.events.send("event: end\ndata: 1".to_owned()).unwrap();
    tab.until("!document.querySelector('main[data-live]')");
    assert_eq!(tab.complaints(), Vec::<String>::new());
}

#[test]
fn everybody_can_use_a_page() {
    let (Some(axe), Some(mut browser)) = (axe(), Browser::start()) else { return };
    let saved = Saved::new();
    let page = saved.page("run.html", &RunReport::new(minute()).document().html());
    let used = "#zoom=20,60&mark=44,56&p=99.9&at=50";
    for (screen, fragment) in [
        (Screen::DESK, ""),
        (Screen::DESK, used),
        (Screen::DESK.dark(), used),
        (Screen::PHONE, used),
        (Screen::PHONE.dark(), ""),
    ] {
        let mut tab = opened(&mut browser, &page, fragment, screen);
        tab.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
        tab.click("figure:has(svg[data-panel=waits]) .give button[aria-expanded]");
        tab.until("document.querySelector('.numbers tbody tr')");
        assert_eq!(tab.barriers(&axe), Vec::<String>::new(), "{screen:?} {fragment}");
        let wide = tab.value("document.documentElement.scrollWidth");
        assert_eq!(wide, screen.width, "nothing but tables scrolls sideways");
        assert_eq!(tab.complaints(), Vec::<String>::new());
    }
}

/// What two runs cost, and whether cheaper instances would do.
fn priced() -> Document {
    let prices = PriceList::read(walwright_cost::EXAMPLE).unwrap();
    let instance = Some("db.example.4xlarge");
    let cost_of = |name: &str, seconds| {
        let report = RunReport::new(record_of(seconds));
        let machine = Machine::of(&report.record);
        let capacity = Capacity::of(name.to_owned(), &[report.summary], None, &[machine]).unwrap();
        let terms = Terms { utilisation: 0.6, rate: None };
        Cost::of(capacity, &prices, instance, terms).unwrap()
    };
    let mut costs = [cost_of("before", 20), cost_of("after the fix", 30)];
    smaller(&mut costs, &prices, instance);
    cost(&costs, &prices)
}

#[test]
fn everybody_can_use_the_other_pages() {
    let (Some(axe), Some(mut browser)) = (axe(), Browser::start()) else { return };
    let saved = Saved::new();
    let tuned = walwright_tune::fixture::ended();
    let course = || vec![1.0, 3.0, 2.0];
    let seen = GatewaySeen {
        address: "http://127.0.0.1:9187/metrics".to_owned(),
        withheld: Some(Spread::default()),
        pins: vec![GatewayPin { reason: "temporary table".to_owned(), now: 1.0, ever: 2.0 }],
        pools: vec![GatewayPool { database: "app".to_owned(), ..GatewayPool::default() }],
        throughput_course: course(),
        withheld_course: course(),
        ..GatewaySeen::default()
    };
    let started = JobRow {
        link: "/jobs/1".to_owned(),
        command: "walwright run --workload=tpcb --label='a long name of an experiment'",
        begun: at(0.0),
        state: "It goes on.".to_owned(),
        failed: false,
    };
    let proofs = experiments::outcome().prediction.map(|met| ("20261121-070136-4qz".into(), met));
    let proofs: Vec<_> = proofs.into_iter().collect();
    let pages = [
        ("comparison", comparison(&comparisons(), true)),
        ("experiment", experiment(&experiments::outcome())),
        ("list", lists::runs()),
        ("sweep", scaling(&scalings::sample())),
        ("storage", storage(&storages::measurement())),
        ("tune", tune_document(&tuned, &tuned.plan.objective().unwrap())),
        ("gateway", gateway(&seen)),
        ("study", experiment(&experiments::studied())),
        ("watched", lists::watched()),
        ("cost", priced()),
        ("proven run", with_proofs(RunReport::new(minute()).into_document(), &proofs)),
        ("job", job(&started, &["[ 0.1 s] prepare ...".to_owned()], &[record_of(5).header.id])),
    ];
    for (name, document) in pages {
        let page = saved.page(&format!("{name}.html"), &document.html());
        for screen in [Screen::DESK, Screen::DESK.dark(), Screen::PHONE] {
            let mut tab = browser.open_file(&page, "", screen);
            tab.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
            assert_eq!(tab.barriers(&axe), Vec::<String>::new(), "{name} {screen:?}");
            let wide = tab.value("document.documentElement.scrollWidth");
            assert_eq!(wide, screen.width, "{name}: nothing but tables scrolls sideways");
            assert_eq!(tab.complaints(), Vec::<String>::new());
        }
    }
}

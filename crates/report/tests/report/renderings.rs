//! What every rendering says of whole records, of records cut short, and of
//! records that hold text meant to break out of its place.

use std::sync::OnceLock;
use std::time::Duration;

use walwright_diagnose::{DiagnosisId, Finding, findings};
use walwright_record::{
    LoadInterval, PhaseName, Record, RunHeader, RunId, RunState, Schedule, Source, Timestamp,
    Warning, WarningCode,
};
use walwright_report::html::Links;
use walwright_report::terminal::Style;
use walwright_report::{Document, RunReport, diagnosis};

use crate::synthetic::{PREPARE, WARM_UP, at, record_of};

/// The three renderings of a record.
struct Rendered {
    html: String,
    terminal: String,
    markdown: String,
}

const STYLE: Style = Style { width: 80, colour: false, unicode: true };

fn render(record: &Record) -> Rendered {
    let report = RunReport::new(record.clone());
    Rendered {
        html: markup(report.document()),
        terminal: report.document().summary(&STYLE, false),
        markdown: report.document().markdown(),
    }
}

/// A page without its style and its script.
pub fn markup(of: &Document) -> String {
    of.linked(&Links::default())
}

/// What a page says, an element a line: without its style, its pictures, and the version that
/// rendered it.
pub fn text_of(page: &str) -> String {
    let mut text = page.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    for left_out in ["style", "script", "svg"] {
        let (begins, ends) = (format!("<{left_out}"), format!("</{left_out}>"));
        while let Some(from) = text.find(&begins) {
            let to = text[from..].find(&ends).map(|to| from + to + ends.len()).unwrap();
            text.replace_range(from..to, "");
        }
    }
    let pieces = text.split('<').filter_map(|piece| Some(piece.split_once('>')?.1.trim()));
    pieces.filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("\n")
}

impl Rendered {
    fn all_say(&self, text: &str) {
        for (name, rendering) in
            [("html", &self.html), ("terminal", &self.terminal), ("markdown", &self.markdown)]
        {
            // Lines of a terminal break anywhere; a page has its characters escaped.
            let joined = rendering.split_whitespace().collect::<Vec<_>>().join(" ");
            let joined = joined.replace("&#39;", "'");
            assert!(joined.contains(text), "{name} does not say '{text}':\n{joined}");
        }
    }

    /// No rendering may show the insides of a computation that went wrong.
    fn is_sound(&self) {
        for rendering in [&self.html, &self.terminal, &self.markdown] {
            for wrong in ["NaN", "inf ", "-inf", "None", "Some("] {
                assert!(!rendering.contains(wrong), "'{wrong}' in\n{rendering}");
            }
        }
    }
}

/// A run of twenty seconds, made once.
fn short() -> Record {
    static RECORD: OnceLock<Record> = OnceLock::new();
    RECORD.get_or_init(|| record_of(20)).clone()
}

fn empty() -> Record {
    Record::new(RunHeader {
        id: RunId("20261120-235012-k3f".into()),
        started: Timestamp(1_795_218_612_000_000),
        ended: None,
        state: RunState::Interrupted,
        walwright_version: "0.1.0".into(),
        command: "walwright run".into(),
        label: None,
        workload: "tpcb".into(),
        target: "somewhere".into(),
        error: Some("the walwright process that ran this died".into()),
    })
}

#[test]
fn a_whole_run_says_its_figures_everywhere() {
    let record = record_of(60);
    let rendered = render(&record);
    rendered.is_sound();
    insta::assert_snapshot!("run_terminal", rendered.terminal);
    insta::assert_snapshot!("run_markdown", rendered.markdown);
    insta::assert_snapshot!("run_page", text_of(&rendered.html));
    for id in [
        "throughput",
        "latency",
        "waits",
        "wal",
        "flushes",
        "flush_time",
        "disk_busy",
        "disk_latency",
        "cpu",
    ] {
        assert!(rendered.html.contains(&format!("data-panel=\"{id}\"")), "no plot of {id}");
    }
    // A checkpoint shows on every plot and in the strip above them.
    assert_eq!(rendered.html.matches("class=\"cp-end\"").count(), 11);
}

#[test]
fn a_diagnosis_tells_each_finding_with_its_evidence() {
    let text = diagnosis(&findings(&record_of(60))).terminal(&STYLE);
    insta::assert_snapshot!("diagnosis_terminal", text);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest} columns:\n{text}");
}

#[test]
fn a_finding_with_a_moment_leads_to_it_on_the_timeline() {
    let report = RunReport::new(record_of(60));
    let window = report.record.window().unwrap();
    let (of_a_moment, of_all): (Vec<&Finding>, Vec<&Finding>) =
        report.diagnosis.findings.iter().partition(|finding| finding.window != window);
    assert_eq!(of_a_moment.iter().map(|of| of.id).collect::<Vec<_>>(), [DiagnosisId::D35]);
    assert!(of_all.len() > 3, "{of_all:?}");
    let page = markup(report.document());
    let (from, to) = (WARM_UP + 24, WARM_UP + 39);
    assert!(page.contains(&format!("href=\"#mark={from}.0,{to}.0\"")), "not marked: {page}");
    assert_eq!(page.matches("#mark=").count(), 1, "the others have no moment");
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let page = RunReport::new(short()).document().html();
    // Parts of the page itself may be named.
    let page = page.replace("url(#", "");
    for outside in ["http:", "https:", " src=", "@import", "url(", "<link", "<img", "<iframe"] {
        assert!(!page.contains(outside), "'{outside}' in the page");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn ten_minutes_fit_a_megabyte() {
    let page = RunReport::new(record_of(600)).document().html();
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn a_summary_fits_a_screen() {
    let mut record = short();
    for n in 0..30 {
        let text = format!(
            "warning number {n} that is long enough to need more than one line of a screen of eighty columns"
        );
        record.warnings.push(Warning::new(WarningCode::Other, text).hint("do something about it"));
    }
    let report = RunReport::new(record);
    for (width, unicode) in [(80, true), (80, false), (100, true)] {
        let text = report.document().summary(&Style { width, colour: false, unicode }, false);
        assert!(text.lines().count() <= 38, "{} lines:\n{text}", text.lines().count());
        let longest = text.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(longest <= width, "{longest} columns of {width}:\n{text}");
        assert!(text.contains("more in the report"), "{text}");
        assert!(unicode || text.is_ascii(), "{text}");
        let all = report.document().summary(&Style { width, colour: false, unicode }, true);
        assert!(all.contains("number 29") && !all.contains("more in the report"), "{all}");
    }
}

#[test]
fn colours_are_off_when_asked() {
    let report = RunReport::new(short());
    let plain = report.document().summary(&Style::for_terminal(80, false), false);
    let coloured = report.document().summary(&Style::for_terminal(80, true), false);
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b[32m"));
    let mut stripped = String::new();
    for (i, part) in coloured.split('\x1b').enumerate() {
        stripped += if i == 0 { part } else { part.split_once('m').unwrap().1 };
    }
    assert_eq!(stripped, plain, "colours add nothing but colour");
}

#[test]
fn a_run_that_died_at_once_says_so_and_shows_no_zeros() {
    let rendered = render(&empty());
    rendered.is_sound();
    rendered.all_say("Interrupted");
    rendered.all_say("The walwright process that ran this died.");
    rendered.all_say("The run ended before its measured window began, so it has no figures.");
    insta::assert_snapshot!(rendered.terminal, @r"
    Interrupted. The walwright process that ran this died.
    tpcb                                                         20261120-235012-k3f
    Ended before the load began.

    Load         The run ended before its measured window began, so it has no
                 figures.
    ");
    for zero in [" 0/s", " 0 ms", "0 B per"] {
        assert!(!rendered.terminal.contains(zero), "{}", rendered.terminal);
    }
    assert!(rendered.html.contains("ended before there was anything to plot"));
    assert!(!rendered.html.contains("<svg"));
}

#[test]
fn a_run_that_died_in_its_warm_up_is_plotted_without_figures() {
    let mut record = short();
    record.header.state = RunState::Interrupted;
    record.header.ended = None;
    record.phases.retain(|p| !matches!(p.name, PhaseName::Measure | PhaseName::Collect));
    record.phases.last_mut().unwrap().end = None;
    let cut = at((PREPARE + WARM_UP - 5) as f64);
    record.intervals.retain(|i| i.start < cut);
    record.samples.values_mut().for_each(|samples| samples.retain(|s| s.at < cut));
    let rendered = render(&record);
    rendered.is_sound();
    rendered.all_say("The run ended before its measured window began");
    rendered.all_say("phase 'warm-up'");
    assert!(rendered.html.contains("data-panel=\"throughput\""));
    assert!(!rendered.html.contains("ph-measured\"/>"), "nothing was measured");
}

#[test]
fn someone_elses_load_has_no_latency_but_has_waits() {
    let mut record = short();
    record.intervals.clear();
    record.statement_latency.clear();
    record.load = None;
    record.workload = None;
    record.instrument = None;
    record.header.workload = String::new();
    let rendered = render(&record);
    rendered.is_sound();
    rendered.all_say("The load was not walwright's: what clients saw is not observable.");
    rendered.all_say("Observed load on PostgreSQL 18.6");
    rendered.all_say("per commit");
    assert!(rendered.html.contains("data-panel=\"waits\""));
    assert!(!rendered.html.contains("data-panel=\"latency\""));
}

#[test]
fn without_samples_what_is_missing_is_named() {
    let mut record = short();
    record.samples.clear();
    record.host = None;
    let rendered = render(&record);
    rendered.is_sound();
    for text in [
        "Waits of sessions: not observable",
        "WAL: not observable",
        "CPU by process: not observable",
        "no samples of statements inside the window",
    ] {
        assert!(rendered.html.contains(text), "the page does not say '{text}'");
    }
    assert!(rendered.terminal.contains("WAL          not observable"), "{}", rendered.terminal);
    assert!(rendered.html.contains("data-panel=\"throughput\""));
}

#[test]
fn any_one_source_may_be_missing() {
    let whole = short();
    for source in Source::ALL {
        let mut record = whole.clone();
        record.samples.remove(&source);
        render(&record).is_sound();
    }
}

#[test]
fn no_transaction_ended_well() {
    let mut record = short();
    for script in record.intervals.iter_mut().flat_map(|i: &mut LoadInterval| &mut i.scripts) {
        script.failures.insert("57P01".into(), script.transactions);
        script.transactions = 0;
        script.latency = Default::default();
    }
    record.statement_latency.clear();
    let rendered = render(&record);
    rendered.is_sound();
    rendered.all_say("57P01");
    assert!(rendered.terminal.contains("no transaction ended well"), "{}", rendered.terminal);
    assert!(rendered.html.contains("admin shutdown"));
}

#[test]
fn a_pass_mark_is_a_word_not_a_colour() {
    let mut record = short();
    let mark = |record: &mut Record, micros| {
        record.workload.as_mut().unwrap().pass_mark = Some(Duration::from_micros(micros));
    };
    mark(&mut record, 500);
    let rendered = render(&record);
    rendered.all_say("FAIL");
    rendered.all_say("not under the workload's mark of 0.50 ms");
    rendered.all_say("Empty query");
    rendered.all_say("median round trip beside the load");
    mark(&mut record, 50_000);
    let rendered = render(&record);
    rendered.all_say("PASS");
    assert!(!rendered.terminal.contains("FAIL"));
}

#[test]
fn an_open_loop_says_offered_and_reached() {
    let mut record = short();
    record.load.as_mut().unwrap().schedule =
        Schedule::Open { rate: 6_000.0, poisson: true, latency_limit: None };
    for interval in &mut record.intervals {
        interval.due = 6_000;
        interval.lag = interval.scripts[0].latency.clone();
    }
    let rendered = render(&record);
    rendered.is_sound();
    rendered.all_say("6,000/s");
    assert!(rendered.html.contains("data-panel=\"lag\""));
    assert!(rendered.terminal.contains("reached"), "{}", rendered.terminal);
}

#[test]
fn text_from_outside_stays_text() {
    const EVIL: &str = "</script><script>alert(1)</script>'\"&{{ 7*7 }}\x1b[31m";
    let mut record = short();
    record.header.label = Some(EVIL.into());
    record.header.command = EVIL.into();
    record.header.error = Some(EVIL.into());
    record.header.state = RunState::Failed;
    record.warnings.push(Warning::new(WarningCode::Other, EVIL).hint(EVIL));
    let workload = record.workload.as_mut().unwrap();
    workload.name = EVIL.into();
    workload.scripts[0].name = EVIL.into();
    workload.scripts[0].text = EVIL.into();
    workload.scripts[0].statements[0] = EVIL.into();
    record.settings[0].shown = EVIL.into();
    record.target.as_mut().unwrap().address = EVIL.into();
    record.events[0].text = EVIL.into();
    record.host.as_mut().unwrap().cpu_model = Some(EVIL.into());
    record.intervals[25].scripts[0].failures.insert(EVIL.into(), 1);
    for source in [Source::Statements, Source::Processes, Source::Waits] {
        let rows = record.samples.get_mut(&source).unwrap().iter_mut().flat_map(|s| &mut s.rows);
        for row in rows {
            for column in ["query", "process_group", "wait_event"] {
                if row.text(column).is_some() {
                    row.set(column, EVIL);
                }
            }
        }
    }
    let rendered = render(&record);
    assert!(!rendered.html.contains("<script>alert"));
    assert_eq!(rendered.html.matches("<script").count(), 2, "only ours");
    assert!(rendered.html.contains("{{ 7*7 }}"), "templates in text are not run");
    assert!(!rendered.terminal.contains('\x1b'), "{}", rendered.terminal);
    assert!(!rendered.markdown.contains("<script>") || rendered.markdown.contains("`"));
}

#[test]
fn someone_elses_load_is_told_in_commits_and_by_its_clients_own_totals() {
    use walwright_record::{
        ClientDetail, ClientFacts, ClientLog, ClientUnit, OperationTotals, Row, Sample, Source,
    };

    let mut record = short();
    let window = record.window().unwrap();
    record.intervals.clear();
    record.load = None;
    record.samples.remove(&Source::ProbeCost);
    record.samples.remove(&Source::Database);
    for second in 0..20_u64 {
        let mut row = Row::new();
        row.set("xact_commit", 7_000 + 1_234 * second);
        let at = window.start.plus(std::time::Duration::from_secs(second));
        let sample = Sample { at, source: Source::Database, rows: vec![row] };
        record.samples.entry(Source::Database).or_default().push(sample);
    }
    let totals = OperationTotals {
        name: "all requests".to_owned(),
        count: Some(4_321),
        percentiles: vec![(95.0, std::time::Duration::from_millis(42))],
        ..OperationTotals::default()
    };
    record.client = Some(ClientFacts {
        unit: ClientUnit::Request,
        operations: Vec::new(),
        logs: vec![ClientLog {
            file: "k6.json".to_owned(),
            format: "k6 summary".to_owned(),
            detail: ClientDetail::Totals,
            sampling: None,
            first: None,
            last: None,
            succeeded: Some(4_300),
            failures: [("failed".to_owned(), 21)].into(),
            totals: vec![totals],
            notes: Vec::new(),
        }],
    });
    let rendered = render(&record);
    rendered.is_sound();
    rendered.all_say("server transactions (commits)");
    rendered.all_say("1,234");
    rendered.all_say("4,321 all requests");
    rendered.all_say("its whole test");
    rendered.all_say("failed × 21");
}

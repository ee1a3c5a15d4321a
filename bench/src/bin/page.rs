//! What the page of a long run costs a browser: bytes, first paint, zoom, frames.

#[path = "../../../crates/report/tests/report/synthetic/mod.rs"]
mod synthetic;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use walwright_report::html::{Links, POLICY, SCRIPT, STYLE};
use walwright_report::{Document, RunReport};
use walwright_testing::browser::{Browser, Screen, Tab};
use walwright_testing::site::Site;

/// Opens the page of a run in headless Chromium, served and as a file, and prints what it costs
/// beside what it may cost; fails where it costs more.
#[derive(Parser)]
struct Cli {
    /// Seconds of load in the run, which is made up: one value of every series a second.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// How often each page is opened; the median counts.
    #[arg(long, default_value_t = 7)]
    repeats: usize,
    /// Also pictures pages, in light and dark, on a phone and printed, into this directory.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

/// Largest page, compressed, in bytes: markup, style and script.
const BYTES: f64 = 100_000.0;
/// Longest time to the first paint, of a zoom, and of a frame, in milliseconds.
const FIRST_PAINT: f64 = 300.0;
const ZOOM: f64 = 50.0;
const FRAME: f64 = 16.0;

/// Plots are drawn by the script.
const DRAWN: &str = "document.querySelectorAll('.give').length > 0";

/// Milliseconds from a zoom to the end of the frame that shows it.
const ZOOMED: &str = "new Promise((done) => {
    const [from, to] = [walwright.sheet.view().range[0], walwright.sheet.view().range[1]];
    const middle = (from + to) / 2, half = (to - from) / 5;
    requestAnimationFrame(() => {
        const begun = performance.now();
        walwright.sheet.set({ zoom: [middle - half, middle + half] }).then(() => requestAnimationFrame(() => {
            const channel = new MessageChannel();
            channel.port1.onmessage = () => done(performance.now() - begun);
            channel.port2.postMessage(0);
        }));
    });
})";

/// Main thread milliseconds of each of 120 frames: `move` is called with the frame's number
/// before it is drawn.
fn frames(step: &str) -> String {
    format!(
        "new Promise((done) => {{
            const spent = [], channel = new MessageChannel();
            let begun = 0, n = 0;
            channel.port1.onmessage = () => {{ spent.push(performance.now() - begun); if (n < 120) next(); else done(spent); }};
            const box = document.querySelector('.timeline'), plot = document.querySelector('svg[data-panel=wal]');
            const at = (kind, share) => {{
                const r = plot.getBoundingClientRect();
                plot.dispatchEvent(new PointerEvent(kind, {{ bubbles: true, button: 0, pointerId: 1, clientX: r.x + (0.1 + 0.6 * share) * r.width, clientY: r.y + 20 }}));
            }};
            const next = () => {{
                n += 1;
                ({step})(n / 120, at);
                requestAnimationFrame((frame) => {{ begun = performance.now(); channel.port2.postMessage(0); }});
            }};
            plot.scrollIntoView({{ block: 'center' }});
            next();
        }})"
    )
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let report = RunReport::new(synthetic::record_of(cli.seconds));
    let document = report.document();
    let mut within = sizes(document);

    let mut browser = Browser::start().context("no Chromium: apt-get install chromium")?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("run.html");
    std::fs::write(&file, document.html())?;
    let site = Site::new(POLICY);
    site.put("/page.css", "text/css", STYLE.to_owned());
    site.put("/page.js", "text/javascript", SCRIPT.to_owned());
    site.put("/run", "text/html", document.linked(&links()));
    let series = document.series().context("a run has a timeline")?;
    site.put("/series", "application/json", series.json());
    let served = format!("http://{}/run", site.address);
    let alone = format!("file://{}", file.display());

    for (name, address) in [("served", &served), ("as a file", &alone)] {
        let mut paints = Vec::new();
        let mut zooms = Vec::new();
        for _ in 0..cli.repeats.max(1) {
            let mut tab = browser.open(address, Screen::DESK);
            tab.until("performance.getEntriesByName('first-contentful-paint').length");
            paints.push(number(
                &mut tab,
                "performance.getEntriesByName('first-contentful-paint')[0].startTime",
            ));
            ready(&mut tab);
            zooms.push(number(&mut tab, ZOOMED));
        }
        within &= told(&format!("first paint, {name}"), median(&mut paints), FIRST_PAINT, "ms");
        within &= told(&format!("zoom, {name}"), median(&mut zooms), ZOOM, "ms");
    }
    let mut tab = browser.open(&served, Screen::DESK);
    ready(&mut tab);
    for (name, step) in [
        ("crosshair", "(share, at) => at('pointermove', share)"),
        (
            "brush",
            "(share, at) => { if (share < 0.01) at('pointerdown', 0); at('pointermove', share); }",
        ),
        (
            "pan of a zoom",
            "(share) => walwright.sheet.set({ zoom: [200 + 2000 * share, 1000 + 2000 * share] })",
        ),
    ] {
        let spent = tab.value(&frames(step));
        let mut spent: Vec<f64> =
            spent.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect();
        spent.sort_by(f64::total_cmp);
        let p95 = spent[spent.len() * 95 / 100];
        within &= told(&format!("frame, {name}, p95 of {}", spent.len()), p95, FRAME, "ms");
    }
    drop(tab);
    if let Some(pictures) = &cli.pictures {
        picture(&mut browser, &alone, pictures)?;
    }
    anyhow::ensure!(within, "the page costs more than it may");
    Ok(())
}

fn links() -> Links<'static> {
    Links { style: "/page.css", script: "/page.js", series: Some("/series"), ..Links::default() }
}

/// Prints what goes over the wire; whether the page is as small as it is to be.
fn sizes(document: &Document) -> bool {
    let markup = document.linked(&links());
    let series = document.series().map(|series| series.json()).unwrap_or_default();
    let parts = [("markup", markup.as_str()), ("style", STYLE), ("script", SCRIPT)];
    for (name, part) in parts.into_iter().chain([("figures, when reached for", series.as_str())]) {
        println!("{name}: {} bytes, {} with gzip", part.len(), packed(part));
    }
    let alone = document.html();
    println!("as a file: {} bytes, {} with gzip", alone.len(), packed(&alone));
    let page: usize = parts.iter().map(|(_, part)| packed(part)).sum();
    told("page, served with gzip", page as f64, BYTES, "bytes")
}

fn packed(text: &str) -> usize {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = packer.write_all(text.as_bytes());
    packer.finish().map_or(0, |packed| packed.len())
}

/// Has the page read its figures and draw from them.
fn ready(tab: &mut Tab<'_>) {
    let (x, y) = tab.middle("svg[data-panel=throughput]");
    tab.point(x, y);
    tab.until(DRAWN);
}

fn number(tab: &mut Tab<'_>, expression: &str) -> f64 {
    tab.value(expression).as_f64().unwrap_or(f64::NAN)
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn told(name: &str, value: f64, most: f64, unit: &str) -> bool {
    let holds = value < most;
    println!("{name}: {value:.0} {unit}, {} {most:.0}", if holds { "below" } else { "NOT below" });
    holds
}

fn picture(browser: &mut Browser, page: &str, into: &std::path::Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into)?;
    let marked = "#zoom=60,240&mark=100,130&p=99.9&at=115";
    for (name, screen, fragment) in [
        ("light", Screen::DESK, ""),
        ("dark", Screen::DESK.dark(), marked),
        ("phone", Screen::PHONE, marked),
    ] {
        let mut tab = browser.open(&format!("{page}{fragment}"), screen);
        tab.until(DRAWN);
        std::fs::write(into.join(format!("{name}.png")), tab.picture(true))?;
        if name == "light" {
            std::fs::write(into.join("print.pdf"), tab.print())?;
        }
    }
    println!("pictures in {}", into.display());
    Ok(())
}

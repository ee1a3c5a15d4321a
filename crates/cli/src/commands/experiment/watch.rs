//! An experiment while it goes on: lines on standard error, and on a terminal a line
//! that is rewritten within a run.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use walwright_diagnose::experiment::{Look, Outlook, Prospect};
use walwright_lab::Progress;
use walwright_lab::experiment::{Estimate, Notice, Watcher};
use walwright_report::format;

/// Time between rewrites of the line within a run.
const EVERY: Duration = Duration::from_millis(500);
/// Time between lines within a run where nothing can be rewritten.
const EVERY_LINE: Duration = Duration::from_secs(30);

/// Columns of the bar.
const BAR: usize = 16;

/// Prints what happens.
pub struct Lines {
    inner: Mutex<Inner>,
}

struct Inner {
    began: Instant,
    terminal: bool,
    last: Instant,
    /// Which run it is: `run 4 of 18, block 1 of 6, large WAL`.
    run: String,
    /// Whether a rewritten line stands there.
    rewritten: bool,
    /// Runs done and planned.
    runs: (usize, usize),
}

impl Lines {
    /// Nothing printed yet.
    pub fn new() -> Lines {
        Lines {
            inner: Mutex::new(Inner {
                began: Instant::now(),
                terminal: std::io::stderr().is_terminal(),
                last: Instant::now(),
                run: String::new(),
                rewritten: false,
                runs: (0, 0),
            }),
        }
    }
}

impl Watcher for Lines {
    fn notice(&self, notice: Notice<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Estimate(of) => inner.text(&estimate_text(of)),
            Notice::Loading { arm } => inner.run = format!("data of {arm}"),
            Notice::Begins { run, of, block, blocks, arm } => {
                inner.run = format!("run {run} of {of}, block {block} of {blocks}, {arm}");
                inner.runs = (run - 1, of);
                inner.last = Instant::now();
            }
            Notice::Run(progress) => inner.progress(progress),
            Notice::Done { arm: _, metric, value, left } => {
                let value = value.map_or_else(
                    || format::NOT_OBSERVABLE.to_owned(),
                    |value| walwright_report::metric_value(metric.unit, value),
                );
                let run = inner.run.clone();
                let left = about(left);
                inner.line(&format!("{run}: {} {value}; {left} left", metric.name));
            }
            Notice::Again { arm, why } => {
                inner.line(&format!("{arm}: the run failed and is tried again: {why}"));
            }
            Notice::GivenUp { arm, why } => {
                inner.line(&format!("{arm} is given up, all others go on: {why}"));
            }
            Notice::Block { done, of, negligible, arms } => {
                inner.block(done, of, negligible, arms);
            }
            Notice::Look(look) => inner.line(match look {
                Look::Clear => "look: every arm is clear, so it ends here",
                Look::Hopeless => {
                    "look: what is open will stay open with the blocks planned, so it ends here"
                }
                Look::Open => "look: not clear yet, it goes on",
            }),
        }
    }
}

impl Inner {
    fn line(&mut self, text: &str) {
        self.clear();
        let at = self.began.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "[{at:6.0} s] {text}");
        self.last = Instant::now();
    }

    fn text(&mut self, text: &str) {
        self.clear();
        let _ = write!(std::io::stderr(), "{text}");
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.rewritten) {
            // Back to the first column, and erase what stands there.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Within a run: what it is at.
    fn progress(&mut self, progress: &Progress<'_>) {
        let now = match progress {
            Progress::Phase(name) => name.name().to_owned(),
            Progress::Step(text) => (*text).to_owned(),
            Progress::Rows { done, total } => {
                format!("{} of {} rows", format::count(*done), format::count(*total))
            }
            Progress::Interval { interval, measured, wanted } => {
                let seconds = interval.length.as_secs_f64().max(1e-3);
                let rate = walwright_diagnose::transactions(interval) as f64 / seconds;
                match measured.is_zero() {
                    true => format!("warming up, {}", format::rate(rate)),
                    false => format!(
                        "measured {:.0} of {:.0} s, {}",
                        measured.as_secs_f64(),
                        wanted.as_secs_f64(),
                        format::rate(rate)
                    ),
                }
            }
            _ => return,
        };
        if self.terminal && self.last.elapsed() >= EVERY {
            let text = format!("{} {}: {now}", bar(self.runs), self.run);
            let width = crate::show::terminal_width().saturating_sub(1);
            let text: String = text.chars().filter(|c| !c.is_control()).take(width).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
            self.rewritten = true;
            self.last = Instant::now();
        } else if !self.terminal && self.last.elapsed() >= EVERY_LINE {
            let run = self.run.clone();
            self.line(&format!("{run}: {now}"));
        }
    }

    /// After a block: how every arm stands and what the rest will buy.
    fn block(
        &mut self,
        done: usize,
        of: usize,
        negligible: f64,
        arms: &[(String, Option<Outlook>)],
    ) {
        self.line(&format!("block {done} of {of} is done"));
        for (name, outlook) in arms {
            let Some(outlook) = outlook else { continue };
            let percent = |share: f64| format!("{:+.1}", share * 100.0).replace('-', "−");
            let mut text = format!(
                "{name}: {} % ({} to {} %)",
                percent(outlook.change),
                percent(outlook.now.low),
                percent(outlook.now.high)
            );
            if done < of {
                let then = match outlook.prospect(negligible) {
                    Prospect::WillShow => "this will show",
                    Prospect::WillBeNegligible => "this will show to be too small to matter",
                    Prospect::WillStayOpen => "this will not become clear",
                };
                text.push_str(&format!(
                    "; after {of} blocks {} to {} %: {then}",
                    percent(outlook.then.low),
                    percent(outlook.then.high)
                ));
            }
            let _ = writeln!(std::io::stderr(), "           {text}");
        }
    }
}

/// Runs done of those planned, as a bar.
fn bar((done, of): (usize, usize)) -> String {
    let full = (done * BAR).checked_div(of).unwrap_or(0).min(BAR);
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

/// What an experiment will take, as text of some lines.
pub fn estimate_text(of: &Estimate) -> String {
    let mut text = format!("{}\n", of.name);
    if !of.id.is_empty() {
        text.push_str(&format!("experiment {}\n", of.id));
    }
    let arms = format::counted(of.arms as u64, "arm");
    text.push_str(&format!(
        "{} blocks of the baseline, the baseline again and {arms}: {} runs of about {}, {} in all",
        of.blocks,
        of.runs,
        format::length(of.per_run),
        about(of.per_run * u32::try_from(of.runs).unwrap_or(u32::MAX))
    ));
    if of.done > 0 {
        text.push_str(&format!("; {} are done, {} left", of.done, about(of.left)));
    }
    text.push('\n');
    if of.blocks < of.blocks_to_prove {
        text.push_str(&format!(
            "screening only: {} blocks can prove nothing of {arms}, {} can\n",
            of.blocks, of.blocks_to_prove
        ));
    }
    if let [first, .., _] = of.looks[..] {
        let looks: Vec<String> = of.looks.iter().map(usize::to_string).collect();
        text.push_str(&format!(
            "it may end after {first} blocks: looks after {}\n",
            looks.join(", ")
        ));
    }
    text
}

/// A length of time nobody needs exactly.
fn about(of: Duration) -> String {
    match of.as_secs() {
        0..=99 => format!("about {} s", of.as_secs()),
        100..=5_999 => format!("about {} min", (of.as_secs() + 30) / 60),
        more => format!("about {:.1} h", more as f64 / 3600.0),
    }
}

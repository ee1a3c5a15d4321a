//! Lists of what is in the lab.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use walwright_record::{Headline, RunHeader, RunState};
use walwright_report::{COMPARED as FORM, Document, RunOrder, RunRow, format, run_list};
use walwright_store::Store;

use super::{COMPARED, PAGE, Pages, Query, in_address, locked, refused, text};
use crate::answer::Refusal;

/// Points of a small drawing.
const POINTS: u32 = 60;

/// A list of runs as its address says: which, ordered by what, which part of it.
struct Choice<'a> {
    /// Words that a run must have.
    words: &'a str,
    order: RunOrder,
    ascending: bool,
    /// From 0.
    page: usize,
}

impl<'a> Choice<'a> {
    fn of(asked: &'a Query) -> Choice<'a> {
        let order = asked.get("order").unwrap_or_default();
        let order = RunOrder::ALL.into_iter().find(|known| known.words().0 == order);
        Choice {
            words: asked.get("q").unwrap_or_default(),
            order: order.unwrap_or(RunOrder::Begun),
            ascending: asked.get("ascending").is_some(),
            page: asked.get("page").and_then(|page| page.parse().ok()).unwrap_or(0),
        }
    }

    fn address(&self) -> String {
        let mut address = format!("/?order={}", self.order.words().0);
        if self.ascending {
            address.push_str("&ascending=yes");
        }
        if !self.words.is_empty() {
            address.push_str(&format!("&q={}", in_address(self.words)));
        }
        if self.page > 0 {
            address.push_str(&format!("&page={}", self.page));
        }
        address
    }

    /// Whether each word is somewhere in what a list tells of the run, or in its notes.
    fn fits(&self, run: &RunHeader, notes: &[String]) -> bool {
        let label = run.label.as_deref().unwrap_or_default();
        let told = [&run.id.0, run.state.name(), &run.workload, &run.target, label];
        let notes = notes.iter().map(String::as_str);
        let told = told.into_iter().chain(notes).collect::<Vec<_>>().join(" ").to_lowercase();
        self.words.to_lowercase().split_whitespace().all(|word| told.contains(word))
    }
}

impl Pages {
    /// The runs, and what stands above them.
    pub(crate) fn runs(&self, asked: &Query) -> Result<(Document, String), Refusal> {
        let store = self.store()?;
        let choice = Choice::of(asked);
        let mut runs = store.runs().map_err(|error| refused(&error))?;
        let all = runs.len();
        let notes = store.notes().map_err(|error| refused(&error))?;
        let notes = |run: &RunHeader| notes.get(&run.id.0).map(Vec::as_slice).unwrap_or_default();
        runs.retain(|run| choice.fits(run, notes(run)));
        let headlines = store.headlines().map_err(|error| refused(&error))?;
        let warnings = store.warning_counts().map_err(|error| refused(&error))?;
        runs.sort_by(|a, b| {
            let ordered = compared(choice.order, a, b, &headlines, &warnings);
            if choice.ascending { ordered } else { ordered.reverse() }
        });
        let fits = runs.len();
        let from = choice.page.saturating_mul(PAGE).min(fits);
        let shown = &runs[from..(from + PAGE).min(fits)];
        let rows: Vec<RunRow<'_>> = shown
            .iter()
            .map(|run| RunRow {
                run,
                headline: headlines.get(&run.id.0),
                course: self.course(&store, run),
                warnings: warnings.get(&run.id.0).copied().unwrap_or(0),
                notes: notes(run),
            })
            .collect();
        let mut said = format::counted(all as u64, "run");
        if fits < all {
            said = format!("{fits} of {said}");
        }
        if fits > shown.len() {
            said = format!("{said}; {} to {} are shown", from + 1, from + shown.len());
        }
        let document = run_list(&rows, &said, |order| {
            // A second look at the same column turns it round.
            let ascending = choice.order == order && !choice.ascending;
            Choice { order, ascending, page: 0, ..choice }.address()
        });
        let above = format!("{}{}", search(&choice, fits), compare(shown.len()));
        Ok((document, above))
    }

    /// Throughput over time, small. Of a run that has ended it is read once.
    fn course(&self, store: &Store, run: &RunHeader) -> Vec<f64> {
        if let Some(course) = locked(&self.courses).get(&run.id.0) {
            return course.clone();
        }
        // A list is worth more than one drawing in it.
        let course = store.course(&run.id, POINTS).unwrap_or_default();
        if run.state != RunState::Running {
            locked(&self.courses).insert(run.id.0.clone(), course.clone());
        }
        course
    }
}

fn compared(
    order: RunOrder,
    a: &RunHeader,
    b: &RunHeader,
    headlines: &BTreeMap<String, Headline>,
    warnings: &BTreeMap<String, u32>,
) -> Ordering {
    // What is not known comes last, whichever way round.
    let figure = |of: fn(&Headline) -> f64| {
        let value = |run: &RunHeader| headlines.get(&run.id.0).map_or(-1.0, of);
        value(a).total_cmp(&value(b))
    };
    let by = match order {
        RunOrder::Begun => Ordering::Equal,
        RunOrder::State => a.state.name().cmp(b.state.name()),
        RunOrder::Workload => a.workload.cmp(&b.workload),
        RunOrder::Target => a.target.cmp(&b.target),
        RunOrder::Label => a.label.cmp(&b.label),
        RunOrder::Throughput => figure(|of| of.throughput),
        RunOrder::P50 => figure(|of| of.p50),
        RunOrder::P99 => figure(|of| of.p99),
        RunOrder::Warnings => warnings.get(&a.id.0).cmp(&warnings.get(&b.id.0)),
    };
    by.then_with(|| (a.started, &a.id).cmp(&(b.started, &b.id)))
}

/// What takes the runs that are ticked in the list.
fn compare(shown: usize) -> String {
    if shown < *COMPARED.start() {
        return String::new();
    }
    format!(
        "<form id=\"{FORM}\" method=\"get\" action=\"/compare\" data-least=\"{}\" data-most=\"{}\"><p>\
         <button type=\"submit\">Compare those ticked</button> \
         <span class=\"muted\">two to four, the first in the list as the baseline</span></p></form>",
        COMPARED.start(),
        COMPARED.end()
    )
}

/// What is searched for, and the ways to the parts of a long list.
fn search(choice: &Choice<'_>, fits: usize) -> String {
    let hidden = |name: &str, value: &str| {
        format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
    };
    let order = hidden("order", choice.order.words().0);
    let ascending = if choice.ascending { hidden("ascending", "yes") } else { String::new() };
    let mut markup = format!(
        "<form class=\"search\" method=\"get\" action=\"/\" role=\"search\">{order}{ascending}\
         <label>Words in it <input type=\"search\" name=\"q\" value=\"{}\"></label> \
         <button type=\"submit\">Search</button></form>",
        text(choice.words)
    );
    let last = fits.saturating_sub(1) / PAGE;
    let mut pages = Vec::new();
    let mut way = |page: Option<usize>, said: &str| {
        if let Some(page) = page.filter(|page| *page <= last) {
            let to = Choice { page, ..*choice }.address();
            pages.push(format!("<a href=\"{}\">{said}</a>", text(&to)));
        }
    };
    way(choice.page.checked_sub(1), "Earlier in the list");
    way(Some(choice.page + 1), "Later in the list");
    if !pages.is_empty() {
        markup.push_str(&format!("<nav aria-label=\"Parts\">{}</nav>", pages.join(" ")));
    }
    markup
}

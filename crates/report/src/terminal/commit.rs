//! The page of `walwright commit`: where commit time goes.

use walwright_diagnose::CommitAnatomy;
use walwright_record::Record;

use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::{format, words};

/// Columns of the names at the left.
const NAMES: usize = 15;

/// Where the commit time of one run goes.
pub fn commit(record: &Record, of: &CommitAnatomy, style: &Style) -> String {
    let mut page = Page { style, lines: Vec::new() };
    page.heading(&format!("Where commit time goes: {}", words::title(record)));
    page.lines.push(style.paint(Ansi::Faint, &record.header.id.0));
    let unit = of.unit.name();
    let known = |text: Option<String>| text.unwrap_or_else(|| format::NOT_OBSERVABLE.to_owned());
    page.gap();
    page.field(
        "Commits",
        &format!(
            "{} {unit}s, {} each",
            known(of.rate.map(format::rate)),
            known(of.latency.map(format::latency))
        ),
    );
    page.field(
        "Flushes",
        &format!(
            "{}, {} {unit}s to a flush; one is under way {} of the time",
            known(of.flushes_per_second.map(format::rate)),
            known(of.transactions_per_flush.map(format::number)),
            known(of.flushing.map(format::percent))
        ),
    );
    if let Some(used) = &of.storage {
        page.field("The disk", &words::storage_use(used, record.window().map(|w| w.length())));
    }
    let times = of.mean_flush.zip(of.storage_flush).map(|(mean, storage)| {
        let factor = mean.as_secs_f64() / storage.as_secs_f64();
        format!("; {} times the storage's own {}", format::number(factor), format::latency(storage))
    });
    page.field(
        "A flush takes",
        &format!("{}{}", known(of.mean_flush.map(format::latency)), times.unwrap_or_default()),
    );
    page.stations(of);
    page.wal(of);
    page.delay(of);
    style.finish(&page.lines)
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn gap(&mut self) {
        self.lines.push(String::new());
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(self.style.paint(Ansi::Bold, &one_line(text)));
    }

    fn field(&mut self, name: &str, text: &str) {
        for (i, line) in self.style.wrap(text, NAMES).into_iter().enumerate() {
            let head = if i == 0 { name } else { "" };
            self.lines.push(format!("{head:<NAMES$}{line}"));
        }
    }

    fn text(&mut self, text: &str) {
        self.lines.extend(self.style.indented(text, 2, None));
    }

    fn stations(&mut self, of: &CommitAnatomy) {
        self.gap();
        self.heading("Who waits for whom");
        if of.stations.is_empty() {
            self.text("No session was seen waiting on the way of a commit, or wait events were not sampled.");
        }
        for station in &of.stations {
            self.text(&format!(
                "{}: {} ({} of the latency), {} sessions at a time, for {}.",
                station.name,
                format::seconds(station.per_transaction.center),
                format::percent(station.share),
                format::number(station.sessions),
                station.waits_for
            ));
        }
    }

    fn wal(&mut self, of: &CommitAnatomy) {
        self.gap();
        self.heading("What is written");
        let figure = |value: Option<f64>, show: fn(f64) -> String| {
            value.map_or_else(|| format::NOT_OBSERVABLE.to_owned(), show)
        };
        self.text(&format!(
            "{} of WAL a {}, {} records; at most {} of it full-page images.",
            figure(of.wal_bytes, format::bytes),
            of.unit.name(),
            figure(of.wal_records, format::number),
            figure(of.image_share, format::percent)
        ));
        for writer in &of.writers {
            let images = writer.images_per_call.filter(|n| *n >= 0.005);
            let images =
                images.map(|n| format!(", {} images", format::number(n))).unwrap_or_default();
            self.text(&format!(
                "{:>6}  {} a call, {} calls{images}: {}",
                format::percent(writer.share),
                format::bytes(writer.bytes_per_call),
                format::number(writer.calls),
                writer.statement
            ));
        }
    }

    fn delay(&mut self, of: &CommitAnatomy) {
        self.gap();
        self.heading("What commit_delay could do");
        let Some(delay) = &of.delay else {
            self.text("That cannot be said without flushes counted and timed by the server.");
            return;
        };
        let siblings =
            delay.siblings.map(|n| format!(", commit_siblings {n:.0}")).unwrap_or_default();
        self.text(&format!("In force: {} of delay{siblings}.", format::latency(delay.now)));
        if delay.now.is_zero() {
            self.text(&format!(
                "With half a flush, {}, {} more commits would arrive while one waits: at most {} of \
                 the flushes could be spared.",
                format::latency(delay.half_flush),
                format::number(delay.joining),
                format::percent(delay.spared)
            ));
        }
        self.text(
            "It cannot make a single commit faster: each waits that much longer. It pays only \
             where flushes, not processors or locks, are what limits; prove it by an experiment.",
        );
    }
}

//! The stretch that is diagnosed next: its samples, as a record.

use std::collections::BTreeMap;

use walwright_record::{
    HostFacts, Phase, PhaseName, Record, Row, RunHeader, Sample, SchemaFacts, Setting, Source,
    TargetFacts, Timestamp,
};

/// What does not change from one stretch to the next.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The header of the records.
    pub header: RunHeader,
    /// The server.
    pub target: TargetFacts,
    /// Its settings.
    pub settings: Vec<Setting>,
    /// The schema.
    pub schema: SchemaFacts,
    /// The machine.
    pub host: HostFacts,
}

/// Most samples of one source that are held: a stretch is then cut short in the middle rather
/// than memory grown.
const MOST: usize = 4_000;

/// The samples of the stretch under way.
///
/// Of the views that list what exists only both ends are held, row by row: of a thousand
/// statements each reading in between would be megabytes.
#[derive(Debug, Default)]
pub struct Window {
    ends: BTreeMap<Source, Ends>,
    samples: BTreeMap<Source, Vec<Sample>>,
    events: Vec<walwright_record::Event>,
    /// End of the stretch before.
    turned: Option<Timestamp>,
}

/// Rows at the beginning of the stretch and those that have changed since.
#[derive(Debug, Default)]
struct Ends {
    first: Option<Timestamp>,
    base: BTreeMap<String, Row>,
    last: Option<Timestamp>,
    changed: BTreeMap<String, Row>,
}

/// Rows of a source followed at most: the probe's own limits are higher than what memory allows.
const ROWS: usize = 4_000;

impl Ends {
    fn take(&mut self, sample: Sample) {
        let Sample { at, source, rows } = sample;
        let into = if self.first.is_none() { &mut self.base } else { &mut self.changed };
        for row in rows {
            let key = row.key(source);
            if into.len() < ROWS || into.contains_key(&key) {
                // Column by column: a query's text is sent once.
                into.entry(key).or_default().update(row);
            }
        }
        match self.first {
            None => self.first = Some(at),
            Some(_) => self.last = Some(at),
        }
    }

    /// The two as samples; what has changed becomes the beginning of the next stretch.
    fn turn(&mut self, source: Source) -> Vec<Sample> {
        let (Some(first), Some(last)) = (self.first, self.last) else { return Vec::new() };
        let changed = std::mem::take(&mut self.changed);
        let whole = |rows: &BTreeMap<String, Row>| rows.values().cloned().collect();
        let samples = vec![
            Sample { at: first, source, rows: whole(&self.base) },
            Sample { at: last, source, rows: whole(&changed) },
        ];
        for (key, row) in changed {
            self.base.entry(key).or_default().update(row);
        }
        (self.first, self.last) = (Some(last), None);
        samples
    }
}

impl Window {
    /// Takes a sample.
    pub fn take(&mut self, sample: Sample) {
        if sample.source.lists_what_exists() {
            self.ends.entry(sample.source).or_default().take(sample);
            return;
        }
        let held = self.samples.entry(sample.source).or_default();
        if held.len() < MOST {
            held.push(sample);
        }
    }

    /// Takes an event of the samplers.
    pub fn event(&mut self, event: walwright_record::Event) {
        if self.events.len() < MOST {
            self.events.push(event);
        }
    }

    /// Forgets what is there: the server is another one.
    pub fn clear(&mut self) {
        *self = Window::default();
    }

    /// The stretch until `end` as a record, and the beginning of the next, which starts with the
    /// last reading of this one; `None` before the database was read twice.
    pub fn turn(&mut self, facts: &Facts, end: Timestamp) -> Option<Record> {
        if self.samples.get(&Source::Database).is_none_or(|held| held.len() < 2) {
            return None;
        }
        let mut record = Record::new(facts.header.clone());
        record.target = Some(facts.target.clone());
        record.settings.clone_from(&facts.settings);
        record.schema = Some(facts.schema.clone());
        record.host = Some(facts.host.clone());
        record.events = std::mem::take(&mut self.events);
        for (source, held) in &mut self.samples {
            let state = held.len().checked_sub(1).map(|last| Sample {
                at: held[last].at,
                source: *source,
                rows: match source.is_sparse() {
                    true => walwright_figures::counters::state_at(held, last, *source)
                        .into_values()
                        .collect(),
                    false => held[last].rows.clone(),
                },
            });
            record.samples.insert(*source, std::mem::take(held));
            held.extend(state);
        }
        for (source, ends) in &mut self.ends {
            let samples = ends.turn(*source);
            if !samples.is_empty() {
                record.samples.insert(*source, samples);
            }
        }
        let turned = self.turned;
        let start = record.samples.iter().filter_map(|(source, samples)| {
            let is_of_it = |sample: &&Sample| {
                *source != Source::Database || turned.is_none_or(|turned| sample.at >= turned)
            };
            Some(samples.iter().find(is_of_it)?.at)
        });
        let start = start.min()?;
        let ended = record.samples.values().filter_map(|samples| samples.last());
        let last = ended.map(|sample| Timestamp(sample.at.0 + 1)).max()?;
        record.header.started = start;
        let (start, end) = (start, end.max(last));
        record.phases.push(Phase { name: PhaseName::Measure, start, end: Some(end) });
        self.turned = Some(end);
        self.keep_commits(&record);
        Some(record)
    }

    /// Keeps the readings of the database since the oldest that the next stretch begins with:
    /// statements are read less often, and what they did goes by the commits of the same time.
    fn keep_commits(&mut self, record: &Record) {
        let bases = self.ends.values().filter_map(|ends| ends.first);
        let carried = self.samples.values().filter_map(|held| held.first().map(|of| of.at));
        let (Some(oldest), read) = (bases.chain(carried).min(), record.samples(Source::Database))
        else {
            return;
        };
        let from = read.partition_point(|sample| sample.at <= oldest).saturating_sub(1);
        self.samples.insert(Source::Database, read[from..].to_vec());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use walwright_testing::{Build, embedded, row, second, wait};

    use super::*;

    /// A reading of each view once a second, of statements each 60 s; turned each 30 s.
    #[test]
    fn each_stretch_knows_its_commits_though_statements_are_read_less_often() {
        let facts = Facts {
            header: Build::new().record.header,
            target: embedded(),
            settings: Vec::new(),
            schema: SchemaFacts::default(),
            host: HostFacts::default(),
        };
        let mut window = Window::default();
        let mut lengths = Vec::new();
        for tick in 0..=180_u32 {
            let (at, n) = (second(f64::from(tick)), f64::from(tick));
            let mut take = |source, row| window.take(Sample { at, source, rows: vec![row] });
            take(Source::Waits, wait("active", "IO", "WalSync", 2.0));
            if tick % 10 == 0 {
                take(Source::Database, row([("xact_commit", 100.0 * n)]));
            }
            if tick % 60 == 0 {
                let mut statement = row([("calls", 100.0 * n), ("total_exec_time", n)]);
                statement.set("queryid", 7_i64);
                take(Source::Statements, statement);
            }
            if tick > 0 && tick % 30 == 0 {
                let record = window.turn(&facts, at.plus(Duration::from_millis(300))).unwrap();
                assert!(walwright_figures::summary(&record).time.is_some(), "{tick}");
                let window = record.window().unwrap();
                lengths.push(window.length().as_secs());
                let statements = walwright_figures::statement_uses(&record, window).ok();
                let calls = statements.map(|of| of.all[0].calls / of.work.count);
                assert_eq!(calls, (tick % 60 == 0).then_some(1.0), "{tick}");
            }
        }
        // Those that end with a reading of statements begin with the one before.
        assert_eq!(lengths, [30, 60, 30, 60, 30, 60]);
    }
}

//! The schema beside what the load did with it.

use std::collections::HashMap;

use walwright_figures::counters::RowDifference;
use walwright_figures::{StatementUse, WaitClass, work_between};
use walwright_record::{SchemaFacts, SchemaTable, Source, TableKind};
use walwright_stats::{Confidence, Estimate, Interval, Method};

use crate::{Evidence, Finding, Impact, Kind, Per, Reading, Relief, Value};

/// Part of the blocks of a scan that a statement is counted with from which it can hold the
/// scan: counters are read at other moments than statements.
const READ: f64 = 0.7;

/// The catalog and the counters of its tables and indexes over the window.
pub(super) struct View<'a, 'r> {
    pub(super) reading: &'a Reading<'r>,
    pub(super) facts: &'r SchemaFacts,
    /// What a transaction is.
    pub(super) per: Per,
    tables: HashMap<u32, RowDifference>,
    indexes: HashMap<u32, RowDifference>,
    /// Work done while the counters moved.
    work: f64,
    /// The statements, each read once: there may be thousands.
    statements: Vec<Text<'a>>,
    /// Seconds of a transaction that statements were sampled waiting for locks, by `queryid`.
    locked: HashMap<String, f64>,
}

/// A statement with what its text says.
struct Text<'a> {
    statement: &'a StatementUse,
    verb: String,
    target: Option<Name>,
}

/// A table's name as a statement writes it, without quotes and in lower case.
struct Name {
    schema: Option<String>,
    name: String,
}

/// What happened to a table in a transaction; to all partitions of one that has some.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct TableUse {
    pub(super) inserted: f64,
    pub(super) updated: f64,
    pub(super) hot: f64,
    /// Updates whose new version went to another page; `None` before 16.
    pub(super) new_page: Option<f64>,
    pub(super) deleted: f64,
    pub(super) sequential_scans: f64,
    pub(super) rows_by_sequential_scans: f64,
}

impl TableUse {
    /// Row versions a transaction that need an entry in every index.
    pub(super) fn index_entries(&self) -> f64 {
        self.inserted + (self.updated - self.hot).max(0.0)
    }
}

impl<'a, 'r> View<'a, 'r> {
    /// The latest facts of the record with the counters of its window; `None` where
    /// either is missing.
    pub(super) fn of(reading: &'a Reading<'r>) -> Option<View<'a, 'r>> {
        let facts = reading.record.schema_end.as_ref().or(reading.record.schema.as_ref())?;
        let tables = reading.difference(Source::Tables).ok()?;
        let work = reading.work(&tables).ok()?;
        let indexes = reading.difference(Source::Indexes).map(|d| d.rows).unwrap_or_default();
        let by = |rows: Vec<RowDifference>, key: &str| {
            rows.into_iter().filter_map(|row| Some((row.last.number(key)? as u32, row))).collect()
        };
        Some(View {
            reading,
            facts,
            per: work.unit.into(),
            statements: texts(reading),
            locked: locked(reading),
            tables: by(tables.rows, "relid"),
            indexes: by(indexes, "indexrelid"),
            work: work.count,
        })
    }

    /// The counters of a table, not summed over partitions.
    pub(super) fn counters(&self, table: u32) -> Option<&RowDifference> {
        self.tables.get(&table)
    }

    /// Scans of an index since statistics began, as the window ended; all partitions of
    /// a partitioned index. `None` where one is not known.
    pub(super) fn scans(&self, index: u32) -> Option<f64> {
        let mut children = self.facts.indexes.iter().filter(|i| i.parent == Some(index)).peekable();
        if children.peek().is_some() {
            return children.map(|child| self.scans(child.oid)).sum();
        }
        let counted = self.indexes.get(&index).and_then(|row| row.last.number("idx_scan"));
        counted.or_else(|| {
            let index = self.facts.indexes.iter().find(|i| i.oid == index)?;
            index.scans.map(|scans| scans as f64)
        })
    }

    /// Scans in the window of each partition of a partitioned index; `None` where one is not known.
    pub(super) fn scans_of_partitions(&self, index: u32) -> Option<Vec<f64>> {
        let mut all = Vec::new();
        for child in self.facts.indexes.iter().filter(|i| i.parent == Some(index)) {
            match self.scans_of_partitions(child.oid)? {
                leaf if leaf.is_empty() => {
                    all.push(self.indexes.get(&child.oid)?.delta("idx_scan")?);
                }
                below => all.extend(below),
            }
        }
        Some(all)
    }

    /// Blocks of an index read from outside shared buffers, a transaction.
    pub(super) fn index_reads(&self, index: u32) -> Option<f64> {
        Some(self.indexes.get(&index)?.delta("idx_blks_read")? / self.work)
    }

    /// The partitions of a table that hold rows, or the table itself.
    pub(super) fn leaves(&self, table: &'r SchemaTable) -> Vec<&'r SchemaTable> {
        if table.kind != TableKind::Partitioned {
            return vec![table];
        }
        let children = self.facts.tables.iter().filter(|child| child.parent == Some(table.oid));
        children.flat_map(|child| self.leaves(child)).collect()
    }

    /// What happened to a table in a transaction; `None` where it was not sampled.
    pub(super) fn used(&self, table: &'r SchemaTable) -> Option<TableUse> {
        let mut sum = TableUse::default();
        for leaf in self.leaves(table) {
            let row = self.tables.get(&leaf.oid)?;
            let of = |column: &str| row.delta(column).map(|n| n / self.work);
            sum.inserted += of("n_tup_ins")?;
            sum.updated += of("n_tup_upd")?;
            sum.hot += of("n_tup_hot_upd")?;
            sum.deleted += of("n_tup_del")?;
            sum.sequential_scans += of("seq_scan")?;
            sum.rows_by_sequential_scans += of("seq_tup_read")?;
            if let Some(moved) = of("n_tup_newpage_upd") {
                sum.new_page = Some(sum.new_page.unwrap_or(0.0) + moved);
            }
        }
        Some(sum)
    }

    /// Tables that are no partitions, and what happened to them.
    pub(super) fn whole_tables(&self) -> impl Iterator<Item = (&'r SchemaTable, TableUse)> {
        let whole = self.facts.tables.iter().filter(|table| table.parent.is_none());
        whole.filter_map(|table| Some((table, self.used(table)?)))
    }

    /// The statements that write this table, or the partitioned table above it, with one of
    /// these verbs; those that functions and triggers run among them, where they are counted.
    pub(super) fn writers(&self, table: &'r SchemaTable, verbs: &[&str]) -> Vec<&'a StatementUse> {
        let mut names = vec![table];
        while let Some(parent) = names.last().and_then(|t| self.facts.table(t.parent?)) {
            names.push(parent);
        }
        let names: Vec<(String, String)> =
            names.iter().map(|t| (t.schema.to_lowercase(), t.name.to_lowercase())).collect();
        self.statements
            .iter()
            .filter(|text| verbs.contains(&text.verb.as_str()))
            .filter(|text| {
                text.target.as_ref().is_some_and(|target| names.iter().any(|t| target.is(t)))
            })
            .map(|text| text.statement)
            .collect()
    }

    /// The client's statements whose text names this table.
    pub(super) fn mentioning(&self, table: &SchemaTable) -> Vec<&'a StatementUse> {
        let name = table.name.to_lowercase();
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let names = |text: &&Text| text.statement.plain().split(|c| !word(c)).any(|w| w == name);
        let sent = self.statements.iter().filter(|text| text.statement.toplevel);
        sent.filter(names).map(|text| text.statement).collect()
    }

    /// Seconds of a transaction that a statement works: its execution time without
    /// what was sampled of it waiting for locks of others.
    pub(super) fn working(&self, statement: &StatementUse) -> f64 {
        let Ok(statements) = &self.reading.statements else { return 0.0 };
        let executing = statement.seconds() / statements.work.count;
        let waiting = self.locked.get(&statement.query_id).copied().unwrap_or(0.0);
        (executing - waiting).max(0.0)
    }

    /// The same for several. One may run inside another: no more than clients waited for.
    pub(super) fn all_working(&self, statements: &[&StatementUse]) -> f64 {
        let Ok(all) = &self.reading.statements else { return 0.0 };
        let most = all.toplevel().map(StatementUse::seconds).sum::<f64>() / all.work.count;
        statements.iter().map(|s| self.working(s)).sum::<f64>().min(most)
    }

    /// Rows of a table as the window ended, of all partitions of one that has some; `None` where
    /// the server has no count.
    pub(super) fn live_rows(&self, table: &'r SchemaTable) -> Option<f64> {
        let live = |leaf: &&SchemaTable| self.tables.get(&leaf.oid)?.last.number("n_live_tup");
        self.leaves(table).iter().map(live).sum()
    }

    /// Pages of a table, all partitions of one that has some.
    pub(super) fn pages(&self, table: &'r SchemaTable) -> f64 {
        let bytes = |leaf: &&SchemaTable| self.tables.get(&leaf.oid)?.last.number("relation_bytes");
        self.leaves(table).iter().filter_map(bytes).sum::<f64>() / 8192.0
    }

    /// Blocks of shared buffers that statements touch, a transaction.
    pub(super) fn blocks(&self, statements: &[&StatementUse]) -> f64 {
        let Ok(uses) = &self.reading.statements else { return 0.0 };
        let of = |s: &StatementUse, column: &str| s.sum(column).unwrap_or(0.0);
        let blocks = |s: &&StatementUse| of(s, "shared_blks_hit") + of(s, "shared_blks_read");
        statements.iter().map(blocks).sum::<f64>() / uses.work.count
    }

    /// The one of the client's statements that touches most blocks, if it can have read so many
    /// of them a transaction.
    pub(super) fn touching(&self, blocks: f64) -> Vec<&'a StatementUse> {
        let all = self.statements.iter().map(|text| text.statement).filter(|s| s.toplevel);
        let of = |s: &&StatementUse| self.blocks(&[*s]);
        let most = all.max_by(|a, b| of(a).total_cmp(&of(b)));
        most.into_iter().filter(|s| blocks > 0.0 && of(s) >= READ * blocks).collect()
    }

    /// Work done while the counters of the tables moved.
    pub(super) fn work_done(&self) -> f64 {
        self.work
    }

    /// A figure of a transaction as evidence.
    pub(super) fn evidence(&self, source: &str, what: &str, value: Value) -> Evidence {
        Evidence::new(source, what, value).per(self.per)
    }

    /// A finding of this window.
    pub(super) fn finding(
        &self,
        id: crate::DiagnosisId,
        kind: Kind,
        cause: impl Into<String>,
    ) -> Finding {
        Finding::new(id, kind, self.reading.window, cause)
    }

    /// States cost and gain of seconds of a transaction that the server computes.
    pub(super) fn costing_cpu(&self, finding: Finding, cost: Estimate) -> Finding {
        let cpu = cost.center;
        let least = cost.low().unwrap_or(0.0);
        let relief = Relief::new(cost.clone(), [WaitClass::Cpu]).at_least(least).and_cpu(cpu);
        finding.costs(self.impact(cost)).gains(self.reading.gain(&relief))
    }

    /// The same of seconds of statements, with their part of the backends' CPU around the
    /// executions and of the wait for a processor.
    pub(super) fn costing_execution(&self, finding: Finding, cost: Estimate) -> Finding {
        let execution = self.reading.execution(cost.center);
        let longer = if cost.center > 0.0 { execution.time / cost.center } else { 1.0 };
        let least = cost.low().unwrap_or(0.0);
        let time = cost.map(|seconds| seconds * longer);
        let relief =
            Relief::new(time.clone(), [WaitClass::Cpu]).at_least(least).and_cpu(execution.cpu);
        finding.costs(self.impact(time)).gains(self.reading.gain(&relief))
    }

    /// States cost and gain of seconds of a transaction that go with WAL, and with so many
    /// seconds of CPU.
    pub(super) fn costing_wal(&self, finding: Finding, cost: Estimate, cpu: f64) -> Finding {
        let from = [WaitClass::Flush, WaitClass::FlushQueue, WaitClass::Cpu];
        let relief = Relief::new(cost.clone(), from).and_cpu(cpu);
        finding.costs(self.impact(cost)).gains(self.reading.gain(&relief))
    }

    fn impact(&self, cost: Estimate) -> Option<Impact> {
        self.reading.impact(cost)
    }

    /// Seconds of a transaction spent flushing WAL or waiting for those who do.
    pub(super) fn flushing(&self) -> f64 {
        let Some(time) = &self.reading.summary.time else { return 0.0 };
        let of = |class| time.part(class).map_or(0.0, |part| part.per_transaction.center);
        of(WaitClass::Flush) + of(WaitClass::FlushQueue)
    }

    /// WAL bytes of a transaction.
    pub(super) fn wal_bytes(&self) -> Option<f64> {
        self.reading.summary.wal.as_ref()?.bytes_per_transaction.filter(|bytes| *bytes > 0.0)
    }
}

/// A cost that a model puts between two ends.
pub(in crate::rules) fn bounded(low: f64, center: f64, high: f64) -> Estimate {
    let high = high.max(0.0);
    let low = low.clamp(0.0, high);
    Estimate {
        center: center.clamp(low, high),
        interval: Some(Interval { low, high }),
        confidence: Confidence::P95,
        method: Method::CostModel,
        warnings: Vec::new(),
    }
}

fn texts<'a>(reading: &'a Reading) -> Vec<Text<'a>> {
    let Ok(statements) = &reading.statements else { return Vec::new() };
    let text = |statement: &'a StatementUse| Text {
        statement,
        verb: statement.verb(),
        target: statement.target().map(|written| Name::of(&written)),
    };
    statements.all.iter().map(text).collect()
}

/// Sessions of a mean tick that wait for a lock, by statement, over transactions a
/// second: seconds of a transaction, by Little's law.
fn locked(reading: &Reading) -> HashMap<String, f64> {
    let samples = reading.record.samples(Source::Waits);
    let ticks: Vec<_> = samples.iter().filter(|s| reading.window.contains(s.at)).collect();
    let [first, .., last] = ticks.as_slice() else { return HashMap::new() };
    let Ok(work) = work_between(reading.record, first.at, last.at) else { return HashMap::new() };
    let rate = work.count / last.at.since(first.at).as_secs_f64();
    let mut locked = HashMap::new();
    for row in ticks.iter().flat_map(|tick| &tick.rows) {
        if row.text("wait_event_type") == Some("Lock")
            && let (Some(id), Some(sessions)) = (row.0.get("query_id"), row.number("sessions"))
        {
            *locked.entry(id.to_string()).or_insert(0.0) += sessions / ticks.len() as f64 / rate;
        }
    }
    locked
}

impl Name {
    fn of(written: &str) -> Name {
        let written = written.replace('"', "");
        match written.rsplit_once('.') {
            Some((schema, name)) => Name { schema: Some(schema.to_owned()), name: name.to_owned() },
            None => Name { schema: None, name: written },
        }
    }

    /// Whether it can be the table of this schema and name, both in lower case.
    fn is(&self, (schema, name): &(String, String)) -> bool {
        self.name == *name && self.schema.as_ref().is_none_or(|own| own == schema)
    }
}

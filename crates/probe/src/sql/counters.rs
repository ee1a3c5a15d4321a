//! The loop that reads everything but wait events.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use walwright_record::{Row, Source, Timestamp};
use walwright_server::{QueryError, Row as PgRow, Statement};

use super::activity::{Activity, ActivityState};
use super::context::{Context, Lost};
use super::events::CheckpointWatch;
use super::failures::{Failures, nothing_read};
use super::relations::{self, Relations, RelationsState};
use super::session::{Session, is_lasting, to_row};
use super::statements::{Statements, StatementsState};
use super::views::{Columns, View, counters};
use crate::cost::{ProbeThread, SlowedSource, thread_cpu};
use crate::observation::{emit, emit_event};
use crate::pace::Pace;
use crate::{ProbeError, Rates};

/// Shares of the machine that the readings may take.
const VIEWS_BUDGET: f64 = 0.0015;
const ACTIVITY_BUDGET: f64 = 0.001;
const STATEMENTS_BUDGET: f64 = 0.001;
const RELATIONS_BUDGET: f64 = 0.001;

/// How long the last reading may hold up the stop.
const LAST_READING: Duration = Duration::from_secs(2);

/// What the loop has to say at its end.
#[derive(Debug, Default)]
pub(crate) struct CountersReport {
    pub(crate) slowed: Vec<SlowedSource>,
    pub(crate) not_observable: Vec<String>,
}

/// The prepared queries of one connection.
struct Prepared {
    views: Vec<(View, Statement)>,
    activity: Option<Activity>,
    statements: Option<Statements>,
    tables: Option<Relations>,
    indexes: Option<Relations>,
}

/// What is remembered from one reading to the next, over reconnections.
struct State {
    checkpoints: CheckpointWatch,
    activity: ActivityState,
    statements: StatementsState,
    tables: RelationsState,
    indexes: RelationsState,
    /// Rows last seen of the views of which only changed rows are stored.
    last: HashMap<(Source, String), Row>,
    /// Sources stored empty last, which need not be stored empty again.
    stored_empty: Vec<Source>,
    not_observable: Vec<String>,
    /// By group of readings.
    failures: [Failures; GROUPS.len()],
}

/// The groups of readings that are paced apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Views,
    Activity,
    Statements,
    Relations,
}

/// All of them, in their order.
const GROUPS: [Group; 4] = [Group::Views, Group::Activity, Group::Statements, Group::Relations];

impl Group {
    fn name(self) -> &'static str {
        match self {
            Group::Views => "statistics views",
            Group::Activity => "sessions and progress",
            Group::Statements => "statements",
            Group::Relations => "tables and indexes",
        }
    }
}

/// Samples until stopped, then once more.
pub(crate) async fn sample(ctx: &Context, mut session: Session, rates: Rates) -> CountersReport {
    let start = Instant::now();
    let processors = rates.budget_processors(ctx.budget_processors());
    let budget = |share: f64| share * processors;
    let mut paces = [
        (Group::Views, Pace::new(rates.counters, budget(VIEWS_BUDGET), start)),
        (Group::Activity, Pace::new(rates.counters, budget(ACTIVITY_BUDGET), start)),
        (Group::Statements, Pace::new(rates.statements, budget(STATEMENTS_BUDGET), start)),
        (Group::Relations, Pace::new(rates.tables, budget(RELATIONS_BUDGET), start)),
    ];
    let mut state = State {
        checkpoints: CheckpointWatch::default(),
        activity: ActivityState::default(),
        statements: StatementsState::new(),
        tables: RelationsState::tables(budget(RELATIONS_BUDGET), rates.first_paid_over()),
        indexes: RelationsState::indexes(budget(RELATIONS_BUDGET), rates.first_paid_over()),
        last: HashMap::new(),
        stored_empty: Vec::new(),
        not_observable: Vec::new(),
        failures: Default::default(),
    };
    let mut ready: Option<Prepared> = None;
    'connection: loop {
        let prepared = ctx.answered(Prepared::new(&mut session, &mut state)).await;
        let prepared = match prepared {
            None => break,
            Some(Ok(prepared)) => ready.insert(prepared),
            Some(Err(error)) => {
                state.failures[Group::Views as usize].take(&error);
                state.failures[Group::Views as usize].lost();
                if !ctx.reopen(&mut session, Lost::Counters).await {
                    break;
                }
                continue;
            }
        };
        if let Some(Ok(cost)) = ctx.answered(relations::cost_of_a_look(&session)).await {
            for (_, pace) in paces.iter_mut().filter(|(group, _)| *group == Group::Relations) {
                pace.expect(cost);
            }
        }
        loop {
            let due = paces.iter().map(|(_, pace)| pace.due()).min().unwrap_or(start);
            if !ctx.sleep_until(due).await {
                break 'connection;
            }
            let now = Instant::now();
            for (group, pace) in &mut paces {
                if pace.due() > now {
                    continue;
                }
                let reading = prepared.sample(*group, ctx, &mut session, &mut state, false);
                let skipped = pace.skipped;
                let Some(result) = ctx.answered(reading).await else {
                    pace.stopped(Instant::now());
                    break;
                };
                match result {
                    Ok(cost) => pace.taken(Instant::now(), Some(cost)),
                    Err(error) if is_lasting(&error) => {
                        state.cannot_see(format!("{}: {}", group.name(), error));
                        prepared.give_up(*group);
                        pace.failed(Instant::now());
                    }
                    Err(error) => {
                        state.failures[*group as usize].take(&error);
                        pace.failed(Instant::now());
                    }
                }
                ctx.cost.skipped(pace.skipped - skipped);
            }
            store_cost(ctx);
            if session.is_lost() {
                ready = None;
                state.failures[Group::Views as usize].lost();
                if !ctx.reopen(&mut session, Lost::Counters).await {
                    break 'connection;
                }
                continue 'connection;
            }
        }
    }
    if let Some(prepared) = &mut ready {
        last_reading(ctx, prepared, &mut session, &mut state).await;
    }
    store_cost(ctx);
    report(state, &paces)
}

/// One more reading of everything, so that the record covers the run to its end.
async fn last_reading(
    ctx: &Context,
    prepared: &mut Prepared,
    session: &mut Session,
    state: &mut State,
) {
    let work = async {
        for group in GROUPS {
            if let Err(error) = prepared.sample(group, ctx, session, state, true).await {
                state.failures[group as usize].take(&error);
            }
            if session.is_lost() {
                return;
            }
        }
    };
    if tokio::time::timeout(LAST_READING, work).await.is_err() {
        state.cannot_see(format!(
            "the end of the record: the server did not answer the probe's last reading within {} s",
            LAST_READING.as_secs()
        ));
    }
}

fn store_cost(ctx: &Context) {
    ctx.cost.measure_thread(ProbeThread::Sql);
    emit(&ctx.sink, ctx.clock.now(), Source::ProbeCost, vec![ctx.cost.row()]);
}

fn report(state: State, paces: &[(Group, Pace)]) -> CountersReport {
    let mut not_observable = state.not_observable;
    for group in GROUPS {
        not_observable.extend(state.failures[group as usize].sentences(group.name()));
    }
    for (group, pace) in paces {
        let name = group.name();
        let is_told = not_observable.iter().any(|sentence| sentence.starts_with(name));
        not_observable.extend((!is_told).then(|| nothing_read(name, pace)).flatten());
    }
    not_observable.extend(state.activity.not_observable());
    not_observable.extend(state.statements.not_observable());
    not_observable.extend(state.tables.not_observable());
    not_observable.extend(state.indexes.not_observable());
    CountersReport {
        slowed: paces
            .iter()
            .filter_map(|(group, pace)| SlowedSource::of(group.name(), pace))
            .collect(),
        not_observable,
    }
}

impl State {
    fn cannot_see(&mut self, sentence: String) {
        if !self.not_observable.contains(&sentence) {
            self.not_observable.push(sentence);
        }
    }
}

impl Prepared {
    /// Prepares everything this server and role allow; what they do not is noted.
    async fn new(session: &mut Session, state: &mut State) -> Result<Prepared, ProbeError> {
        let columns = Columns::detect(session).await?;
        if session.pooled {
            state.cannot_see(
                "the probe's connections are lent by a pooler: its own sessions cannot be told from others; connect to the server itself"
                    .to_owned(),
            );
        }
        if !columns.has_view("pg_stat_io") {
            state.cannot_see("pg_stat_io: PostgreSQL has it from version 16".to_owned());
        }
        let control_file = session
            .client
            .query_one(
                "SELECT has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')",
                &[],
            )
            .await
            .and_then(|row| row.get(0))
            .unwrap_or(false);
        let mut views = Vec::new();
        for view in counters(&columns, control_file) {
            let name = view.source.name();
            if let Some(statement) = allowed(state, name, session.prepare(&view.sql).await)? {
                views.push((view, statement));
            }
        }
        let activity = allowed(state, "sessions", Activity::prepare(session, &columns).await)?;
        let tables = allowed(state, "tables", Relations::tables(session, &columns).await)?;
        let indexes = allowed(state, "indexes", Relations::indexes(session, &columns).await)?;
        let statements = match Statements::prepare(session).await {
            Ok(statements) => Some(statements),
            Err(why) => {
                state.cannot_see(why);
                None
            }
        };
        Ok(Prepared { views, activity, statements, tables, indexes })
    }

    /// Stops asking for what the server refuses for good. Views are given up one by one.
    fn give_up(&mut self, group: Group) {
        match group {
            Group::Views => {}
            Group::Activity => self.activity = None,
            Group::Statements => self.statements = None,
            Group::Relations => (self.tables, self.indexes) = (None, None),
        }
    }

    async fn sample(
        &mut self,
        group: Group,
        ctx: &Context,
        session: &mut Session,
        state: &mut State,
        last: bool,
    ) -> Result<Duration, QueryError> {
        match group {
            Group::Views => self.sample_views(ctx, session, state).await,
            Group::Activity => match &mut self.activity {
                Some(activity) => activity.sample(ctx, session, &mut state.activity).await,
                None => Ok(Duration::ZERO),
            },
            Group::Statements => match &self.statements {
                Some(statements) => {
                    statements.sample(ctx, session, &mut state.statements, last).await
                }
                None => Ok(Duration::ZERO),
            },
            Group::Relations => self.sample_relations(ctx, session, state).await,
        }
    }

    async fn sample_views(
        &mut self,
        ctx: &Context,
        session: &mut Session,
        state: &mut State,
    ) -> Result<Duration, QueryError> {
        let asked: Vec<&Statement> = self.views.iter().map(|(_, statement)| statement).collect();
        let readings = session.read_all(&asked, &ctx.clock, &ctx.cost).await?;
        let mut failed = None;
        let mut refused = Vec::new();
        for ((view, _), answer) in self.views.iter().zip(readings.answers) {
            match answer {
                Ok(rows) => store_view(ctx, state, view, &rows, readings.at),
                Err(error) if is_lasting(&error) => {
                    state.cannot_see(format!("{}: {}", view.source.name(), error));
                    refused.push(view.source);
                }
                Err(error) => failed = Some(error),
            }
        }
        self.views.retain(|(view, _)| !refused.contains(&view.source));
        match failed {
            Some(error) => Err(error),
            None => Ok(readings.cost),
        }
    }

    async fn sample_relations(
        &mut self,
        ctx: &Context,
        session: &mut Session,
        state: &mut State,
    ) -> Result<Duration, QueryError> {
        let mut cost = Duration::ZERO;
        let own = thread_cpu();
        if let Some(tables) = &self.tables {
            let reading = tables.sample(ctx, session, &mut state.tables).await?;
            cost += reading.cost;
            for text in state.activity.autovacuum.tables(&reading.rows) {
                emit_event(&ctx.sink, reading.at, "autovacuum", text);
            }
        }
        if let Some(indexes) = &self.indexes {
            cost += indexes.sample(ctx, session, &mut state.indexes).await?.cost;
        }
        // Thousands of rows cost this side too.
        let own = thread_cpu().zip(own).map(|(now, before)| now.saturating_sub(before));
        Ok(cost + own.unwrap_or_default())
    }
}

/// What was prepared; `None`, with a note, where the server refuses it for good.
fn allowed<T>(
    state: &mut State,
    what: &str,
    prepared: Result<T, QueryError>,
) -> Result<Option<T>, ProbeError> {
    match prepared {
        Ok(prepared) => Ok(Some(prepared)),
        Err(error) if is_lasting(&error) => {
            state.cannot_see(format!("{what}: {error}"));
            Ok(None)
        }
        Err(source) => Err(ProbeError::Query { what: "statistics views", source }),
    }
}

fn store_view(ctx: &Context, state: &mut State, view: &View, rows: &[PgRow], at: Timestamp) {
    let mut rows: Vec<Row> = rows.iter().map(to_row).collect();
    match view.source {
        // A null there means that the column does not apply to the row, or that
        // timing is off; both read the same as absent, and are most of the view.
        Source::Io => rows
            .iter_mut()
            .for_each(|row| row.0.retain(|_, value| *value != walwright_record::Scalar::Null)),
        Source::Checkpointer => {
            for (kind, text) in rows.iter().flat_map(|row| state.checkpoints.observe(row, at)) {
                emit_event(&ctx.sink, at, kind, text);
            }
        }
        _ => {}
    }
    if view.often_empty {
        let was_empty = state.stored_empty.contains(&view.source);
        state.stored_empty.retain(|source| *source != view.source);
        if rows.is_empty() {
            state.stored_empty.push(view.source);
            if was_empty {
                return;
            }
        }
    }
    if view.source.is_sparse() {
        rows.retain(|row| {
            let key = (view.source, row.key(view.source));
            state.last.insert(key, row.clone()).is_none_or(|before| before != *row)
        });
    }
    emit(&ctx.sink, at, view.source, rows);
}

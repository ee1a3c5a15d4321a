//! The schema as parameters of a search: how full the pages of updated tables are, and
//! whether indexes that the load never reads are there.
//!
//! Both are found in the record of the baseline. A measurement changes them in its own
//! restored data; what is promoted is the statements with what undoes them.

use std::time::Duration;

use walwright_catalog::parameter;
use walwright_figures::difference;
use walwright_record::{Record, SchemaFacts, SchemaIndex, SchemaTable, Source, TableKind, Window};
use walwright_search::{Configuration as Point, Dimension, Domain};

use super::layer::Layer;
use super::schema_part::{DROPPED, FULL, KEPT, SEARCHED, SchemaKind, SchemaPart};
use super::{Dropped, TunePlan};

/// Tables whose fill factor is searched: those with the most updates.
const MOST_TABLES: usize = 4;
/// Largest table that is rewritten before each run: about ten seconds on a slow disk.
const LARGEST: u64 = 1 << 30;
/// Indexes that may be left out.
const MOST_INDEXES: usize = 8;

/// What a search may change of the schema.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub parts: Vec<SchemaPart>,
    pub dimensions: Vec<Dimension>,
    /// First guesses: indexes that nothing reads are left out.
    pub advised: Vec<(String, String)>,
    pub dropped: Vec<Dropped>,
}

/// What the baseline's record offers, where there is consent.
pub(super) fn find(plan: &TunePlan, record: Option<&Record>) -> Found {
    let mut found = Found::default();
    if !plan.consents_to(Layer::Schema) {
        return found;
    }
    let Some((record, facts)) = record
        .and_then(|record| Some((record, record.schema_end.as_ref().or(record.schema.as_ref())?)))
    else {
        let why = "the baseline's record is gone, or holds no schema".to_owned();
        found.dropped.push(Dropped::held_back("schema", why));
        return found;
    };
    fill_factors(record, facts, &mut found);
    indexes(facts, &mut found);
    found.dimensions.retain(|dimension| plan.lets_search(&dimension.name, Layer::Schema));
    let Found { parts, dimensions, advised, .. } = &mut found;
    parts.retain(|part| dimensions.iter().any(|dimension| dimension.name == part.name));
    let trial = |of: &Dimension| Some((of.name.clone(), of.trial.clone()?));
    advised.extend(dimensions.iter().filter_map(trial));
    found
}

/// Tables that the load updates, most updates first.
fn fill_factors(record: &Record, facts: &SchemaFacts, found: &mut Found) {
    // The whole run: what is asked for is what the load updates at all, and how much more
    // of one table than of another.
    let samples = record.samples(Source::Tables);
    let whole = samples.first().zip(samples.last()).map(|(first, last)| Window {
        start: first.at,
        end: last.at.plus(Duration::from_micros(1)),
    });
    let counted = whole.and_then(|whole| difference(record, Source::Tables, whole).ok());
    if counted.is_none() {
        let why = "the baseline's record does not tell which tables are updated".to_owned();
        found.dropped.push(Dropped::held_back(SEARCHED, why));
    }
    let mut updated: Vec<(f64, &SchemaTable)> = counted
        .iter()
        .flat_map(|counted| &counted.rows)
        .filter_map(|row| {
            let oid = row.last.number("relid")?;
            let updates = row.delta("n_tup_upd").filter(|updates| *updates > 0.0)?;
            Some((updates, facts.tables.iter().find(|table| f64::from(table.oid) == oid)?))
        })
        .filter(|(_, table)| table.kind == TableKind::Table)
        .collect();
    updated.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (place, (_, table)) in updated.into_iter().enumerate() {
        let name = format!("{SEARCHED} ({})", table.qualified());
        let was = table.options.get("fillfactor").cloned();
        let dimension = match too_much(place, table) {
            Some(why) => Err(why),
            None => fill_factor(was.as_deref().unwrap_or(FULL)),
        };
        match dimension {
            Ok(dimension) => {
                found.dimensions.push(Dimension { name: name.clone(), ..dimension });
                let (object, sql) = (table.qualified(), table.sql());
                let kind = SchemaKind::Fillfactor { was };
                found.parts.push(SchemaPart { name, object, sql, kind });
            }
            Err(why) => found.dropped.push(Dropped::held_back(name, why)),
        }
    }
}

/// Why a table's fill factor is not searched; `place` is how many are updated more often.
fn too_much(place: usize, table: &SchemaTable) -> Option<String> {
    match table.gauges.bytes {
        _ if place >= MOST_TABLES => Some(format!("{MOST_TABLES} tables are updated more often")),
        None => Some("its size is not known, and it is rewritten before each run".to_owned()),
        Some(bytes) if bytes > LARGEST => Some(format!(
            "it holds {:.1} GB, too much to rewrite before each run: tune at a smaller scale",
            bytes as f64 / 1_073_741_824.0
        )),
        Some(_) => None,
    }
}

pub(super) fn fill_factor(home: &str) -> Result<Dimension, String> {
    let of = parameter(SEARCHED).ok_or("the catalogue does not know it")?;
    Dimension::at_home(of, home, None).map_err(|error| error.to_string())
}

/// Indexes that only cost: the load never scanned them, and nothing but scans needs them.
fn indexes(facts: &SchemaFacts, found: &mut Found) {
    let unused: Vec<&SchemaIndex> = facts
        .indexes
        .iter()
        .filter(|index| index.scans == Some(0) && is_free(facts, index))
        .collect();
    for (place, index) in unused.into_iter().enumerate() {
        let object = format!("{}.{}", index.schema, index.name);
        let name = format!("index {object}");
        if place >= MOST_INDEXES {
            let why = format!("{MOST_INDEXES} unused indexes are enough for one search");
            found.dropped.push(Dropped::held_back(name, why));
            continue;
        }
        found.dimensions.push(dimension_of_index(name.clone()));
        let kind = SchemaKind::Index { definition: index.definition.clone() };
        found.parts.push(SchemaPart { name, object, sql: index.sql(), kind });
    }
}

/// The dimension of an index that may be left out.
pub(super) fn dimension_of_index(name: String) -> Dimension {
    Dimension {
        name,
        group: Layer::Schema.words().to_owned(),
        domain: Domain::Words(vec![KEPT.to_owned(), DROPPED.to_owned()]),
        home: KEPT.to_owned(),
        trial: Some(DROPPED.to_owned()),
        restart: false,
    }
}

/// Whether no rule of the data depends on it: it makes nothing unique, belongs to no
/// constraint, is no replica identity and no part of a partitioned index.
fn is_free(facts: &SchemaFacts, index: &SchemaIndex) -> bool {
    let table = facts.tables.iter().find(|table| table.oid == index.table);
    table.is_some_and(|table| table.kind == TableKind::Table)
        && index.parent.is_none()
        && !(index.unique
            || index.primary
            || index.constraint.is_some()
            || index.referenced
            || index.replica_identity)
}

/// Whether a name of `--only` means a part of the schema that is searched.
pub(super) fn is_searched(name: &str) -> bool {
    name.eq_ignore_ascii_case(SEARCHED)
}

/// What a measurement of a point changes in its restored data, indexes first: a table is
/// rewritten with those that stay.
pub(super) fn statements(parts: &[SchemaPart], point: &Point) -> Vec<String> {
    let is_index = |part: &&SchemaPart| matches!(part.kind, SchemaKind::Index { .. });
    let (indexes, tables): (Vec<&SchemaPart>, Vec<&SchemaPart>) = parts.iter().partition(is_index);
    let all = indexes.into_iter().chain(tables);
    all.filter_map(|part| Some(part.statements(point.get(&part.name)?))).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TuneState;
    use crate::embedded::{aside, start};
    use crate::fixture::{ended_with_schema, plan, schema_part as part, schema_parts as both};

    fn consented() -> TunePlan {
        TunePlan { consent: vec!["schema".to_owned()], ..plan() }
    }

    #[test]
    fn without_consent_or_without_facts_nothing_is_searched() {
        let record = Record::new(walwright_testing::header());
        assert!(find(&plan(), Some(&record)).dropped.is_empty());
        for record in [Some(&record), None] {
            let found = find(&consented(), record);
            assert!(found.parts.is_empty() && found.dropped[0].why.contains("holds no schema"));
        }
    }

    #[test]
    fn an_index_goes_before_its_table_is_rewritten_and_a_kept_one_costs_nothing() {
        let parts = both();
        let point = |fill: &str, index: &str| -> Point {
            let text = |name: &SchemaPart, value: &str| (name.name.clone(), value.to_owned());
            Point::from([text(&parts[0], fill), text(&parts[1], index)])
        };
        let changed = statements(&parts, &point("70", DROPPED));
        assert_eq!(changed[0], "DROP INDEX public.t_n");
        assert_eq!(changed[1], "ALTER TABLE public.t SET (fillfactor = 70)");
        assert_eq!(changed.len(), 4);
        // The schema as it was is rewritten too: only the fill factor differs.
        let same = statements(&parts, &point("100", KEPT));
        assert_eq!(same[1..], changed[2..]);
        let rewrites = |parts: &[SchemaPart]| {
            TuneState { schema: parts.to_vec(), ..ended_with_schema() }.rewrites_tables()
        };
        assert!(rewrites(&parts) && !rewrites(&parts[1..]));
    }

    #[test]
    fn a_fill_factor_has_a_line_of_its_own_where_a_name_can_be_told() {
        let entry = both()[0].entry("70").unwrap();
        assert_eq!(entry.key(), "TABLE_FILLFACTOR");
        assert_eq!(entry.title(), "table.fillfactor (public.t)");
        assert!(both()[1].entry(DROPPED).is_none());
        assert!(part(SchemaKind::Fillfactor { was: None }, "public.a.b").entry("70").is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_takes_the_statements_and_undoing_brings_the_schema_back() {
        let server = aside(move || start(&plan(), Vec::new())).await.unwrap();
        let client = walwright_server::connect_for_workload(&server.connect_params("postgres"))
            .await
            .unwrap();
        let made = "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000); \
                    CREATE INDEX t_n ON t (n)";
        client.batch_execute(made).await.unwrap();
        let state = async || {
            let sql = "SELECT coalesce(array_to_string(reloptions, ','), ''),
                              pg_relation_size(oid),
                              (SELECT count(*) FROM pg_indexes WHERE indexname = 't_n')
                       FROM pg_class WHERE oid = 't'::regclass";
            let row = client.query_one(sql, &[]).await.unwrap();
            (row.get::<String>(0).unwrap(), row.get::<i64>(1).unwrap(), row.get::<i64>(2).unwrap())
        };
        let before = state().await;
        let changes = [both()[0].change("50"), both()[1].change(DROPPED)];
        for sql in changes.iter().flat_map(|change| &change.statements) {
            client.batch_execute(sql).await.unwrap();
        }
        let (options, bytes, indexes) = state().await;
        assert_eq!((options.as_str(), indexes), ("fillfactor=50", 0));
        assert!(bytes > before.1, "half of each page is room: {bytes}");
        for sql in changes.iter().flat_map(|change| &change.undo) {
            client.batch_execute(sql).await.unwrap();
        }
        assert_eq!(state().await, before);
        drop(client);
        aside(move || Ok(server.stop_immediately()?)).await.unwrap();
    }
}

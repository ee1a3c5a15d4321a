//! Publications, slots, and what belongs to the database as a whole.

use walwright_record::{Publication, ReplicationSlot, SchemaFacts, Timestamp};
use walwright_server::{Client, QueryError, Row};

use super::{ask, count, note, or_note};

const PUBLICATIONS: &str = "SELECT p.pubname::text, p.puballtables, p.pubupdate OR p.pubdelete
    FROM pg_publication p ORDER BY 1 LIMIT 1000";

const SLOTS: &str = "SELECT s.slot_name::text, s.slot_type = 'logical', s.active,
       CASE WHEN NOT pg_is_in_recovery()
            THEN pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::int8 END
    FROM pg_replication_slots s ORDER BY 1 LIMIT 1000";

const DATABASE: &str = "SELECT age(d.datfrozenxid), mxid_age(d.datminmxid),
       (extract(epoch FROM pg_stat_get_db_stat_reset_time(d.oid)) * 1000000)::int8,
       (SELECT s.enumvals FROM pg_settings s WHERE s.name = 'default_toast_compression')
    FROM pg_database d WHERE d.datname = current_database()";

/// Reads them.
pub(super) async fn read(client: &Client, facts: &mut SchemaFacts) {
    match all(ask(client, PUBLICATIONS, &[]).await, publication) {
        Ok(publications) => facts.publications = Some(publications),
        Err(error) => note(&error, "publications", facts),
    }
    match all(ask(client, SLOTS, &[]).await, slot) {
        Ok(slots) => facts.slots = Some(slots),
        Err(error) => note(&error, "replication slots", facts),
    }
    let rows = ask(client, DATABASE, &[]).await;
    let read = |row: &Row| {
        Ok(Database {
            xid_age: row.get(0)?,
            multixact_age: row.get(1)?,
            stats_reset: row.get(2)?,
            toast_compressions: row.get(3)?,
        })
    };
    for database in or_note(rows, read, "ages of the database", facts) {
        facts.database_xid_age = count(database.xid_age);
        facts.database_multixact_age = count(database.multixact_age);
        facts.stats_reset = database.stats_reset.map(Timestamp);
        facts.toast_compressions = database.toast_compressions;
    }
}

/// What [`DATABASE`] answers.
struct Database {
    xid_age: Option<i32>,
    multixact_age: Option<i32>,
    stats_reset: Option<i64>,
    toast_compressions: Option<Vec<String>>,
}

fn all<T>(
    rows: Result<Vec<Row>, QueryError>,
    read: impl Fn(&Row) -> Result<T, QueryError>,
) -> Result<Vec<T>, QueryError> {
    rows?.iter().map(read).collect()
}

fn publication(row: &Row) -> Result<Publication, QueryError> {
    Ok(Publication { name: row.get(0)?, all_tables: row.get(1)?, updates_or_deletes: row.get(2)? })
}

fn slot(row: &Row) -> Result<ReplicationSlot, QueryError> {
    Ok(ReplicationSlot {
        name: row.get(0)?,
        logical: row.get(1)?,
        active: row.get(2)?,
        retained_bytes: count(row.get::<Option<i64>>(3)?),
    })
}

//! Publications, slots, and what belongs to the database as a whole.

use tokio_postgres::{Client, Row};
use walwright_record::{Publication, ReplicationSlot, SchemaFacts, Timestamp};

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
    match ask(client, PUBLICATIONS, &[]).await {
        Ok(rows) => facts.publications = Some(rows.iter().map(publication).collect()),
        Err(error) => note(&error, "publications", facts),
    }
    match ask(client, SLOTS, &[]).await {
        Ok(rows) => facts.slots = Some(rows.iter().map(slot).collect()),
        Err(error) => note(&error, "replication slots", facts),
    }
    let rows = ask(client, DATABASE, &[]).await;
    if let [row] = or_note(rows, "ages of the database", facts).as_slice() {
        facts.database_xid_age = count(row.get::<_, Option<i32>>(0));
        facts.database_multixact_age = count(row.get::<_, Option<i32>>(1));
        facts.stats_reset = row.get::<_, Option<i64>>(2).map(Timestamp);
        facts.toast_compressions = row.get(3);
    }
}

fn publication(row: &Row) -> Publication {
    Publication { name: row.get(0), all_tables: row.get(1), updates_or_deletes: row.get(2) }
}

fn slot(row: &Row) -> ReplicationSlot {
    ReplicationSlot {
        name: row.get(0),
        logical: row.get(1),
        active: row.get(2),
        retained_bytes: count(row.get::<_, Option<i64>>(3)),
    }
}

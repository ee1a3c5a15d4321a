//! Foreign keys.

use walwright_record::{ForeignKey, ForeignKeyAction, SchemaFacts};
use walwright_server::{Client, QueryError, Row};

use super::{FOREIGN_KEYS, ask, note};

const READ: &str = "SELECT k.oid, k.conname::text, k.conrelid, k.conkey, k.confrelid,
       rn.nspname || '.' || rc.relname,
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u (number, place)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number
             ORDER BY u.place),
       k.confdeltype::text, k.confupdtype::text, k.conparentid <> 0
    FROM pg_constraint k
    JOIN pg_class rc ON rc.oid = k.confrelid
    JOIN pg_namespace rn ON rn.oid = rc.relnamespace
    WHERE k.contype = 'f' AND k.conrelid = ANY ($1)
    ORDER BY array_position($1, k.conrelid), k.oid
    LIMIT $2";

/// Reads the foreign keys of the tables: all or, where there are too many, none,
/// because a list with gaps would let an index look unneeded that supports one.
pub(super) async fn read(client: &Client, oids: &[u32], facts: &mut SchemaFacts) {
    let rows = ask(client, READ, &[&oids, &(FOREIGN_KEYS as i64 + 1)]).await;
    match rows.and_then(|rows| rows.iter().map(foreign_key).collect::<Result<Vec<_>, _>>()) {
        Ok(keys) if keys.len() > FOREIGN_KEYS => {
            let sentence = format!("foreign keys: more than {FOREIGN_KEYS}; none are described");
            facts.incomplete.push(sentence);
        }
        Ok(keys) => facts.foreign_keys = Some(keys),
        Err(error) => note(&error, "foreign keys", facts),
    }
}

fn foreign_key(row: &Row) -> Result<ForeignKey, QueryError> {
    Ok(ForeignKey {
        oid: row.get(0)?,
        name: row.get(1)?,
        table: row.get(2)?,
        columns: row.get(3)?,
        referenced: row.get(4)?,
        referenced_name: row.get(5)?,
        referenced_columns: row.get(6)?,
        on_delete: action(&row.get::<String>(7)?),
        on_update: action(&row.get::<String>(8)?),
        inherited: row.get(9)?,
    })
}

/// `confdeltype` and `confupdtype`.
fn action(stored: &str) -> ForeignKeyAction {
    match stored {
        "r" => ForeignKeyAction::Restrict,
        "c" => ForeignKeyAction::Cascade,
        "n" => ForeignKeyAction::SetNull,
        "d" => ForeignKeyAction::SetDefault,
        _ => ForeignKeyAction::NoAction,
    }
}

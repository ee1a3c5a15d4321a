//! The statements, on the tables of the workload `documents`.

use tokio_postgres::types::Type;

use crate::options::Locks;

/// A statement and the types of its parameters.
pub(crate) struct Sql {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

/// By UUID and resource.
pub(crate) const GET: Sql = Sql {
    text: "SELECT version, body FROM document \
            WHERE partition_key = partition_of($1) AND uuid = $1 AND resource = $2",
    types: &[Type::UUID, Type::TEXT],
};

/// By identity and resource.
///
/// There is one alias of an identity, but a generic plan expects one in each partition, and would
/// rather read all documents than look so many up: the LIMIT tells it.
pub(crate) const FIND: Sql = Sql {
    text: "SELECT d.uuid, d.version, d.body \
             FROM (SELECT document_partition_key, document_id FROM alias \
                    WHERE partition_key = partition_of($1) AND referential_id = $1 LIMIT 1) AS a \
             JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id \
            WHERE d.resource = $2",
    types: &[Type::UUID, Type::TEXT],
};

/// The newest of a resource.
pub(crate) const QUERY: Sql = Sql {
    text: "SELECT uuid, version, body FROM document WHERE resource = $1 \
            ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3",
    types: &[Type::TEXT, Type::INT8, Type::INT8],
};

/// By UUID and resource; references and alias go with it.
pub(crate) const DELETE: Sql = Sql {
    text: "DELETE FROM document \
            WHERE partition_key = partition_of($1) AND uuid = $1 AND resource = $2 RETURNING id",
    types: &[Type::UUID, Type::TEXT],
};

/// Which document an identity is of.
///
/// Apart from locking it: which partition that is in the alias says, and a join with the document
/// would be made ready for all of them.
pub(crate) const IDENTIFY: Sql = Sql {
    text: "SELECT document_partition_key, document_id FROM alias \
            WHERE partition_key = partition_of($1) AND referential_id = $1",
    types: &[Type::UUID],
};

macro_rules! by_id {
    ($lock:literal) => {
        Sql {
            text: concat!(
                "SELECT resource FROM document WHERE partition_key = $1 AND id = $2",
                $lock
            ),
            types: &[Type::INT2, Type::INT8],
        }
    };
}

macro_rules! by_uuid {
    ($lock:literal) => {
        Sql {
            text: concat!(
                "SELECT partition_key, id, version FROM document \
                  WHERE partition_key = partition_of($1) AND uuid = $1 AND resource = $2",
                $lock
            ),
            types: &[Type::UUID, Type::TEXT],
        }
    };
}

/// The document that an alias names, locked.
pub(crate) fn lock_by_id(locks: Locks) -> Sql {
    match locks {
        Locks::NoKeyUpdate => by_id!(" FOR NO KEY UPDATE"),
        Locks::KeyShare => by_id!(" FOR KEY SHARE"),
        Locks::UpdateNowait => by_id!(" FOR UPDATE NOWAIT"),
        Locks::None => by_id!(""),
    }
}

/// The document of a UUID, locked.
pub(crate) fn lock_by_uuid(locks: Locks) -> Sql {
    match locks {
        Locks::NoKeyUpdate => by_uuid!(" FOR NO KEY UPDATE"),
        Locks::KeyShare => by_uuid!(" FOR KEY SHARE"),
        Locks::UpdateNowait => by_uuid!(" FOR UPDATE NOWAIT"),
        Locks::None => by_uuid!(""),
    }
}

/// A new document with its alias and references; no row where another has the identity.
///
/// `write_references` sees the rows made before it in the same statement, since it is volatile.
pub(crate) const INSERT: Sql = Sql {
    text: "WITH made AS (SELECT new_uuid() AS uuid, pg_catalog.nextval('document_id') AS id), \
        named AS ( \
            INSERT INTO alias (partition_key, referential_id, document_partition_key, document_id) \
            SELECT partition_of($1), $1, partition_of(made.uuid), made.id FROM made \
            ON CONFLICT DO NOTHING RETURNING document_partition_key, document_id), \
        stored AS ( \
            INSERT INTO document (partition_key, id, uuid, resource, body) \
            SELECT named.document_partition_key, named.document_id, made.uuid, $2, $3 \
              FROM named, made RETURNING partition_key, id, uuid, version) \
        SELECT s.uuid, s.version, w.unchanged, w.inserted, w.updated, w.deleted, w.invalid \
          FROM stored AS s, write_references(s.partition_key, s.id, $4, true) AS w",
    types: &[Type::UUID, Type::TEXT, Type::JSONB, Type::UUID_ARRAY],
};

/// A new state of a document and its references; no row where it is not there, or has another
/// version than `$3`, if that is not 0.
pub(crate) const UPDATE: Sql = Sql {
    text: "WITH stored AS ( \
            UPDATE document SET body = $4, version = version + 1, modified_at = pg_catalog.now() \
             WHERE partition_key = $1 AND id = $2 AND ($3 = 0 OR version = $3) \
            RETURNING partition_key, id, uuid, version) \
        SELECT s.uuid, s.version, w.unchanged, w.inserted, w.updated, w.deleted, w.invalid \
          FROM stored AS s, write_references(s.partition_key, s.id, $5, false) AS w",
    types: &[Type::INT2, Type::INT8, Type::INT4, Type::JSONB, Type::UUID_ARRAY],
};

/// Which of these, counted from 1, no document is known by.
pub(crate) const MISSING: Sql = Sql {
    text: "SELECT t.number FROM pg_catalog.unnest($1) WITH ORDINALITY AS t (id, number) \
            WHERE NOT EXISTS (SELECT FROM alias AS a \
                               WHERE a.partition_key = partition_of(t.id) AND a.referential_id = t.id)",
    types: &[Type::UUID_ARRAY],
};

/// Whether the tables are there, and what keeps identities apart.
pub(crate) const SCHEMA: Sql = Sql {
    text: "SELECT pg_catalog.to_regclass('document') IS NOT NULL \
              AND pg_catalog.to_regclass('alias') IS NOT NULL \
              AND pg_catalog.to_regclass('reference') IS NOT NULL, \
           pg_catalog.to_regproc('write_references') IS NOT NULL, \
           EXISTS (SELECT FROM pg_catalog.pg_index AS i \
                    WHERE i.indrelid = pg_catalog.to_regclass('alias') AND i.indisunique AND i.indisvalid \
                      AND (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname) \
                             FROM pg_catalog.pg_attribute AS a \
                            WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) \
                          = ARRAY['partition_key', 'referential_id'])",
    types: &[],
};

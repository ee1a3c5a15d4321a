//! The workload's tables on an attached server: which they are, whose they are, and whether
//! they may be replaced.

use walwright_server::{Client, QueryError, Row};
use walwright_workload::Plan;

use super::error::failed;
use super::{RunError, load_data};

/// A table of the workload that is there.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its name as the workload has it.
    pub(super) name: String,
    pub(super) oid: u32,
    /// Its name with its schema.
    qualified: String,
    /// `pg_class.relkind`: `r` and `p` are tables.
    kind: String,
    owner: String,
    /// Whether this role lends its owner nothing: it is this role, one that it is a member
    /// of, or a superuser; or this role may do nothing beyond its tables.
    trusted: bool,
    pub(super) comment: Option<String>,
    rows: f64,
}

const READ: &str = "SELECT n.nspname || '.' || c.relname, c.relkind::text, r.rolname::text,
       r.rolsuper OR r.rolname = session_user
           OR (SELECT NOT me.rolsuper AND (pg_has_role(me.oid, r.oid, 'MEMBER') OR NOT (
                   me.rolcreaterole OR me.rolcreatedb OR me.rolreplication OR me.rolbypassrls
                   OR pg_has_role(me.oid, 'pg_execute_server_program', 'MEMBER')
                   OR pg_has_role(me.oid, 'pg_write_server_files', 'MEMBER')
                   OR pg_has_role(me.oid, 'pg_read_server_files', 'MEMBER')))
               FROM pg_roles me WHERE me.rolname = session_user),
       obj_description(c.oid, 'pg_class'), c.reltuples::float8
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_roles r ON r.oid = c.relowner
    WHERE c.oid = $1";

/// The tables of the workload that are there. `names` is a session in which their names
/// stand for what they do under the load.
///
/// # Errors
/// When the server cannot be asked.
pub(super) async fn found(
    job: &Plan,
    client: &Client,
    names: &Client,
) -> Result<Vec<Found>, RunError> {
    let mut all = Vec::new();
    for table in &job.tables {
        let read = async {
            let Some(oid) = names.relation(table.table()).await? else { return Ok(None) };
            match client.query_opt(READ, &[&oid]).await? {
                Some(row) => Found::read(table.table(), oid, &row).map(Some),
                None => Ok(None),
            }
        };
        all.extend(read.await.map_err(failed("looking for the workload's tables"))?);
    }
    Ok(all)
}

impl Found {
    fn read(name: &str, oid: u32, row: &Row) -> Result<Found, QueryError> {
        Ok(Found {
            name: name.to_owned(),
            oid,
            qualified: row.get(0)?,
            kind: row.get(1)?,
            owner: row.get(2)?,
            trusted: row.get(3)?,
            comment: row.get(4)?,
            rows: row.get(5)?,
        })
    }

    /// Whether walwright made it, by its comment.
    fn is_ours(&self) -> bool {
        let marks = [load_data::FILLED, load_data::UNFINISHED];
        self.comment.as_deref().is_some_and(|comment| marks.contains(&comment))
    }

    /// A sentence about what would go with it.
    fn holds(&self) -> String {
        let rows = if self.rows >= 0.0 {
            format!("about {:.0}", self.rows)
        } else {
            "an unknown number of".to_owned()
        };
        format!("{} ({rows} rows, of role {})", self.qualified, self.owner)
    }
}

/// That no table goes that walwright did not make, unless it was named.
///
/// # Errors
/// With the first that would go unasked.
pub(super) fn may_be_replaced(found: &[Found], named: &[String]) -> Result<(), RunError> {
    let is_named =
        |table: &Found| named.iter().any(|name| *name == table.name || *name == table.qualified);
    match found.iter().find(|table| !table.is_ours() && !is_named(table)) {
        None => Ok(()),
        Some(table) => {
            Err(RunError::WouldReplace { table: table.name.clone(), holds: table.holds() })
        }
    }
}

/// That a built-in workload runs on tables, and lends no superuser's rights to their
/// owner: triggers, rules, defaults and indexes of a table run what its owner has put
/// there, with the rights of whoever writes.
///
/// # Errors
/// With the first that is something else.
pub(super) fn are_plain(found: &[Found]) -> Result<(), RunError> {
    for table in found {
        if !["r", "p"].contains(&table.kind.as_str()) {
            return Err(RunError::NoTable { table: table.qualified.clone() });
        }
        if !table.trusted {
            return Err(RunError::LendsRights {
                table: table.qualified.clone(),
                owner: table.owner.clone(),
            });
        }
    }
    Ok(())
}

//! Whether a role may change settings of its server, asked before anything is measured.

use walwright_run::RunError;
use walwright_server::{Client, ConnectParams, QueryError};

use super::ExperimentError;

/// From this version `ALTER SYSTEM` of one parameter can be granted.
const GRANTABLE: i32 = 150_000;

/// What a role may do.
#[derive(Debug)]
pub struct Permission {
    superuser: bool,
    /// Whether the server takes `ALTER SYSTEM` from anybody (`allow_alter_system`).
    allowed: bool,
    /// Whether it may have the server read its files again.
    reload: bool,
    /// Settings it may alter, where that can be granted.
    granted: Vec<String>,
    grantable: bool,
}

impl Permission {
    /// Asks the server what the role may do with these settings.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn of(params: &ConnectParams, names: &[&str]) -> Result<Permission, ExperimentError> {
        let client = walwright_server::connect(params).await.map_err(RunError::from)?;
        let asked = ask(&client, names).await;
        asked.map_err(|error| ExperimentError::Server(format!("what this role may do: {error}")))
    }

    /// Why the role cannot change a setting; `None` where it can.
    pub fn missing(&self, name: &str) -> Option<String> {
        let granted = self.granted.iter().any(|one| one == name);
        if !self.allowed {
            return Some(
                "this server takes no ALTER SYSTEM (allow_alter_system = off): whatever manages it changes its settings".to_owned(),
            );
        }
        if self.superuser || (granted && self.reload) {
            return None;
        }
        if granted {
            return Some(
                "this role may not have the server read its files again: GRANT EXECUTE ON FUNCTION pg_reload_conf() TO it".to_owned(),
            );
        }
        let grant = match self.grantable {
            true => format!("GRANT ALTER SYSTEM ON PARAMETER {name} TO it"),
            false => "use a superuser".to_owned(),
        };
        Some(format!(
            "this role may not ALTER SYSTEM SET {name}: {grant}; a managed service that keeps that to itself cannot be changed from here, but `walwright config export` writes its form"
        ))
    }
}

async fn ask(client: &Client, names: &[&str]) -> Result<Permission, QueryError> {
    let facts = "SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
        coalesce(pg_catalog.current_setting('allow_alter_system', true)::bool, true),
        pg_catalog.has_function_privilege('pg_catalog.pg_reload_conf()', 'EXECUTE'),
        pg_catalog.current_setting('server_version_num')::int";
    let row = client.query_one(facts, &[]).await?;
    let grantable = row.get::<i32>(3)? >= GRANTABLE;
    let granted = match grantable {
        true => {
            let query = "SELECT name FROM pg_catalog.unnest($1::pg_catalog.text[]) name
                WHERE pg_catalog.has_parameter_privilege(name, 'ALTER SYSTEM')";
            let rows = client.query(query, &[&names]).await?;
            rows.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?
        }
        false => Vec::new(),
    };
    Ok(Permission {
        superuser: row.get(0)?,
        allowed: row.get(1)?,
        reload: row.get(2)?,
        granted,
        grantable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let role = |allowed, superuser, reload, granted: &[&str], grantable| Permission {
            superuser,
            allowed,
            reload,
            granted: granted.iter().map(|name| (*name).to_owned()).collect(),
            grantable,
        };
        let missing = |of: Permission| of.missing("max_wal_size");
        assert_eq!(missing(role(true, true, true, &[], true)), None);
        assert_eq!(missing(role(true, false, true, &["max_wal_size"], true)), None);
        let says = |of, words: &str| assert!(missing(of).unwrap().contains(words), "{words}");
        says(role(false, true, true, &[], true), "allow_alter_system");
        says(role(true, false, false, &["max_wal_size"], true), "pg_reload_conf");
        says(role(true, false, true, &["jit"], true), "GRANT ALTER SYSTEM ON PARAMETER max_wal");
        says(role(true, false, true, &[], false), "use a superuser");
    }
}

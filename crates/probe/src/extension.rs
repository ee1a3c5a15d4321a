//! Where `pg_stat_statements` is, and whether it may be called there.

use walwright_server::{Client, QueryError};

/// The owner of a schema may rename it and give its name to another, at any moment between
/// two queries: what is called by that name is then the owner's. `pg_database_owner` is
/// whoever owns the database.
const SCHEMA: &str = "/* walwright probe */ SELECT quote_ident(n.nspname), o.rolname::text,
        o.rolsuper OR NOT (SELECT me.rolsuper FROM pg_roles me WHERE me.rolname = session_user)
    FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace
    JOIN pg_roles o ON o.oid = CASE WHEN pg_get_userbyid(n.nspowner) = 'pg_database_owner'
        THEN (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
        ELSE n.nspowner END
    WHERE e.extname = 'pg_stat_statements'";

/// The schema of the extension, quoted; or why it is not asked. A superuser calls nothing
/// in a schema of a role that is none.
pub(crate) async fn statements_schema(client: &Client) -> Result<String, String> {
    let said = |error: QueryError| error.to_string();
    let Some(row) = client.query_opt(SCHEMA, &[]).await.map_err(said)? else {
        return Err("the extension is not in this database".to_owned());
    };
    let (schema, owner): (String, String) = (row.get(0).map_err(said)?, row.get(1).map_err(said)?);
    match row.get::<bool>(2).map_err(said)? {
        true => Ok(schema),
        false => Err(format!(
            "it is in the schema {schema} of {owner}, who could have a superuser call something else by its name; connect as a role that is no superuser but has pg_monitor"
        )),
    }
}

//! What tables and indexes of a server have set, for values of a profile that belong to
//! them.

use std::collections::BTreeMap;

use walwright_catalog::{Entry, Place, Profile, Scope, sql_name};
use walwright_server::{Client, QueryError, Row};

use super::machine::Reading;

const QUERY: &str = "
    SELECT coalesce(c.reloptions, '{}'), c.relpersistence::pg_catalog.text,
           c.relreplident::pg_catalog.text,
           (SELECT pg_catalog.count(*) FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid)
    FROM pg_catalog.pg_class c WHERE c.oid = $1";

/// What was found, by parameter and object.
pub(crate) type Objects = BTreeMap<(String, String), Reading>;

/// Looks at the objects that a profile names; `names` is a session in which these names
/// stand for what they stand for elsewhere.
pub(super) async fn found(client: &Client, names: &Client, profile: &Profile) -> Objects {
    let mut objects = Objects::new();
    for entry in &profile.entries {
        let Some(Scope::Object(object)) = &entry.scope else { continue };
        let reading = match look(client, names, entry, object).await {
            Ok(reading) => reading,
            Err(error) => Reading::NotObservable(super::query::told(&error)),
        };
        objects.insert((entry.parameter.name.clone(), object.clone()), reading);
    }
    objects
}

async fn look(
    client: &Client,
    names: &Client,
    entry: &Entry,
    object: &str,
) -> Result<Reading, QueryError> {
    let row = match names.relation(&sql_name(object)).await? {
        Some(oid) => client.query_opt(QUERY, &[&oid]).await?,
        None => None,
    };
    let Some(row) = row else {
        return Ok(Reading::NotPresent(format!("this database has no {object}")));
    };
    Ok(match value(entry, &row)? {
        Some(value) => Reading::Value(value),
        None => Reading::NotObservable("compare it by hand".to_owned()),
    })
}

/// What the relation has set of a parameter.
fn value(entry: &Entry, row: &Row) -> Result<Option<String>, QueryError> {
    let options: Vec<String> = row.get(0)?;
    let option = |name: &str| {
        let set = options.iter().find_map(|option| option.strip_prefix(name));
        set.and_then(|rest| rest.strip_prefix('=')).map(str::to_owned)
    };
    let default = || entry.parameter.default(u32::MAX).map(str::to_owned);
    let letter = |place: usize| row.get::<String>(place);
    Ok(match (&entry.parameter.place, entry.parameter.name.as_str()) {
        (Place::Table(name) | Place::Index(name), _) => option(name).or_else(default),
        (_, "table.persistence") => {
            let unlogged = letter(1)? == "u";
            Some(if unlogged { "unlogged" } else { "logged" }.to_owned())
        }
        (_, "table.replica_identity") => Some(
            match letter(2)?.as_str() {
                "f" => "full",
                "n" => "nothing",
                "i" => "index",
                _ => "default",
            }
            .to_owned(),
        ),
        (_, "table.partitions") => Some(row.get::<i64>(3)?.to_string()),
        _ => None,
    })
}

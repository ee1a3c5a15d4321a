//! One question to a server, and its answer or complaint as text.

use walwright_server::{Client, QueryError};

/// What the server says is wrong.
pub(super) fn told(error: &QueryError) -> String {
    match error.as_db_error() {
        Some(said) => match said.hint() {
            Some(hint) => format!("{} ({hint})", said.message()),
            None => said.message().to_owned(),
        },
        None => error.to_string(),
    }
}

/// The text that a query of one value gives; `None` where it is refused.
pub(super) async fn text(client: &Client, query: &str) -> Option<String> {
    client.query_one(query, &[]).await.ok()?.get(0).ok()?
}

//! Cancelling what another connection runs.

use std::time::Duration;

use crate::cancel_key::CancelKey;
use crate::deadline::Deadline;
use crate::frontend::cancel_request;
use crate::{Connector, WireError};

/// Longest a server may take to take a request where connecting has no limit.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks the server to cancel what the key's connection runs now, and waits
/// until it took the request, at most the connect timeout (10 s where there is
/// none). Whether anything was cancelled shows on the other connection only
/// (SQLSTATE 57014).
///
/// # Errors
/// When the server cannot be reached.
pub fn cancel(connector: &Connector, key: &CancelKey) -> Result<(), WireError> {
    let limit = connector.options().connect_timeout.unwrap_or(LIMIT);
    let deadline = Deadline::new(Some(limit));
    let sent = || {
        let mut stream = connector.open(connector.first_way(), deadline)?;
        stream.write_until(&cancel_request(key.0.process, &key.0.key), deadline)?;
        // The server answers with nothing and closes, after it has signalled.
        match stream.read_until(&mut [0], deadline) {
            Ok(0) => Ok(()),
            Ok(_) => Err(WireError::Unexpected { tag: 0, during: "cancelling" }),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(error.into()),
        }
    };
    sent().map_err(|error| connector.name_timeout(error, Some(limit)))
}

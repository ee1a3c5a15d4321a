//! How a server that somebody runs is reached.

use walwright_server::{ConnectParams, Secret, TargetError};

/// How a server that somebody runs is reached.
#[derive(Debug, Clone)]
pub enum ServerAddress {
    /// By a connection string; what is not in it comes from the environment.
    Dsn(Secret),
    /// By what is known already, whatever the environment says.
    Known(Box<ConnectParams>),
}

impl ServerAddress {
    /// How that is done.
    ///
    /// # Errors
    /// When the connection string or the environment makes no sense.
    pub fn params(&self) -> Result<ConnectParams, TargetError> {
        match self {
            ServerAddress::Dsn(dsn) => ConnectParams::resolve(Some(dsn.expose())),
            ServerAddress::Known(params) => Ok((**params).clone()),
        }
    }
}

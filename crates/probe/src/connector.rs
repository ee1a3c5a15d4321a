//! Where the probe gets its connections from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_postgres::Client;
use walwright_server::ConnectParams;

use crate::APPLICATION_NAME;

/// Why a connection could not be made.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

type Connecting = Pin<Box<dyn Future<Output = Result<Client, BoxedError>> + Send>>;

/// Opens connections to the target, again and again if they are lost. Each call
/// runs on the probe's own runtime, so that the connection lives there.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    /// A connector that calls `connect` for each connection. The future must
    /// itself spawn what drives the connection.
    pub fn new<F, Fut, E>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Client, E>> + Send + 'static,
        E: Into<BoxedError>,
    {
        Connector(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map_err(Into::into) })
        }))
    }

    /// A connector to a server known by its parameters.
    pub fn to(params: &ConnectParams) -> Self {
        let params = params.clone().with_application_name(APPLICATION_NAME);
        Self::new(move || {
            let params = params.clone();
            async move { walwright_server::connect(&params).await }
        })
    }

    pub(crate) async fn connect(&self) -> Result<Client, BoxedError> {
        (self.0)().await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it closes over may hold a password.
        f.write_str("Connector")
    }
}

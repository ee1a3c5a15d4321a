//! Connections to the server, as libpq's parameters describe them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{self, Config, TargetSessionAttrs};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Error};
use tokio_rustls::TlsConnector;
use walwright_server::{ConnectParams, Host, Hosts, RequireAuth, SslMode, SslNegotiation};
use walwright_wire::server_end_point;

use crate::error::IngestError;

/// A server that can be connected to any number of times.
#[derive(Clone)]
pub struct Server {
    pub(crate) config: Config,
    place: String,
    pub(crate) tls: Tls,
}

impl Server {
    /// The server that a connection string means, with the environment and `~/.pgpass`.
    ///
    /// # Errors
    /// Where a parameter is asked for that cannot be met, or a certificate cannot be read.
    pub fn of(hosts: &Hosts) -> Result<Self, IngestError> {
        let cannot = |what: &str| Err(IngestError::Parameters(what.to_owned()));
        let Some(first) = hosts.params.first() else { return cannot("no host is named") };
        if *first.require_auth() != RequireAuth::default() {
            return cannot("require_auth cannot be met here; leave it out");
        }
        let is_unix = |params: &ConnectParams| matches!(params.host(), Host::Unix(_));
        if hosts.params.iter().any(|params| is_unix(params) != is_unix(first)) {
            return cannot("hosts and directories of sockets cannot be mixed here");
        }
        let mut config = Config::new();
        for params in &hosts.params {
            match params.host() {
                Host::Unix(directory) => config.host_path(directory),
                Host::Tcp(name) => config.host(name),
            };
            if let Some(address) = params.hostaddr() {
                config.hostaddr(address);
            }
            config.port(params.port());
        }
        config
            .user(first.user())
            .dbname(first.dbname())
            .application_name("walwright ingest")
            .ssl_mode(mode(first))
            .channel_binding(match first.channel_binding() {
                walwright_server::ChannelBinding::Disable => config::ChannelBinding::Disable,
                walwright_server::ChannelBinding::Prefer => config::ChannelBinding::Prefer,
                walwright_server::ChannelBinding::Require => config::ChannelBinding::Require,
            });
        if first.ssl_negotiation() == SslNegotiation::Direct {
            config.ssl_negotiation(config::SslNegotiation::Direct);
        }
        if let Some(password) = first.password() {
            config.password(password.expose());
        }
        if let Some(timeout) = first.connect_timeout() {
            config.connect_timeout(timeout);
        }
        if let Some(options) = first.options() {
            config.options(options);
        }
        config.target_session_attrs(match hosts.session_attributes.as_deref() {
            None | Some("any") => TargetSessionAttrs::Any,
            // What is written to must take writes.
            Some("read-write" | "primary") => TargetSessionAttrs::ReadWrite,
            Some(other) => {
                return cannot(&format!(
                    "target_session_attrs={other} is no server to write to: any, read-write, primary"
                ));
            }
        });
        let places = hosts.params.iter().map(|params| match params.host() {
            Host::Unix(directory) => format!("{} port {}", directory.display(), params.port()),
            Host::Tcp(name) => format!("{name} port {}", params.port()),
        });
        let place = places.collect::<Vec<_>>().join(" or ");
        Ok(Self { config, place, tls: Tls(first.wire_options().tls.client_config()?) })
    }

    /// How it is connected to, for sessions that others make.
    #[must_use]
    pub fn into_parts(self) -> (Config, Tls) {
        (self.config, self.tls)
    }

    /// Its host and port, or those of several.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// A session for questions; it ends with its client.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    pub async fn connect(&self) -> Result<Client, IngestError> {
        let (client, connection) = self
            .config
            .connect(self.tls.clone())
            .await
            .map_err(|error| IngestError::Reach { place: self.place.clone(), error })?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a session for questions ended");
            }
        });
        Ok(client)
    }
}

/// What is checked is the verifier's; a server that is not to be trusted without TLS is refused.
fn mode(params: &ConnectParams) -> config::SslMode {
    match (params.host(), params.ssl_mode()) {
        (Host::Unix(_), _) | (_, SslMode::Disable) => config::SslMode::Disable,
        (_, SslMode::Allow | SslMode::Prefer) => config::SslMode::Prefer,
        (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => config::SslMode::Require,
    }
}

/// An error of the server in its own words, another with its cause.
pub(crate) fn tell(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => cause.to_string(),
        (None, None) => error.to_string(),
    }
}

/// TLS of rustls as tokio-postgres wants it.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// The same for one host; none where its name is no name of a certificate.
pub struct TlsToHost {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = TlsToHost;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<TlsToHost> {
        let name = ServerName::try_from(domain.to_owned()).ok();
        Ok(TlsToHost { config: Arc::clone(&self.0), name })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for TlsToHost {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("its name is no host's"))?;
            Ok(Encrypted(TlsConnector::from(self.config).connect(name, stream).await?))
        })
    }
}

/// A stream that TLS protects.
pub struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let first = certificates.and_then(|all| all.first());
        match first.and_then(|own| server_end_point(own)) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

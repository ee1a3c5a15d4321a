//! The same connection for the data plane as for the control plane.

use walwright_server::{self as server, ConnectParams};
use walwright_wire::{self as wire, ConnectOptions};

/// Name of the load's sessions in `pg_stat_activity`.
const APPLICATION_NAME: &str = "walwright load";

/// What `wire` needs to connect where `params` does.
pub(super) fn connect_options(params: &ConnectParams) -> ConnectOptions {
    let host = match params.host() {
        server::Host::Unix(directory) => wire::Host::Unix(directory.clone()),
        server::Host::Tcp(name) => wire::Host::Tcp(name.clone()),
    };
    let mut options = ConnectOptions::new(host, params.port(), params.user(), params.dbname());
    // The name stays the one a certificate must bear.
    options.hostaddr = params.hostaddr();
    options.password = params.password().map(|secret| wire::Secret::new(secret.expose()));
    options.tls.mode = match params.ssl_mode() {
        server::SslMode::Disable => wire::TlsMode::Disable,
        // "allow" asks for plain text first; TLS where the server has it is never less.
        server::SslMode::Allow | server::SslMode::Prefer => wire::TlsMode::Prefer,
        server::SslMode::Require => wire::TlsMode::Require,
        server::SslMode::VerifyCa => wire::TlsMode::VerifyCa,
        server::SslMode::VerifyFull => wire::TlsMode::VerifyFull,
    };
    options.tls.roots = match params.root_cert() {
        // Without certificates libpq verifies nothing, which the mode then says too.
        server::RootCert::None | server::RootCert::System => wire::RootCertificates::System,
        server::RootCert::File(path) => wire::RootCertificates::File(path.clone()),
    };
    options.tls.certificate = params.client_cert().map(Into::into);
    options.tls.key = params.client_key().map(Into::into);
    options.tls.channel_binding = match params.channel_binding() {
        server::ChannelBinding::Disable => wire::ChannelBinding::Disable,
        server::ChannelBinding::Prefer => wire::ChannelBinding::Prefer,
        server::ChannelBinding::Require => wire::ChannelBinding::Require,
    };
    options.application_name = APPLICATION_NAME.to_owned();
    options.connect_timeout = params.connect_timeout();
    if let Some(startup) = params.options() {
        options.parameters.push(("options".to_owned(), startup.to_owned()));
    }
    options
}

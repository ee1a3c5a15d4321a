//! What the protocol's crate needs to connect where these parameters say.

use walwright_wire::{ConnectOptions, TlsOptions};

use super::params::ConnectParams;

impl ConnectParams {
    /// The same for `wire`, which opens every connection.
    pub fn wire_options(&self) -> ConnectOptions {
        let parameters = self.options.iter().map(|options| ("options".to_owned(), options.clone()));
        ConnectOptions {
            host: self.host.clone(),
            // The name stays the one a certificate must bear.
            hostaddr: self.hostaddr,
            port: self.port,
            user: self.user.clone(),
            dbname: self.dbname.clone(),
            scram_keys: None,
            password: self.password.clone(),
            require_auth: self.require_auth.clone(),
            tls: TlsOptions {
                mode: self.ssl_mode,
                negotiation: self.ssl_negotiation,
                roots: self.root_cert.clone(),
                certificate: self.client_cert.clone(),
                key: self.client_key.clone(),
                channel_binding: self.channel_binding,
            },
            application_name: self.application_name.clone(),
            connect_timeout: self.connect_timeout,
            parameters: parameters.collect(),
        }
    }
}

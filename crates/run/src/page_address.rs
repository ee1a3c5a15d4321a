//! The address of a page of an application.

/// An address such as `127.0.0.1:8080/metrics`, without its scheme.
pub(crate) struct PageAddress<'a> {
    host: &'a str,
    path: &'a str,
}

impl<'a> PageAddress<'a> {
    pub fn of(address: &'a str) -> PageAddress<'a> {
        let (host, path) = address.split_once('/').unwrap_or((address, ""));
        PageAddress { host, path }
    }

    /// Host and port: 80 where none is named.
    pub fn host_and_port(&self) -> String {
        if self.host.contains(':') { self.host.to_owned() } else { format!("{}:80", self.host) }
    }

    /// What is sent to get the page.
    pub fn request(&self) -> String {
        let PageAddress { host, path } = self;
        format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    }
}

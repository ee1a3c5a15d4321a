//! A URL that is sent JSON by POST.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where alerts are posted. What is secret in it (user and password, path and query) is never
/// shown: services put their tokens there.
#[derive(Clone)]
pub struct Webhook {
    host: String,
    port: u16,
    tls: bool,
    path: String,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({self})")
    }
}

impl fmt::Display for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}/…", self.host, self.port)
    }
}

impl FromStr for Webhook {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The text itself is not repeated: it may hold a secret.
        let wrong = |why: &str| format!("the webhook's URL {why}: write https://HOST/PATH");
        let uri: Uri = text.parse().map_err(|_| wrong("cannot be read"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("does not begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(wrong("names no host"));
        }
        let login = authority.as_str().rsplit_once('@').map(|(login, _)| login);
        let authorization = login.map(|login| {
            use base64::Engine as _;
            let login = base64::engine::general_purpose::STANDARD.encode(login);
            let mut value = HeaderValue::from_str(&format!("Basic {login}"))
                .map_err(|_| wrong("has a login that cannot be sent"))?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Webhook {
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            authorization: authorization.transpose()?,
            host,
            tls,
        })
    }
}

impl Webhook {
    /// Posts JSON; an answer of 2xx is a success. Blocks.
    ///
    /// # Errors
    /// Why not, as a sentence without secrets.
    pub(crate) fn post(&self, body: &str, patience: Duration) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            match tokio::time::timeout(patience, self.send(body)).await {
                Ok(sent) => sent.map_err(|why| format!("{self}: {why}")),
                Err(_) => Err(format!("{self} did not answer within {} s", patience.as_secs())),
            }
        })
    }

    async fn send(&self, body: &str) -> Result<(), String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if !self.tls {
            return self.converse(stream, body).await;
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        self.converse(stream.map_err(|error| error.to_string())?, body).await
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        body: &str,
    ) -> Result<(), String> {
        let told = |error: hyper::Error| error.to_string();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the webhook's connection");
            }
        });
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut request = Request::post(self.path.as_str())
            .header(HOST, format!("{host}:{}", self.port))
            .header(USER_AGENT, "walwright")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_owned())))
            .map_err(|_| "its path cannot be sent".to_owned())?;
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let answer = sender.send_request(request).await.map_err(told)?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn it_posts_what_it_is_given_and_never_shows_a_secret() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://me:hush@127.0.0.1:{port}/hook/SECRET?key=SECRET");
        let webhook: Webhook = url.parse().unwrap();
        for shown in [format!("{webhook:?}"), webhook.to_string()] {
            assert!(!shown.contains("hush") && !shown.contains("SECRET"), "{shown}");
        }
        let server = std::thread::spawn(move || {
            let mut heads = Vec::new();
            for status in ["200 OK", "503 Busy"] {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        break;
                    }
                    head += &line;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                heads.push((head, String::from_utf8(body).unwrap()));
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            heads
        });
        assert_eq!(webhook.post("{\"a\":1}", Duration::from_secs(5)), Ok(()));
        let busy = webhook.post("{}", Duration::from_secs(5)).unwrap_err();
        assert!(busy.contains("503") && !busy.contains("SECRET"), "{busy}");
        let heads = server.join().unwrap();
        let (head, body) = &heads[0];
        assert!(head.starts_with("POST /hook/SECRET?key=SECRET HTTP/1.1"), "{head}");
        assert!(head.contains("Basic bWU6aHVzaA=="), "{head}");
        assert_eq!(body, "{\"a\":1}");
        let gone = webhook.post("{}", Duration::from_secs(5)).unwrap_err();
        assert!(!gone.contains("SECRET"), "{gone}");
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for wrong in ["", "host/SECRET", "ftp://h/SECRET", "http:///SECRET", "https://"] {
            let why = wrong.parse::<Webhook>().unwrap_err();
            assert!(!why.contains("SECRET") && why.contains("https://HOST/PATH"), "{why}");
        }
    }
}

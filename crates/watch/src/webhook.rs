//! A URL that is sent JSON by POST.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
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
    authorities: Vec<CertificateDer<'static>>,
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
            authorities: Vec::new(),
            host,
            tls,
        })
    }
}

impl Webhook {
    /// Also trusts the authorities whose certificates are in a file, besides the system's.
    ///
    /// # Errors
    /// When there is none in it, or it cannot be read, as a sentence.
    pub fn trusting(self, file: &Path) -> Result<Webhook, String> {
        let wrong = |why: String| format!("the webhook's authority in {}: {why}", file.display());
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
        let authorities: Vec<CertificateDer<'static>> =
            read.map_err(|error| wrong(error.to_string()))?;
        if authorities.is_empty() {
            return Err(wrong("there is no certificate in it: write one as PEM".to_owned()));
        }
        Ok(Webhook { authorities, ..self })
    }

    /// Posts JSON; an answer of 2xx is a success. Blocks.
    ///
    /// # Errors
    /// Why not, as a sentence without secrets.
    pub(crate) fn post(&self, body: &str, patience: Duration) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let posted = runtime.block_on(async {
            match tokio::time::timeout(patience, self.send(body)).await {
                Ok(sent) => sent.map_err(|why| format!("{self}: {why}")),
                Err(_) => Err(format!("{self} did not answer within {patience:?}")),
            }
        });
        // A name that is still looked up holds up nobody.
        runtime.shutdown_background();
        posted
    }

    async fn send(&self, body: &str) -> Result<(), String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if !self.tls {
            return self.converse(stream, body).await;
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.authorities.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        self.converse(stream.map_err(|error| refused(&error))?, body).await
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

/// Why there is no encrypted connection, and what to do where the certificate is at fault.
fn refused(error: &std::io::Error) -> String {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(fault)) = of_tls else { return error.to_string() };
    let what = match fault {
        CertificateError::UnknownIssuer => {
            "it is signed by nobody who is trusted here; --webhook-ca FILE names who may sign it"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for other names than the URL's".to_owned()
        }
        other => other.to_string(),
    };
    format!("its certificate is refused: {what}")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use rustls::pki_types::PrivateKeyDer;

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

    /// An authority of its own and what it signs.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    impl Authority {
        fn new() -> Authority {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            Authority { issuer: Issuer::new(params, key), pem }
        }

        /// A server for these names that answers one request of any connection that it gets as
        /// far as a request, for as long as the test runs.
        fn serve(&self, names: &[&str], expired: bool) -> u16 {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            if expired {
                params.not_after = date_time_ymd(2020, 1, 1);
            }
            let key = KeyPair::generate().unwrap();
            let signed = params.signed_by(&key, &self.issuer).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(
                    vec![signed.der().clone()],
                    PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                )
                .unwrap();
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let config = Arc::new(config);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                    let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
                    let mut head = [0; 4096];
                    // Whoever refuses the certificate sends nothing.
                    if stream.read(&mut head).is_ok_and(|read| read > 0) {
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    }
                }
            });
            port
        }
    }

    #[test]
    fn only_a_certificate_that_holds_is_trusted_and_a_refusal_says_why() {
        let authority = Authority::new();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.pem");
        std::fs::write(&file, &authority.pem).unwrap();
        let to = |port: u16| -> Webhook {
            format!("https://me:hush@127.0.0.1:{port}/SECRET").parse().unwrap()
        };
        let patience = Duration::from_secs(20);
        let port = authority.serve(&["127.0.0.1"], false);
        assert_eq!(to(port).trusting(&file).unwrap().post("{}", patience), Ok(()));
        let other = authority.serve(&["db.example"], false);
        let expired = authority.serve(&["127.0.0.1"], true);
        for (webhook, says) in [
            (to(port), "--webhook-ca"),
            (to(other).trusting(&file).unwrap(), "other names"),
            (to(expired).trusting(&file).unwrap(), "has expired"),
        ] {
            let why = webhook.post("{}", patience).unwrap_err();
            assert!(why.contains(says) && why.contains("certificate is refused"), "{why}");
            assert!(!why.contains("SECRET") && !why.contains("hush"), "{why}");
        }
        // Not TLS at all.
        let plain = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = plain.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = plain.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let why = to(port).post("{}", patience).unwrap_err();
        assert!(!why.contains("SECRET"), "{why}");
        answering.join().unwrap();

        std::fs::write(&file, "nothing").unwrap();
        let none = to(port).trusting(&file).unwrap_err();
        assert!(none.contains("no certificate") && none.contains("ca.pem"), "{none}");
        let gone = to(port).trusting(&directory.path().join("gone.pem")).unwrap_err();
        assert!(gone.contains("gone.pem") && !gone.contains("SECRET"), "{gone}");
    }

    #[test]
    fn whoever_does_not_answer_is_left() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = silent.local_addr().unwrap().port();
        for scheme in ["http", "https"] {
            let webhook: Webhook = format!("{scheme}://127.0.0.1:{port}/SECRET").parse().unwrap();
            let why = webhook.post("{}", Duration::from_millis(50)).unwrap_err();
            assert!(why.contains("did not answer within 50ms"), "{why}");
            assert!(!why.contains("SECRET"), "{why}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for wrong in ["", "host/SECRET", "ftp://h/SECRET", "http:///SECRET", "https://"] {
            let why = wrong.parse::<Webhook>().unwrap_err();
            assert!(!why.contains("SECRET") && why.contains("https://HOST/PATH"), "{why}");
        }
    }
}

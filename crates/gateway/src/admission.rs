//! How a client that has said who it is gets in.

use crate::client::ClientStream;
use crate::messages::Refusal;
use crate::rules::{Approach, ClientCertificate, Method};
use crate::tls::Tls;
use crate::users::Authentication;

/// What is to happen with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is who it says, or is believed.
    In,
    /// It has to prove itself by its password.
    Prove,
}

/// Why a client is not let in, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    what: String,
    hint: Option<&'static str>,
}

impl Denial {
    fn new(what: impl Into<String>) -> Denial {
        Denial { what: what.into(), hint: None }
    }

    fn hint(self, hint: &'static str) -> Denial {
        Denial { hint: Some(hint), ..self }
    }

    /// The message.
    pub fn refusal(&self) -> Refusal<'_> {
        let refusal = Refusal::fatal("28000", &self.what);
        match self.hint {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        }
    }
}

/// Decides by where a client comes from, how it is connected and whom it names.
///
/// # Errors
/// With the reason, when it is not let in.
pub fn admit(
    authentication: &Authentication,
    tls: Option<&Tls>,
    stream: &ClientStream,
    (database, user): (&str, &str),
) -> Result<Admission, Denial> {
    let encrypted = stream.tls();
    if tls.is_some_and(Tls::is_required) && stream.is_open() {
        return Err(Denial::new("the gateway lets nobody in without TLS")
            .hint("connect with sslmode=require or verify-full"));
    }
    let check = |wanted: ClientCertificate| match (wanted, encrypted) {
        (ClientCertificate::Unneeded, _) | (_, None) => Ok(()),
        (_, Some(tls)) if !tls.has_certificate() => {
            Err(Denial::new("connection requires a valid client certificate")
                .hint("connect with sslcert and sslkey"))
        }
        (ClientCertificate::VerifyFull, Some(tls))
            if tls.certificate_name().as_deref() != Some(user) =>
        {
            Err(certificate_of_another(user))
        }
        _ => Ok(()),
    };
    if let Some(tls) = tls {
        check(tls.client_certificate())?;
    }
    let rules = match authentication {
        Authentication::Trust => return Ok(Admission::In),
        Authentication::Scram(_) => return Ok(Admission::Prove),
        Authentication::Rules(rules, _) => rules,
    };
    let Ok(address) = stream.address() else {
        return Err(Denial::new("the connection is gone"));
    };
    let client = Approach { address, tls: encrypted.is_some(), database, user };
    let Some(rule) = rules.find(&client).filter(|rule| rule.method != Method::Reject) else {
        let from = address.map_or_else(|| "[local]".to_owned(), |address| address.to_string());
        let encryption = if encrypted.is_some() { "SSL encryption" } else { "no encryption" };
        return Err(Denial::new(format!(
            "no rule lets user \"{user}\" into database \"{database}\" from host \"{from}\", {encryption}"
        )));
    };
    if rule.method != Method::Cert {
        // That one looks for the name itself, by its map.
        check(rule.certificate)?;
    }
    match rule.method {
        Method::Reject => Err(Denial::new("rejected")),
        Method::Trust => Ok(Admission::In),
        Method::Scram => Ok(Admission::Prove),
        Method::Cert => {
            check(ClientCertificate::VerifyCa)?;
            let name = encrypted.and_then(|tls| tls.certificate_name());
            match name.filter(|name| rules.may_be(rule, name, user)) {
                Some(_) => Ok(Admission::In),
                None => Err(certificate_of_another(user)),
            }
        }
        Method::Peer => match stream.system_user().filter(|name| rules.may_be(rule, name, user)) {
            Some(_) => Ok(Admission::In),
            None => Err(Denial::new(format!("Peer authentication failed for user \"{user}\""))),
        },
    }
}

fn certificate_of_another(user: &str) -> Denial {
    Denial::new(format!("certificate authentication failed for user \"{user}\""))
        .hint("the certificate's common name is not this user")
}

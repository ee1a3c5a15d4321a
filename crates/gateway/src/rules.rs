//! Who may come in from where and how, in the syntax of `pg_hba.conf`.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;
use thiserror::Error;

/// Rules in their order: the first that fits decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    maps: UserMaps,
}

/// A line that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct RuleError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it, and what to do.
    pub what: String,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    way: Way,
    databases: Vec<Name>,
    users: Vec<Name>,
    addresses: Addresses,
    /// How the client proves who it is.
    pub method: Method,
    /// What its certificate must be, whatever the method.
    pub certificate: ClientCertificate,
    /// The map from names of the system or of certificates to those of users.
    map: Option<String>,
}

/// How a client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Trust,
    /// It is not let in.
    Reject,
    /// By its password.
    Scram,
    /// By a certificate that names it.
    Cert,
    /// By the user of the system that its process belongs to.
    Peer,
}

/// What a client's certificate must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificate {
    /// Nothing: it need have none.
    #[default]
    #[serde(rename = "optional")]
    Unneeded,
    /// One of an authority that is trusted.
    VerifyCa,
    /// The same, and it names the user.
    VerifyFull,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Local,
    Host,
    HostTls,
    HostPlain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    All,
    SameUser,
    Is(String),
    /// Stands for something that is never asked for.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    All,
    Net(IpAddr, u8),
}

/// A client before it has proved who it is.
#[derive(Debug, Clone, Copy)]
pub struct Approach<'a> {
    /// Where it comes from; `None` on a unix socket.
    pub address: Option<IpAddr>,
    /// Whether its connection is encrypted by TLS.
    pub tls: bool,
    /// The database that it names.
    pub database: &'a str,
    /// The user that it names.
    pub user: &'a str,
}

impl Rules {
    /// Reads rules in the syntax of `pg_hba.conf`.
    ///
    /// # Errors
    /// For the first line that is none, or asks for what is not there.
    pub fn parse(text: &str) -> Result<Rules, RuleError> {
        let mut rules = Vec::new();
        for (number, line) in joined_lines(text) {
            let wrong = |what| RuleError { line: number, what };
            let fields = fields(&line).map_err(wrong)?;
            if !fields.is_empty() {
                rules.push(rule(&fields).map_err(wrong)?);
            }
        }
        Ok(Rules { rules, maps: UserMaps::default() })
    }

    /// Rules for one method and whoever can use it.
    pub(crate) fn only(method: Method) -> Rules {
        let rule = Rule {
            way: if method == Method::Peer { Way::Local } else { Way::HostTls },
            databases: vec![Name::All],
            users: vec![Name::All],
            addresses: Addresses::All,
            method,
            certificate: ClientCertificate::Unneeded,
            map: None,
        };
        Rules { rules: vec![rule], maps: UserMaps::default() }
    }

    /// The same with maps of user names.
    #[must_use]
    pub fn with_maps(mut self, maps: UserMaps) -> Rules {
        self.maps = maps;
        self
    }

    /// The rule for a client.
    pub fn find(&self, client: &Approach<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.fits(client))
    }

    /// Whether a name of the system or of a certificate may be the user of this name.
    pub fn may_be(&self, rule: &Rule, name: &str, user: &str) -> bool {
        match &rule.map {
            None => name == user,
            Some(map) => self.maps.leads(map, name, user),
        }
    }

    /// The methods of all rules.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.rules.iter().map(|rule| rule.method)
    }

    /// Whether any needs certificates of clients.
    pub fn need_certificates(&self) -> bool {
        let needs = |rule: &Rule| {
            rule.method == Method::Cert || rule.certificate != ClientCertificate::Unneeded
        };
        self.rules.iter().any(needs)
    }

    /// Maps that are named and not there.
    pub fn missing_maps(&self) -> impl Iterator<Item = &str> {
        let maps = self.rules.iter().filter_map(|rule| rule.map.as_deref());
        maps.filter(|map| !self.maps.by_name.contains_key(*map))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none, so that nobody is let in.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    fn fits(&self, client: &Approach<'_>) -> bool {
        let address = client.address.map(|address| address.to_canonical());
        let way = match self.way {
            Way::Local => address.is_none(),
            Way::Host => address.is_some(),
            Way::HostTls => address.is_some() && client.tls,
            Way::HostPlain => address.is_some() && !client.tls,
        };
        let names = |all: &[Name], wanted: &str| {
            all.iter().any(|name| match name {
                Name::All => true,
                Name::SameUser => client.database == client.user,
                Name::Is(name) => name == wanted,
                Name::Never => false,
            })
        };
        way && address.is_none_or(|address| self.addresses.have(address))
            && names(&self.databases, client.database)
            && names(&self.users, client.user)
    }
}

impl Addresses {
    fn have(self, address: IpAddr) -> bool {
        fn same(a: &[u8], b: &[u8], bits: u8) -> bool {
            let (whole, rest) = (usize::from(bits / 8), bits % 8);
            let mask = !(0xff_u16 >> rest) as u8;
            a[..whole] == b[..whole] && (rest == 0 || (a[whole] ^ b[whole]) & mask == 0)
        }
        match (self, address) {
            (Addresses::All, _) => true,
            (Addresses::Net(IpAddr::V4(net), bits), IpAddr::V4(of)) => {
                same(&net.octets(), &of.octets(), bits)
            }
            (Addresses::Net(IpAddr::V6(net), bits), IpAddr::V6(of)) => {
                same(&net.octets(), &of.octets(), bits)
            }
            (Addresses::Net(..), _) => false,
        }
    }
}

/// Lines with their numbers; a backslash at its end joins a line with the next.
fn joined_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let mut whole = line.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            match lines.next() {
                Some((_, more)) => whole.push_str(more),
                None => break,
            }
        }
        Some((number + 1, whole))
    })
}

/// A word between commas, and whether it stood in quotes and so is no keyword.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

/// The fields of a line, each a list of words.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut chars = line.chars().peekable();
    // Whether the next word belongs to the field before it.
    let mut joins = false;
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => return Ok(fields),
            Some(',') => {
                chars.next();
                joins = true;
                continue;
            }
            Some(_) => {}
        }
        let mut word = Word { text: String::new(), quoted: false };
        let mut inside = false;
        while let Some(c) =
            chars.next_if(|c| inside || !(c.is_whitespace() || matches!(c, ',' | '#')))
        {
            match c {
                '"' => {
                    // Two of them within quotes are one.
                    if inside && chars.next_if_eq(&'"').is_some() {
                        word.text.push('"');
                    } else {
                        inside = !inside;
                        word.quoted = true;
                    }
                }
                c => word.text.push(c),
            }
        }
        if inside {
            return Err("a double quote is never closed".to_owned());
        }
        match fields.last_mut() {
            Some(field) if joins => field.push(word),
            _ => fields.push(vec![word]),
        }
        joins = false;
    }
}

fn rule(fields: &[Vec<Word>]) -> Result<Rule, String> {
    let mut fields = fields.iter();
    let way = match one(fields.next(), "a type of connection")? {
        "local" => Way::Local,
        "host" => Way::Host,
        "hostssl" => Way::HostTls,
        "hostnossl" => Way::HostPlain,
        "hostnogssenc" => Way::Host,
        "hostgssenc" => {
            return Err(
                "there is no encryption by GSSAPI: leave the line out, or write hostssl".to_owned()
            );
        }
        "include" | "include_if_exists" | "include_dir" => {
            return Err("other files are not included: put their lines here".to_owned());
        }
        other => {
            return Err(format!(
                "\"{other}\" is no type of connection: write local, host, hostssl or hostnossl"
            ));
        }
    };
    let databases = names(fields.next().ok_or("the database is missing")?, true)?;
    let users = names(fields.next().ok_or("the user is missing")?, false)?;
    let mut addresses = Addresses::All;
    let mut next = fields.next();
    if way != Way::Local {
        let text = one(next, "an address")?;
        next = fields.next();
        addresses = match text {
            "all" => Addresses::All,
            "samehost" | "samenet" => {
                return Err(format!("{text} is not supported: write the address and its prefix"));
            }
            text => match text.split_once('/') {
                Some((address, bits)) => net(address, bits)?,
                None => {
                    let address: IpAddr = text.parse().map_err(|_| {
                        format!("\"{text}\" is no address: names of hosts are not supported, write 10.0.0.0/8 or all")
                    })?;
                    let mask = one(next, "a mask, or /32 behind the address")?;
                    next = fields.next();
                    masked(address, mask)?
                }
            },
        };
    }
    let method = match one(next, "the method")? {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::Scram,
        "cert" => Method::Cert,
        "peer" => Method::Peer,
        "md5" => {
            return Err("md5 is not offered: write scram-sha-256, which works with every driver of today and with passwords whose SCRAM verifier the server has".to_owned());
        }
        "password" => {
            return Err("passwords are not sent in the clear: write scram-sha-256".to_owned());
        }
        other => {
            return Err(format!(
                "the method \"{other}\" is not supported: write scram-sha-256, cert, peer, trust or reject"
            ));
        }
    };
    let mut rule = Rule {
        way,
        databases,
        users,
        addresses,
        method,
        certificate: ClientCertificate::Unneeded,
        map: None,
    };
    for option in fields {
        let text = one(Some(option), "an option")?;
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("\"{text}\" is no option: write name=value"))?;
        match (name, value) {
            ("map", map) if matches!(method, Method::Cert | Method::Peer) => {
                rule.map = Some(map.to_owned());
            }
            ("clientcert", value) => {
                if way != Way::HostTls {
                    return Err("clientcert goes with hostssl alone".to_owned());
                }
                rule.certificate = match value {
                    "verify-ca" => ClientCertificate::VerifyCa,
                    "verify-full" => ClientCertificate::VerifyFull,
                    _ => return Err("clientcert is verify-ca or verify-full".to_owned()),
                };
            }
            _ => {
                return Err(format!(
                    "the option {name} is not known: there are map (with cert and peer) and clientcert"
                ));
            }
        }
    }
    match (method, way) {
        (Method::Cert, Way::HostTls) | (Method::Peer, Way::Local) => Ok(rule),
        (Method::Cert, _) => Err("cert goes with hostssl alone".to_owned()),
        (Method::Peer, _) => Err("peer goes with local alone".to_owned()),
        _ => Ok(rule),
    }
}

fn one<'a>(field: Option<&'a Vec<Word>>, what: &str) -> Result<&'a str, String> {
    match field.map(Vec::as_slice) {
        Some([word]) => Ok(&word.text),
        Some(_) => Err(format!("a list stands where {what} was expected")),
        None => Err(format!("{what} is missing")),
    }
}

fn names(field: &[Word], of_databases: bool) -> Result<Vec<Name>, String> {
    let name = |word: &Word| {
        let text = word.text.as_str();
        if word.quoted {
            return Ok(Name::Is(text.to_owned()));
        }
        Ok(match text {
            "all" => Name::All,
            "sameuser" if of_databases => Name::SameUser,
            // Connections for replication are refused in any case.
            "replication" if of_databases => Name::Never,
            "samerole" | "samegroup" if of_databases => {
                return Err(format!("{text} is not supported: who is in a role is not known here"));
            }
            text if text.starts_with('+') => {
                return Err(format!(
                    "\"{text}\" is not supported: who is in a role is not known here; name the users"
                ));
            }
            text if text.starts_with('@') => {
                return Err(format!("\"{text}\" is not supported: write the names here"));
            }
            text if text.starts_with('/') => {
                return Err(format!(
                    "\"{text}\" is not supported: names are no regular expressions here"
                ));
            }
            text => Name::Is(text.to_owned()),
        })
    };
    field.iter().map(name).collect()
}

fn net(address: &str, bits: &str) -> Result<Addresses, String> {
    let wrong = || format!("\"{address}/{bits}\" is no network: write 10.0.0.0/8 or 2001:db8::/32");
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
    Ok(Addresses::Net(address, bits))
}

fn masked(address: IpAddr, mask: &str) -> Result<Addresses, String> {
    let wrong = || format!("\"{mask}\" is no mask for {address}: write /32 behind the address");
    let (bits, whole) = match (address, mask.parse().map_err(|_| wrong())?) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => {
            (mask.to_bits().leading_ones(), mask.to_bits().count_ones())
        }
        (IpAddr::V6(_), IpAddr::V6(mask)) => {
            (mask.to_bits().leading_ones(), mask.to_bits().count_ones())
        }
        _ => return Err(wrong()),
    };
    if bits != whole {
        return Err(wrong());
    }
    Ok(Addresses::Net(address, bits as u8))
}

/// Maps from names of the system or of certificates to users, in the syntax of `pg_ident.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserMaps {
    by_name: HashMap<String, Vec<(String, Name)>>,
}

impl UserMaps {
    /// Reads lines of map, name and user.
    ///
    /// # Errors
    /// For the first line that is none, or has a regular expression.
    pub fn parse(text: &str) -> Result<UserMaps, RuleError> {
        let mut maps = UserMaps::default();
        for (number, line) in joined_lines(text) {
            let wrong = |what| RuleError { line: number, what };
            let fields = fields(&line).map_err(wrong)?;
            if fields.is_empty() {
                continue;
            }
            let mut next = fields.iter();
            let map = one(next.next(), "the name of the map").map_err(wrong)?;
            let name = one(next.next(), "the name of the system").map_err(wrong)?;
            if name.starts_with('/') {
                let what =
                    format!("\"{name}\" is not supported: names are no regular expressions here");
                return Err(wrong(what));
            }
            let user = next.next().ok_or_else(|| wrong("the user is missing".to_owned()))?;
            let users = names(user, false).map_err(wrong)?;
            let entries = maps.by_name.entry(map.to_owned()).or_default();
            entries.extend(users.into_iter().map(|user| (name.to_owned(), user)));
        }
        Ok(maps)
    }

    fn leads(&self, map: &str, name: &str, user: &str) -> bool {
        let entries = self.by_name.get(map).into_iter().flatten();
        entries.filter(|(from, _)| from == name).any(|(_, to)| match to {
            Name::All => true,
            Name::Is(to) => to == user,
            Name::SameUser | Name::Never => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn method(
        rules: &str,
        address: Option<&str>,
        tls: bool,
        names: (&str, &str),
    ) -> Option<Method> {
        let rules = Rules::parse(rules).unwrap();
        let (database, user) = names;
        let address = address.map(|address| address.parse().unwrap());
        rules.find(&Approach { address, tls, database, user }).map(|rule| rule.method)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = "\
            # TYPE DATABASE USER ADDRESS METHOD\n\
            local   all       postgres               peer map=admins\n\
            local   sameuser  all                    trust\n\
            host    app,\"all\" a, b  10.1.0.0 255.255.0.0 reject # not these\n\
            hostssl all all ::1/128 cert clientcert=verify-full\n\
            hostnossl all all 127.0.0.1/32 \\\n   trust\n\
            host replication all 0.0.0.0/0 trust\n\
            host all all 0.0.0.0/0 scram-sha-256";
        let is = |address, tls, names| method(rules, address, tls, names);
        assert_eq!(is(None, false, ("x", "postgres")), Some(Method::Peer));
        assert_eq!(is(None, false, ("x", "x")), Some(Method::Trust));
        assert_eq!(is(None, false, ("x", "y")), None);
        assert_eq!(is(Some("10.1.9.9"), false, ("app", "b")), Some(Method::Reject));
        assert_eq!(is(Some("10.1.9.9"), false, ("all", "b")), Some(Method::Reject));
        assert_eq!(is(Some("10.1.9.9"), false, ("other", "b")), Some(Method::Scram));
        assert_eq!(is(Some("10.2.9.9"), false, ("app", "b")), Some(Method::Scram));
        assert_eq!(is(Some("::ffff:10.1.9.9"), true, ("app", "a")), Some(Method::Reject));
        assert_eq!(is(Some("::1"), true, ("app", "a")), Some(Method::Cert));
        assert_eq!(is(Some("::1"), false, ("app", "a")), None);
        assert_eq!(is(Some("127.0.0.1"), false, ("app", "c")), Some(Method::Trust));
        assert_eq!(is(Some("127.0.0.1"), true, ("app", "c")), Some(Method::Scram));
        assert_eq!(is(Some("127.0.0.1"), true, ("replication", "c")), Some(Method::Scram));
    }

    #[test]
    fn a_network_is_as_wide_as_its_prefix() {
        for (net, inside, outside) in [
            ("10.0.0.0/9", "10.127.0.1", "10.128.0.1"),
            ("10.0.0.1/32", "10.0.0.1", "10.0.0.2"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ] {
            let rule = format!("host all all {net} trust");
            assert_eq!(method(&rule, Some(inside), false, ("d", "u")), Some(Method::Trust));
            assert_eq!(method(&rule, Some(outside), false, ("d", "u")), None, "{net}");
        }
        assert!(method("host all all 0.0.0.0/0 trust", Some("::1"), false, ("d", "u")).is_none());
    }

    #[test]
    fn what_is_not_there_is_refused_with_its_line() {
        for (text, what) in [
            ("\n\nhost all all all md5", "write scram-sha-256"),
            ("\n\nhost all all all password", "scram-sha-256"),
            ("\n\nhost all all all ldap ldapserver=x", "\"ldap\" is not supported"),
            ("\n\nhost all +staff all trust", "who is in a role"),
            ("\n\nhost all all db.example trust", "is no address"),
            ("\n\nhost all all 10.0.0.0/33 trust", "is no network"),
            ("\n\nhost all all 10.0.0.0 255.0.255.0 trust", "is no mask"),
            ("\n\nhost all all", "address is missing"),
            ("\n\nhost all all all cert", "hostssl alone"),
            ("\n\nhost all all all trust map=x", "not known"),
            ("\n\nlocal all \"x", "never closed"),
            ("\n\nhots all all all trust", "no type of connection"),
        ] {
            let error = Rules::parse(text).unwrap_err();
            assert_eq!(error.line, 3, "{text}");
            assert!(error.what.contains(what), "{text}: {}", error.what);
        }
    }

    #[test]
    fn maps_lead_to_users() {
        let rules = Rules::parse("local all all peer map=m\nlocal all all peer").unwrap();
        let maps = UserMaps::parse("m root postgres\nm www \"all\"\nm op all\n").unwrap();
        let rules = rules.with_maps(maps);
        let rule = rules.rules[0].clone();
        assert!(rules.may_be(&rule, "root", "postgres"));
        assert!(!rules.may_be(&rule, "root", "root"), "a map says all");
        assert!(rules.may_be(&rule, "www", "all") && !rules.may_be(&rule, "www", "x"));
        assert!(rules.may_be(&rule, "op", "anybody"));
        assert!(rules.may_be(&rules.rules[1], "me", "me"));
        assert_eq!(rules.missing_maps().count(), 0);
        let error = UserMaps::parse("m /^(.*)@x$ \\1").unwrap_err();
        assert!(error.what.contains("regular expressions"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", lines in prop::collection::vec(
            "(local|host|hostssl) (all|\"a\"|@x|,){1,3} (u|all) ([0-9.:/a-f]{0,20} ){0,2}(trust|cert|peer) ?(map=x)?\\\\?", 0..4,
        )) {
            let _ = Rules::parse(&text);
            let _ = UserMaps::parse(&text);
            if let Ok(rules) = Rules::parse(&lines.join("\n")) {
                for address in [None, Some(IpAddr::from([10, 1, 2, 3])), Some(IpAddr::from([1; 16]))] {
                    rules.find(&Approach { address, tls: true, database: "a", user: "u" });
                }
            }
        }
    }
}

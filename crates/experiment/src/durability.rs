//! What an arm may lose, and whether that was consented to.

use std::collections::BTreeSet;

use walwright_catalog::{DurabilityClass, Parameter, parameter};

use super::{Configuration, PlanError};

/// Names of settings whose change may lose committed data, as a person consented to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consent {
    names: BTreeSet<String>,
    /// Whether all servers are clusters of our own, thrown away after each run: then what can
    /// corrupt one harms nobody, and may be measured by consent.
    thrown_away: bool,
}

/// What an unlogged table is consented to by.
const UNLOGGED: &str = "unlogged";
/// What all values of the kernel are consented to by.
pub(super) const KERNEL: &str = "kernel";

impl<S: AsRef<str>> FromIterator<S> for Consent {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Consent {
        let names = names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()).collect();
        Consent { names, thrown_away: false }
    }
}

impl Consent {
    /// Whether there is consent to changing `name`.
    pub fn covers(&self, name: &str) -> bool {
        self.names.contains(&name.to_ascii_lowercase())
    }

    /// The same for servers that are thrown away after each run.
    #[must_use]
    pub fn on_clusters_of_our_own(self) -> Consent {
        Consent { thrown_away: true, ..self }
    }

    /// Checks what `arm` has different from `baseline`.
    ///
    /// # Errors
    /// When it can corrupt the cluster, or may lose committed data without consent.
    pub fn check(
        &self,
        arm: &str,
        configuration: &Configuration,
        baseline: &Configuration,
    ) -> Result<(), PlanError> {
        for (name, value) in &configuration.settings {
            let same = baseline.settings.get(name).is_some_and(|before| before == value);
            if let Some(parameter) = parameter(name).filter(|_| !same) {
                self.allows(arm, parameter, lowers(parameter, value))?;
            }
        }
        // A value of the kernel is felt by every process on the machine.
        for name in configuration.kernel.keys() {
            if !self.covers(name) && !self.covers(KERNEL) {
                return Err(PlanError::NoConsent {
                    line: None,
                    arm: arm.to_owned(),
                    name: name.clone(),
                    what: "It changes this machine while the arm runs, and is restored after."
                        .to_owned(),
                });
            }
        }
        for sql in configuration.ddl.iter().filter(|sql| !baseline.ddl.contains(sql)) {
            self.statement(arm, sql)?;
        }
        Ok(())
    }

    fn allows(&self, arm: &str, of: &Parameter, what: Option<String>) -> Result<(), PlanError> {
        let Some(what) = what else { return Ok(()) };
        match of.class {
            DurabilityClass::X if self.thrown_away && self.covers(&of.name) => Ok(()),
            DurabilityClass::X if self.thrown_away => {
                let (arm, name) = (arm.to_owned(), of.name.clone());
                Err(PlanError::NoConsent { line: None, arm, name, what })
            }
            DurabilityClass::X => {
                let (arm, name) = (arm.to_owned(), of.name.clone());
                Err(PlanError::Corrupts { line: None, arm, name, what })
            }
            DurabilityClass::D if !self.covers(&of.name) => {
                let (arm, name) = (arm.to_owned(), of.name.clone());
                Err(PlanError::NoConsent { line: None, arm, name, what })
            }
            _ => Ok(()),
        }
    }

    /// A statement may change such a setting too, for a role or for the database, and
    /// what value it gives is not read: naming it is enough.
    fn statement(&self, arm: &str, sql: &str) -> Result<(), PlanError> {
        for word in grave_words(sql) {
            match word {
                GraveWord::Setting(of) => {
                    self.allows(arm, of, Some(of.class.words().to_owned()))?;
                }
                GraveWord::Unlogged if self.covers(UNLOGGED) => {}
                GraveWord::Unlogged => {
                    return Err(PlanError::NoConsent {
                        line: None,
                        arm: arm.to_owned(),
                        name: UNLOGGED.to_owned(),
                        what: "An unlogged table is empty after a crash.".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// A word of a statement by which committed data may be lost, or the cluster.
pub enum GraveWord {
    /// The name of such a setting.
    Setting(&'static Parameter),
    /// Of a table without WAL.
    Unlogged,
}

impl GraveWord {
    /// The class of what it names.
    pub(crate) fn class(&self) -> DurabilityClass {
        match self {
            GraveWord::Setting(parameter) => parameter.class,
            GraveWord::Unlogged => DurabilityClass::D,
        }
    }
}

/// Such words of a statement, in their order.
pub fn grave_words(sql: &str) -> impl Iterator<Item = GraveWord> {
    let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| match parameter(word) {
        _ if word.eq_ignore_ascii_case(UNLOGGED) => Some(GraveWord::Unlogged),
        Some(of) if matches!(of.class, DurabilityClass::D | DurabilityClass::X) => {
            Some(GraveWord::Setting(of))
        }
        _ => None,
    })
}

/// The worst class of what an arm changes. Rows that are sent together are acknowledged together,
/// which loses nothing.
pub(super) fn class(of: &Configuration) -> DurabilityClass {
    let of_settings = of.settings.iter().filter_map(|(name, value)| {
        let parameter = parameter(name)?;
        let lowers = lowers(parameter, value).is_some();
        let grave = matches!(parameter.class, DurabilityClass::D | DurabilityClass::X);
        (lowers || !grave).then_some(parameter.class)
    });
    let words = of.ddl.iter().flat_map(|sql| grave_words(sql).map(|word| word.class()));
    let kernel = of.kernel.keys().map(|_| DurabilityClass::E);
    let all = of_settings.chain(words.collect::<Vec<_>>()).chain(kernel);
    all.max_by_key(|class| class.severity()).unwrap_or(DurabilityClass::S)
}

/// What this value can lose, in words; `None` where it can lose nothing.
fn lowers(parameter: &Parameter, value: &str) -> Option<String> {
    if !matches!(parameter.class, DurabilityClass::D | DurabilityClass::X) {
        return None;
    }
    if parameter.weaker.is_empty() {
        return Some(parameter.class.words().to_owned());
    }
    let read = parameter.read(value);
    // A value that cannot be read is the server's to refuse.
    let read = read.ok()?;
    let weaker = parameter.weaker.iter();
    weaker
        .filter(|(weak, _)| parameter.read(weak).is_ok_and(|weak| weak == read))
        .map(|(_, what)| what.clone())
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(consent: &[&str], name: &str, value: &str) -> Result<(), PlanError> {
        let arm = Configuration::of_settings([(name, value)]);
        let consent: Consent = consent.iter().collect();
        consent.check("arm", &arm, &Configuration::default())
    }

    fn statement(consent: &[&str], sql: &str) -> Result<(), PlanError> {
        let arm = Configuration { ddl: vec![sql.to_owned()], ..Configuration::default() };
        consent.iter().collect::<Consent>().check("arm", &arm, &Configuration::default())
    }

    #[test]
    fn what_may_lose_commits_needs_consent_by_name() {
        let refused = check(&[], "synchronous_commit", "off").unwrap_err().to_string();
        assert!(refused.contains("--consent synchronous_commit"), "{refused}");
        assert!(check(&["Synchronous_Commit"], "synchronous_commit", "off").is_ok());
        assert!(check(&[], "synchronous_commit", "on").is_ok());
        assert!(check(&[], "wal_level", "minimal").is_err());
        assert!(check(&[], "max_wal_size", "64MB").is_ok());
        assert!(statement(&[], "ALTER ROLE postgres SET synchronous_commit = off").is_err());
        assert!(statement(&[], "ALTER TABLE t SET UNLOGGED").is_err());
        assert!(statement(&["unlogged"], "ALTER TABLE t SET UNLOGGED").is_ok());
        assert!(statement(&[], "CREATE INDEX ON t (a)").is_ok());
    }

    #[test]
    fn the_machine_is_changed_with_consent_alone() {
        let kernel = [("vm.swappiness".to_owned(), "1".to_owned())].into_iter().collect();
        let arm = Configuration { kernel, ..Configuration::default() };
        let check = |consent: &[&str]| {
            let consent: Consent = consent.iter().collect();
            consent.check("arm", &arm, &Configuration::default())
        };
        assert!(check(&[]).unwrap_err().to_string().contains("--consent vm.swappiness"));
        assert!(check(&["vm.swappiness"]).is_ok() && check(&["kernel"]).is_ok());
    }

    #[test]
    fn what_can_corrupt_is_refused_whatever_is_consented_to() {
        assert!(check(&["fsync"], "fsync", "no").is_err());
        assert!(check(&["full_page_writes"], "full_page_writes", "off").is_err());
        assert!(check(&[], "fsync", "on").is_ok());
        assert!(statement(&["fsync"], "ALTER SYSTEM SET fsync = off").is_err());
    }

    #[test]
    fn what_can_corrupt_is_measured_on_clusters_of_our_own_by_consent() {
        let arm = Configuration::of_settings([("full_page_writes", "off")]);
        let check = |consent: &[&str]| {
            let consent: Consent = consent.iter().collect();
            consent.on_clusters_of_our_own().check("arm", &arm, &Configuration::default())
        };
        assert!(check(&["full_page_writes"]).is_ok());
        assert!(matches!(check(&["fsync"]), Err(PlanError::NoConsent { .. })));
        assert_eq!(class(&arm), DurabilityClass::X);
        assert_eq!(
            class(&Configuration::of_settings([("full_page_writes", "on")])),
            DurabilityClass::S
        );
        let both =
            Configuration::of_settings([("synchronous_commit", "off"), ("max_wal_size", "8GB")]);
        assert_eq!(class(&both), DurabilityClass::D);
    }

    #[test]
    fn what_the_baseline_has_already_is_not_lowered_by_an_arm() {
        let off = Configuration::of_settings([("synchronous_commit", "off")]);
        assert!(Consent::default().check("arm", &off, &off).is_ok());
    }
}

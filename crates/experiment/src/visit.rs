//! What a person agrees to for a server of theirs.

use std::path::PathBuf;
use std::sync::Arc;

use walwright_config::is_same_server;
use walwright_record::TargetFacts;
use walwright_server::Secret;
use walwright_store::Lab;

use super::maintenance::{Maintenance, OnServer, Remarks};
use super::{AttachedServer, ExperimentError, PlanError};

/// The attached server to work on, as the command line tells. Nothing of it is kept:
/// it may hold passwords.
#[derive(Debug, Clone, Default)]
pub struct Visit {
    /// Connection string; empty takes all from the `PG*` variables.
    pub dsn: Option<Secret>,
    /// Whether settings may be changed there while the work goes on.
    pub maintenance: bool,
    /// Shell command that restarts the server, where it may be restarted.
    pub restart_command: Option<Secret>,
    /// Whether the workload may create its tables there and fill them before every run.
    pub init: bool,
    /// Tables that may be dropped for that though walwright did not make them.
    pub replace: Vec<String>,
    /// What is to be told of it in the end.
    pub remarks: Remarks,
}

impl Visit {
    /// What was agreed to; `None` where no server is named, neither here nor in a plan.
    ///
    /// # Errors
    /// When a server is named without consent, or consent given for none.
    pub fn agreed(&self, planned: Option<&str>) -> Result<Option<Maintenance>, PlanError> {
        let dsn = self.dsn.as_ref().map(Secret::expose).or(planned);
        match (dsn, self.maintenance) {
            (None, false) if self.restart_command.is_none() && !self.init => Ok(None),
            (None, _) => Err(PlanError::NoServer),
            (Some(_), false) => Err(PlanError::NoMaintenance),
            (Some(dsn), true) => Ok(Some(Maintenance {
                dsn: Secret::new(dsn),
                restart_command: self.restart_command.clone(),
                init: self.init,
                replace: self.replace.clone(),
                remarks: self.remarks.clone(),
            })),
        }
    }

    /// Reaches the server for the work called `name`: the one it `began` on.
    ///
    /// # Errors
    /// As [`Visit::agreed`] and [`AttachedServer::visit`], and when it is another server, or its
    /// tables were filled and now are not to be, or the other way round.
    pub async fn again(
        &self,
        lab: &Lab,
        name: &str,
        began: Option<&OnServer>,
        planned: Option<&str>,
    ) -> Result<Option<Arc<AttachedServer>>, ExperimentError> {
        let agreed = self.agreed(planned)?;
        let (began, agreed) = match (began, agreed) {
            (None, None) => return Ok(None),
            (Some(began), None) => {
                return Err(ExperimentError::WhichServer(began.identity.address.clone()));
            }
            (None, Some(_)) => return Err(ExperimentError::OnOwnClusters),
            (Some(began), Some(agreed)) => (began, agreed),
        };
        if began.filled != agreed.init {
            return Err(ExperimentError::FilledOrNot { filled: began.filled });
        }
        let (attached, _) = AttachedServer::visit(lab, &agreed, name).await?;
        if !is_same_server(&began.identity, attached.identity()) {
            let (began, given) =
                (began.identity.address.clone(), attached.identity().address.clone());
            return Err(ExperimentError::AnotherServer { began, given });
        }
        Ok(Some(Arc::new(attached)))
    }
}

/// Which server's which database, as far as the record of a run tells.
#[derive(Debug, Clone, PartialEq)]
struct Where {
    /// Host and port, or the socket.
    at: String,
    database: String,
    /// Its data directory, where it is on this machine and may be seen.
    directory: Option<PathBuf>,
}

impl Where {
    fn new(address: &str, database: &str, directory: Option<PathBuf>) -> Where {
        // Another role reaches the same server: one that measures need not be one that sets.
        let at = address.rsplit_once(" at ").map_or(address, |(_, at)| at);
        Where { at: at.to_owned(), database: database.to_owned(), directory }
    }

    /// Whether it is the same: by the data directory where both are known, since one server has
    /// several addresses, and other servers may have had this one.
    fn is(&self, other: &Where) -> bool {
        let same_server = match (&self.directory, &other.directory) {
            (Some(one), Some(other)) => one == other,
            _ => self.at == other.at,
        };
        same_server && self.database == other.database
    }
}

/// Checks that a server is the one that a run was made on, before its finding is proven there.
///
/// # Errors
/// When it is another server or another database.
pub(super) fn is_where(
    made_on: &TargetFacts,
    attached: &AttachedServer,
) -> Result<(), ExperimentError> {
    let began = made_on.data_directory.as_ref().filter(|_| made_on.local).map(PathBuf::from);
    let began = Where::new(&made_on.address, &made_on.database, began);
    let identity = attached.identity();
    let directory = identity.data_directory.clone();
    let given = Where::new(&identity.address, attached.params().dbname(), directory);
    if began.is(&given) {
        return Ok(());
    }
    let (began, given) = (made_on.address.clone(), identity.address.clone());
    Err(ExperimentError::NotWhereFound { began, given })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_directory_or_else_by_its_address() {
        let is = |one: (&str, &str, Option<&str>), other: (&str, &str, Option<&str>)| {
            let of = |(address, database, directory): (&str, &str, Option<&str>)| {
                Where::new(address, database, directory.map(PathBuf::from))
            };
            of(one).is(&of(other))
        };
        let tcp = "database \"app\" as \"me\" at localhost:5432";
        let socket = "database \"app\" as \"postgres\" at /run/.s.PGSQL.5432";
        assert!(is((tcp, "app", Some("/data")), (socket, "app", Some("/data"))));
        assert!(!is((tcp, "app", Some("/data")), (tcp, "app", Some("/other"))));
        assert!(!is((tcp, "app", Some("/data")), (tcp, "other", Some("/data"))));
        let admin = "database \"app\" as \"admin\" at localhost:5432";
        assert!(is((tcp, "app", None), (admin, "app", Some("/data"))));
        assert!(!is((tcp, "app", None), (socket, "app", None)));
    }

    #[test]
    fn a_server_needs_consent_and_consent_a_server() {
        let visit = |dsn: Option<&str>, maintenance| Visit {
            dsn: dsn.map(Secret::new),
            maintenance,
            ..Visit::default()
        };
        assert!(visit(None, false).agreed(None).unwrap().is_none());
        assert!(matches!(visit(None, true).agreed(None), Err(PlanError::NoServer)));
        let init = Visit { init: true, ..Visit::default() };
        assert!(matches!(init.agreed(None), Err(PlanError::NoServer)));
        assert!(matches!(visit(Some(""), false).agreed(None), Err(PlanError::NoMaintenance)));
        assert!(matches!(visit(None, false).agreed(Some("x")), Err(PlanError::NoMaintenance)));
        let both = visit(Some("host=a"), true).agreed(Some("host=b")).unwrap().unwrap();
        assert_eq!(both.dsn.expose(), "host=a", "the command line wins");
    }
}

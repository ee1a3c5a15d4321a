//! What a person agrees to for a server of theirs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use walwright_server::Secret;

use super::{ExperimentError, Guest, PlanError};
use crate::Lab;
use crate::ledger::ServerIdentity;
use crate::profile::is_same_server;

/// The server of somebody's to work on, as the command line tells. Nothing of it is kept:
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
}

/// A server of somebody's that runs are made on, as a state on disk keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnServer {
    /// Which.
    pub identity: ServerIdentity,
    /// Whether the workload's tables are filled before every run.
    pub filled: bool,
}

/// What was agreed to for a server.
#[derive(Clone)]
pub(crate) struct Maintenance {
    /// Connection string.
    pub dsn: Secret,
    /// Shell command that restarts the server.
    pub restart_command: Option<Secret>,
    /// Whether the workload's tables are filled before every run.
    pub init: bool,
}

impl Visit {
    /// What was agreed to; `None` where no server is named, neither here nor in a plan.
    ///
    /// # Errors
    /// When a server is named without consent, or consent given for none.
    pub(crate) fn agreed(&self, planned: Option<&str>) -> Result<Option<Maintenance>, PlanError> {
        let dsn = self.dsn.as_ref().map(Secret::expose).or(planned);
        match (dsn, self.maintenance) {
            (None, false) if self.restart_command.is_none() && !self.init => Ok(None),
            (None, _) => Err(PlanError::NoServer),
            (Some(_), false) => Err(PlanError::NoMaintenance),
            (Some(dsn), true) => Ok(Some(Maintenance {
                dsn: Secret::new(dsn),
                restart_command: self.restart_command.clone(),
                init: self.init,
            })),
        }
    }

    /// Reaches the server for the work called `name`: the one it `began` on.
    ///
    /// # Errors
    /// As [`Visit::agreed`] and [`Guest::visit`], and when it is another server, or its
    /// tables were filled and now are not to be, or the other way round.
    pub(crate) async fn again(
        &self,
        lab: &Lab,
        name: &str,
        began: Option<&OnServer>,
        planned: Option<&str>,
    ) -> Result<Option<Arc<Guest>>, ExperimentError> {
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
        let (guest, _) = Guest::visit(lab, &agreed, name).await?;
        if !is_same_server(&began.identity, guest.identity()) {
            let (began, given) = (began.identity.address.clone(), guest.identity().address.clone());
            return Err(ExperimentError::AnotherServer { began, given });
        }
        Ok(Some(Arc::new(guest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! What the stages of recording share.

use std::path::PathBuf;

use walwright_server::{ConnectParams, Stop};

use super::GatewayChoice;
use super::plan::RecordPlan;
use crate::notes::Notes;

/// What every stage needs.
pub(super) struct Session {
    pub(super) lab: PathBuf,
    pub(super) plan: RecordPlan,
    pub(super) params: ConnectParams,
    pub(super) notes: Notes,
    pub(super) stop: Stop,
}

impl Session {
    /// Which gateway's metrics are read.
    pub(super) fn gateway(&self) -> GatewayChoice {
        match &self.plan.gateway_metrics {
            Some(address) => GatewayChoice::At(address.clone()),
            None => GatewayChoice::Before(self.params.port()),
        }
    }
}

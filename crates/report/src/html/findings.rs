//! The findings as a section of the report.

use walwright_diagnose::{Diagnosis, Finding};

use super::page::{ActionView, FindingView, Findings};
use crate::{diagnosis as say, words};

/// The section; `None` for a record without a measured window.
pub(super) fn section(of: &Diagnosis) -> Option<Findings> {
    if of.latency_breakdown.is_none() && of.findings.is_empty() && of.not_observable.is_empty() {
        return None;
    }
    Some(Findings {
        verdict: of.verdict.clone(),
        storage: disks(of),
        told: of.findings.iter().map(view).collect(),
        not_observable: of.not_observable.clone(),
    })
}

/// What the disks did, as sentences.
fn disks(of: &Diagnosis) -> Option<String> {
    let flushes = of.storage.as_ref().map(|used| words::storage_use(used, of.window));
    let data = of.data_disk.as_ref().map(words::data_disk);
    let told: Vec<String> = flushes.into_iter().chain(data).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

fn view(finding: &Finding) -> FindingView {
    let about = finding.subject.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
    FindingView {
        id: finding.id.to_string(),
        kind: say::kind(finding.kind),
        title: format!("{}{about}", finding.title),
        cause: finding.cause.clone(),
        impact: finding.impact.as_ref().map(say::impact),
        gain: finding.gain.as_ref().map(say::gain),
        evidence: finding
            .evidence
            .iter()
            .map(|e| format!("{} {} ({})", e.what, say::figure(e), e.source))
            .collect(),
        notes: finding.ruled_out.iter().chain(&finding.not_observable).cloned().collect(),
        actions: finding
            .actions
            .iter()
            .map(|action| ActionView {
                text: action.text.clone(),
                command: action.command(),
                conditions: say::conditions(action),
            })
            .collect(),
    }
}

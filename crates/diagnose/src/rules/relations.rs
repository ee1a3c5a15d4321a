//! Which finding is the consequence of which.

use super::holding::behind;
use crate::{DiagnosisId, Finding, Kind};

/// Part of the waits for row locks that another cause explains from which they are
/// its consequence.
const MOSTLY: f64 = 0.5;

/// Marks findings that are the consequence of others, so that a cause stands
/// before what it causes.
pub(crate) fn relate(findings: &mut [Finding]) {
    let explains = findings
        .iter()
        .filter(|f| f.kind == Kind::Problem)
        .map(|f| (f.id, behind(f)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let invalid = findings.iter().any(|f| f.id == DiagnosisId::D54 && f.kind == Kind::Problem);
    for finding in findings {
        let waits = finding.impact.as_ref().map_or(0.0, |i| i.per_transaction.center);
        if let Some((cause, seconds)) = explains
            && finding.id == DiagnosisId::D9
            && finding.subject.as_deref() == Some("rows")
            && seconds >= MOSTLY * waits
            && seconds > 0.0
        {
            finding.kind = Kind::Symptom;
            finding.parent = Some(cause);
        }
        if invalid && finding.id == DiagnosisId::D11 {
            finding.kind = Kind::Symptom;
            finding.parent = Some(DiagnosisId::D54);
        }
    }
}

//! Which finding is the consequence of which.

use super::buffers::PAGES_READ;
use super::holding::behind;
use super::locks::IDLE_BLOCKERS;
use super::schema::INDEX_BLOCKS_READ;
use super::temporary_tables::BY_RESETS;
use crate::{DiagnosisId, Finding, Kind, Value};

/// Part of the waits for row locks that another cause explains from which they are
/// its consequence.
const MOSTLY: f64 = 0.5;

/// Whether the sessions that hold contended rows are mostly idle.
fn blocked_by_idle(finding: &Finding) -> bool {
    finding.id == DiagnosisId::D9
        && finding
            .evidence
            .iter()
            .any(|e| e.what == IDLE_BLOCKERS && matches!(e.value, Value::Fraction(f) if f > MOSTLY))
}

/// Marks findings that are the consequence of others, so that a cause stands
/// before what it causes.
pub(crate) fn relate(findings: &mut [Finding]) {
    let has = |findings: &[Finding], id: DiagnosisId| {
        findings.iter().any(|f| f.id == id && f.kind == Kind::Problem)
    };
    let follows = |finding: &mut Finding, parent: DiagnosisId| {
        finding.kind = Kind::Symptom;
        finding.parent = Some(parent);
    };
    if has(findings, DiagnosisId::D54) {
        let crowd = |f: &&mut Finding| f.id == DiagnosisId::D11;
        findings.iter_mut().filter(crowd).for_each(|f| follows(f, DiagnosisId::D54));
    }
    // Where far more sessions are ready than there are processors, clients and server wait
    // for those between two messages: the transactions stay open for that.
    if has(findings, DiagnosisId::D11) {
        let open = |f: &&mut Finding| f.id == DiagnosisId::D8 && f.kind == Kind::Problem;
        findings.iter_mut().filter(open).for_each(|f| follows(f, DiagnosisId::D11));
    }
    // Tables that are made again because a reset dropped them go with the reset, which is
    // charged with them.
    if has(findings, DiagnosisId::D10) {
        let again = |f: &&mut Finding| {
            f.id == DiagnosisId::D21 && f.evidence.iter().any(|e| e.what == BY_RESETS)
        };
        findings.iter_mut().filter(again).for_each(|f| follows(f, DiagnosisId::D10));
    }
    // A statement that reads far more than it returns does so for a cause, where that is known.
    let scans = [
        DiagnosisId::D15,
        DiagnosisId::D16,
        DiagnosisId::D22,
        DiagnosisId::D29,
        DiagnosisId::D30,
        DiagnosisId::D40,
    ];
    if let Some(cause) = scans.into_iter().find(|id| has(findings, *id)) {
        let burns = |f: &&mut Finding| f.id == DiagnosisId::D59 && f.kind == Kind::Problem;
        findings.iter_mut().filter(burns).for_each(|f| follows(f, cause));
    }
    // Pages that are read because keys are random are not read for want of buffers alone.
    let counted = |finding: &Finding, what: &str| {
        let seen = finding.evidence.iter().find(|e| e.what == what)?;
        if let Value::Count(count) = seen.value { Some(count) } else { None }
    };
    let problems = || findings.iter().filter(|f| f.kind == Kind::Problem);
    let random: f64 = problems()
        .filter(|f| f.id == DiagnosisId::D23)
        .filter_map(|f| counted(f, INDEX_BLOCKS_READ))
        .sum();
    let read = problems().find(|f| f.id == DiagnosisId::D36).and_then(|f| counted(f, PAGES_READ));
    if read.is_some_and(|read| random > MOSTLY * read) {
        let reads = |f: &&mut Finding| f.id == DiagnosisId::D36;
        findings.iter_mut().filter(reads).for_each(|f| follows(f, DiagnosisId::D23));
    }
    let explains = findings
        .iter()
        .filter(|f| f.kind == Kind::Problem)
        .map(|f| (f.id, behind(f)))
        .filter(|(_, seconds)| *seconds > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let idle = has(findings, DiagnosisId::D8);
    let rows = |f: &&mut Finding| f.id == DiagnosisId::D9 && f.subject.as_deref() == Some("rows");
    for finding in findings.iter_mut().filter(rows) {
        let waits = finding.impact.as_ref().map_or(0.0, |i| i.per_transaction.center);
        if idle && blocked_by_idle(finding) {
            follows(finding, DiagnosisId::D8);
        } else if let Some((cause, seconds)) = explains
            && seconds >= MOSTLY * waits
        {
            follows(finding, cause);
        }
    }
}

//! D37: durability that was traded away, and what can be lost by it, in words.

use crate::{
    Action, Change, DiagnosisId, DurabilityClass, Evidence, Finding, Kind, Needs, Reading, Value,
};

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let mut found: Vec<Finding> = [
        (
            "fsync",
            "off",
            "on",
            Kind::Problem,
            "fsync is off: nothing is ever flushed. A crash of the machine can leave the whole \
             cluster corrupt, beyond recovery. All figures of this run are without flushes.",
        ),
        (
            "full_page_writes",
            "off",
            "on",
            Kind::Problem,
            "full_page_writes is off: a crash of the machine in the middle of a page's write leaves \
             a torn page that recovery cannot mend, unless the file system writes pages whole.",
        ),
        (
            "synchronous_commit",
            "off",
            "on",
            Kind::Information,
            "synchronous_commit is off: a crash loses the commits of the last moments, up to three \
             times wal_writer_delay, although clients were told they were committed. The cluster \
             stays consistent.",
        ),
        (
            "wal_level",
            "minimal",
            "replica",
            Kind::Information,
            "wal_level is minimal: no standby, no archive, no point-in-time recovery; what a crash \
             of the machine's disk takes is gone back to the last dump.",
        ),
    ]
    .into_iter()
    .filter(|(name, value, ..)| reading.is_set(name, value))
    .map(|(name, _, back, kind, words)| lowered(reading, name, back, kind, words))
    .collect();
    found.extend(no_relaxation(reading));
    found
}

fn lowered(reading: &Reading, name: &str, back: &str, kind: Kind, words: &str) -> Finding {
    let setting = reading.setting(name);
    let source = setting.map_or("pg_settings", |s| s.source.as_str());
    let shown = setting.map_or(String::new(), |s| s.shown.clone());
    let mut finding = reading
        .finding(DiagnosisId::D37, kind, words)
        .about(name)
        .seen([Evidence::new(format!("pg_settings ({source})"), name, Value::Text(shown))]);
    // Undoing the action would lower durability again, which is never advised.
    finding.actions.extend(reading.setting(name).map(|setting| Action {
        text: "Raise it again, and measure again: commits then wait for their flush.".to_owned(),
        change: Change::Setting { name: name.to_owned(), value: back.to_owned() },
        class: DurabilityClass::S,
        needs: Needs::of_context(&setting.context),
        rollback: None,
        gain: None,
    }));
    finding
}

/// E3: `local` is no relaxation where no standby is waited for.
fn no_relaxation(reading: &Reading) -> Option<Finding> {
    let standbys = reading.setting("synchronous_standby_names")?;
    let level = reading.setting("synchronous_commit")?;
    let alone = standbys.value.trim().is_empty();
    let means_on = ["local", "remote_write", "remote_apply"].contains(&level.value.as_str());
    (alone && means_on).then(|| {
        reading
            .finding(
                DiagnosisId::D37,
                Kind::Information,
                format!(
                    "synchronous_commit = {} is the same as on here: no standby is named in \
                     synchronous_standby_names, so there is nothing to wait for or to leave out.",
                    level.value
                ),
            )
            .about("synchronous_commit")
            .seen([Evidence::new(
                "pg_settings",
                "synchronous_standby_names",
                Value::Text("empty".to_owned()),
            )])
    })
}

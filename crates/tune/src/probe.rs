//! Each value is written to a server and read back: what does not come back as it was
//! written has no effect here, and is not searched.

use std::collections::BTreeMap;

use walwright_search::{Dimension, Domain};
use walwright_server::{ClusterError, Row, RunningCluster};

use super::embedded::{aside, start};
use super::words::reason;
use super::{Dropped, TuneError, TunePlan};

/// Positions that are written: one on each side of a range.
pub(super) const POSITIONS: [f64; 2] = [0.85, 0.15];

/// A setting as the server shows it.
struct Shown {
    setting: String,
    words: Option<Vec<String>>,
}

/// Writes values of each dimension and reads them back. Gives the dimensions that follow,
/// words reduced to those this build knows, and those that do not.
pub(super) async fn probe(
    plan: &TunePlan,
    mut dimensions: Vec<Dimension>,
) -> Result<(Vec<Dimension>, Vec<Dropped>), TuneError> {
    let mut dropped = Vec::new();
    if dimensions.is_empty() {
        return Ok((dimensions, dropped));
    }
    // The words first: a word the build lacks would keep the server from starting.
    let known = shown(plan, Vec::new()).await?;
    for dimension in &mut dimensions {
        let words = known.get(&dimension.name).and_then(|shown| shown.words.as_ref());
        if let (Domain::Words(mine), Some(words)) = (&mut dimension.domain, words) {
            mine.retain(|word| words.contains(word));
            let hint = dimension.trial.take();
            dimension.trial = hint.filter(|hint| mine.contains(hint));
        }
    }
    for position in POSITIONS {
        let written: Vec<(String, String)> =
            dimensions.iter().map(|d| (d.name.clone(), value(d, position))).collect();
        let whole = tried(plan, written.clone()).await?;
        let mut alone = BTreeMap::new();
        if whole.is_err() {
            // One of them keeps the server from starting: each alone tells which.
            for (name, value) in &written {
                let one = tried(plan, vec![(name.clone(), value.clone())]).await?;
                alone.insert(name.clone(), one);
            }
        }
        dimensions.retain(|dimension| {
            let wanted = value(dimension, position);
            let found = match (&whole, alone.get(&dimension.name)) {
                (Ok(all), _) => all.get(&dimension.name),
                (_, Some(Ok(all))) => all.get(&dimension.name),
                (_, Some(Err(why))) => {
                    let why = format!("the server does not start with {wanted}: {why}");
                    dropped.push(Dropped::held_back(&dimension.name, why));
                    return false;
                }
                _ => None,
            };
            let why = match found {
                None => "this server does not have it".to_owned(),
                Some(shown) => match dimension.canonical(&shown.setting) {
                    Ok(read) if read == wanted => return true,
                    Ok(read) => format!("{wanted} was written and {read} read back"),
                    Err(_) => format!("{wanted} was written and {} read back", shown.setting),
                },
            };
            dropped.push(Dropped::of(&dimension.name, why));
            false
        });
    }
    Ok((dimensions, dropped))
}

/// The settings of a fresh server with these values, or why it does not start with them. A fault
/// of what is around it, such as a full disk, is an error.
async fn tried(
    plan: &TunePlan,
    written: Vec<(String, String)>,
) -> Result<Result<BTreeMap<String, Shown>, String>, TuneError> {
    match shown(plan, written).await {
        Err(TuneError::Cluster(
            error @ (ClusterError::StartFailed { .. } | ClusterError::StartTimeout { .. }),
        )) => Ok(Err(reason(&error.to_string()))),
        other => other.map(Ok),
    }
}

fn value(dimension: &Dimension, position: f64) -> String {
    dimension.at(position)
}

/// The settings of a fresh server with these values over the baseline's.
async fn shown(
    plan: &TunePlan,
    written: Vec<(String, String)>,
) -> Result<BTreeMap<String, Shown>, TuneError> {
    let mut settings = plan.settings.clone();
    settings.extend(written);
    let plan = plan.clone();
    let server = aside(move || start(&plan, settings.into_iter().collect())).await?;
    let read = read(&server).await;
    aside(move || Ok(server.stop_immediately()?)).await?;
    read
}

async fn read(server: &RunningCluster) -> Result<BTreeMap<String, Shown>, TuneError> {
    let client = walwright_server::connect(&server.connect_params("postgres")).await?;
    let rows = client.query("SELECT name, setting, enumvals FROM pg_settings", &[]).await;
    let read = rows.and_then(|rows| {
        let shown = |row: &Row| {
            let shown = Shown { setting: row.get(1)?, words: row.get(2)? };
            Ok((row.get::<String>(0)?.to_ascii_lowercase(), shown))
        };
        rows.iter().map(shown).collect::<Result<_, _>>()
    });
    read.map_err(|source| TuneError::Sql { what: "reading the settings back", source })
}

#[cfg(test)]
mod tests {
    use walwright_catalog::parameter;
    use walwright_search::Range;

    use super::*;
    use crate::fixture::plan;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_does_not_come_back_as_it_was_written_is_not_searched() {
        let of = |name: &str| Dimension::of(parameter(name).unwrap(), 18, Some(4e9)).unwrap();
        let too_high = Dimension {
            domain: Domain::Range(Range {
                low: 1e6,
                high: 3e6,
                log: false,
                whole: true,
                unit: None,
                special: Vec::new(),
            }),
            ..of("commit_siblings")
        };
        let mut sync = of("wal_compression");
        sync.domain = Domain::Words(["off", "pglz", "snappy"].map(str::to_owned).to_vec());
        let (left, dropped) =
            probe(&plan(), vec![of("commit_delay"), too_high, sync]).await.unwrap();
        let names: Vec<&str> = left.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["commit_delay", "wal_compression"]);
        assert_eq!(left[1].domain, Domain::Words(["off", "pglz"].map(str::to_owned).to_vec()));
        assert_eq!(dropped[0].name, "commit_siblings");
        assert!(dropped[0].why.contains("does not start"), "{}", dropped[0].why);
    }
}

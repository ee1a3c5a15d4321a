//! What forms ask for, as words of walwright's command line.
//!
//! Whoever holds the token may have runs made on clusters of walwright's own. The words are put
//! together here from what a form may say, each value behind its flag, so that nothing in it
//! is read as another flag: no file, no server and no command of a person's choosing.

use walwright_catalog::parameter;

use crate::pages::Query;

/// Letters of a label.
const LABEL: usize = 200;
/// Letters of a note.
const NOTE: usize = 1_000;
/// What a note lacks that stands nowhere.
pub(crate) const WHERE: &str = "say where on the timeline it stands, in seconds";
/// Seconds of a timeline, at most: a year.
const LONGEST: f64 = 31_536_000.0;

/// The words that make a run.
///
/// # Errors
/// What is wrong with the form, as a sentence.
pub(crate) fn run_words(form: &Query, workloads: &[String]) -> Result<Vec<String>, String> {
    let workload = form.get("workload").ok_or("choose a workload")?;
    if !workloads.iter().any(|known| known == workload) {
        return Err(format!("there is no workload {workload} here"));
    }
    let mut words = vec!["run".to_owned(), format!("--workload={workload}")];
    words.extend(number(form, "clients", 1..=5000)?.map(|n| format!("--clients={n}")));
    words.extend(number(form, "seconds", 1..=86_400)?.map(|n| format!("--duration={n}s")));
    words.extend(number(form, "scale", 1..=100_000)?.map(|n| format!("--scale={n}")));
    words.extend(number(form, "rate", 1..=10_000_000)?.map(|n| format!("--rate={n}")));
    if let Some(label) = form.get("label") {
        words.push(format!("--label={}", label_of(label)?));
    }
    for line in form.get("settings").unwrap_or_default().lines() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let pair = line.split_once('=').ok_or_else(|| format!("'{line}' is not NAME=VALUE"))?;
        let (name, value) = (pair.0.trim(), pair.1.trim());
        // The catalogue holds what bears on writes: no command of the system is in it.
        let known = parameter(name).filter(|known| known.layer.starts_with("PostgreSQL"));
        if known.is_none() {
            return Err(format!("{name} is no setting of the catalogue (`walwright config list`)"));
        }
        words.push(format!("--set={name}={value}"));
    }
    Ok(words)
}

/// The words that prove a finding.
///
/// # Errors
/// What is wrong with the form, as a sentence.
pub(crate) fn prove_words(form: &Query, run: &str) -> Result<Vec<String>, String> {
    let finding = form.get("finding").ok_or("name a finding")?;
    let is_id = finding.strip_prefix('D').is_some_and(|number| number.parse::<u16>().is_ok());
    if !is_id {
        return Err(format!("{finding} is no finding"));
    }
    let mut words = vec!["prove".to_owned()];
    words.extend(form.get("subject").map(|subject| format!("--subject={subject}")));
    words.extend(number(form, "action", 1..=100)?.map(|n| format!("--action={n}")));
    for consent in form.all("consent") {
        if !CONSENTS.iter().any(|(known, _)| *known == consent) {
            return Err(format!("{consent} is nothing to consent to here"));
        }
        words.push(format!("--consent={consent}"));
    }
    words.extend(["--".to_owned(), run.to_owned(), finding.to_owned()]);
    Ok(words)
}

/// What reaches beyond a cluster of walwright's own, or loses what was committed, and what a
/// person agrees to with it.
pub(crate) const CONSENTS: [(&str, &str); 2] = [
    ("kernel", "values of this machine's kernel are changed while it runs, and restored after it"),
    ("unlogged", "a crash empties the tables of the cluster it is tried on"),
];

/// A label of a form.
///
/// # Errors
/// When it is none, as a sentence.
pub(crate) fn label_of(text: &str) -> Result<String, String> {
    line(text, LABEL, "label")
}

/// A note of a form, and where on the timeline it stands, in seconds; `None` where that is left
/// open.
///
/// # Errors
/// When it is none, as a sentence.
pub(crate) fn note_of(form: &Query) -> Result<(Option<f64>, String), String> {
    let place = |at: &str| at.parse().ok().filter(|at| (0.0..=LONGEST).contains(at)).ok_or(WHERE);
    let at = form.get("at").filter(|at| !at.is_empty()).map(place).transpose()?;
    let note = line(form.get("note").ok_or("a note says something")?, NOTE, "note")?;
    Ok((at, note))
}

fn line(text: &str, most: usize, what: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err(format!("a {what} is one line of text"));
    }
    if text.chars().count() > most {
        return Err(format!("a {what} has {most} letters at most"));
    }
    Ok(text.to_owned())
}

fn number(
    form: &Query,
    name: &'static str,
    within: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    let Some(text) = form.get(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| within.contains(number));
    let told = || format!("{name} must be a number from {} to {}", within.start(), within.end());
    number.map(Some).ok_or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(form: &str) -> Result<Vec<String>, String> {
        run_words(&Query::of(form), &["tpcb".to_owned()])
    }

    #[test]
    fn a_form_becomes_flags_and_nothing_else() {
        let words = run("workload=tpcb&clients=8&seconds=30&label=--dsn%3Dx+y\
                         &settings=shared_buffers%3D1GB%0D%0Acommit_delay+%3D+10");
        let expected = [
            "run",
            "--workload=tpcb",
            "--clients=8",
            "--duration=30s",
            "--label=--dsn=x y",
            "--set=shared_buffers=1GB",
            "--set=commit_delay=10",
        ];
        assert_eq!(words.unwrap(), expected);
        let words = prove_words(&Query::of("finding=D9&action=2&subject=--plan"), "r1");
        assert_eq!(words.unwrap(), ["prove", "--subject=--plan", "--action=2", "--", "r1", "D9"]);
    }

    #[test]
    fn what_reaches_beyond_a_cluster_of_our_own_is_refused() {
        for form in [
            "",
            "workload=/etc",
            "workload=tpcb&clients=0",
            "workload=tpcb&clients=8;ls",
            "workload=tpcb&seconds=1e9",
            "workload=tpcb&label=a%0Ab",
            "workload=tpcb&settings=archive_command%3Drm",
            "workload=tpcb&settings=shared_preload_libraries%3Dx",
            "workload=tpcb&settings=vm.dirty_bytes%3D1",
            "workload=tpcb&settings=x",
        ] {
            assert!(run(form).is_err(), "{form}");
        }
        for form in ["finding=--plan", "finding=D9&consent=fsync", "finding=D9&action=x"] {
            assert!(prove_words(&Query::of(form), "r1").is_err(), "{form}");
        }
    }
}

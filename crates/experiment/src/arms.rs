//! From the arms of a plan and its design to the configurations that are run.

use std::collections::BTreeSet;
use std::iter;
use std::path::Path;

use super::design::Design;
use super::origin::{found_from, postgres};
use super::plan_tables::{ArmTable, settings, statements, texts};
use super::profile::Profiles;
use super::{Configuration, PlanError, PlanFile};

/// Most factors of a factorial design: 16 combinations and the A/A arm in each block.
const MOST_FACTORS: usize = 4;

/// What is run: the baseline (twice in each block) and the arms.
#[derive(Debug, Clone, PartialEq)]
pub struct Arms {
    /// What the baseline has on top of the bench.
    pub baseline: Configuration,
    /// The arms, in the order they are shown.
    pub arms: Vec<ArmPlan>,
    /// Names of the factors of a factorial design. The arms then are all combinations
    /// but the empty one: bit `i` of an arm's place plus one says whether factor `i` is on.
    pub factors: Vec<String>,
}

impl Arms {
    /// What people call the arms, in their order.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.arms.iter().map(|arm| &arm.name)
    }
}

/// One arm that is run.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmPlan {
    /// What a person calls it.
    pub name: String,
    /// What it has on top of the bench.
    pub configuration: Configuration,
    /// What is different from the baseline, in words.
    pub changes: Vec<String>,
}

/// A change that a design switches on or off.
struct Part {
    name: String,
    configuration: Configuration,
}

/// The configurations of a plan. Relative paths are seen from `origin`.
///
/// # Errors
/// When a profile is not among `profiles`, an arm changes nothing or has an option of the load
/// that does nothing, a design does not fit the number of arms, or a metric does not fit what
/// an arm's transactions do.
pub fn arms(plan: &PlanFile, origin: &Path, profiles: &Profiles) -> Result<Arms, PlanError> {
    let take_apart = matches!(plan.design, Design::Addition | Design::Ablation);
    let mut parts = Vec::new();
    for arm in &plan.arms {
        let configuration = configuration(arm, origin, profiles)?;
        if configuration.is_empty() {
            profiles.holds_something(arm)?;
            return Err(PlanError::value(
                &arm.name,
                "name",
                "the arm changes nothing: give it settings, ddl, load, workload, parameters, kernel, postgres, pg_bin, flush_latency, processors, memory, tcp or profile",
            ));
        }
        // A profile is many changes under one name.
        match arm.profile {
            Some(_) if take_apart => parts.extend(
                configuration
                    .parts()
                    .into_iter()
                    .map(|part| Part { name: part.words().join(", "), configuration: part }),
            ),
            _ => parts.push(Part { name: arm.name.clone(), configuration }),
        }
    }
    let arms = match plan.design {
        Design::OneAtATime => one_at_a_time(&parts),
        Design::Addition => addition(&parts),
        Design::Ablation => ablation(&parts)?,
        Design::Factorial => factorial(&parts)?,
        Design::Pair => pair(&parts)?,
    };
    // Only here is it known which changes of the load come together.
    let loads = arms.arms.iter().map(|arm| (arm.name.as_str(), &arm.configuration.load));
    for (arm, load) in iter::once(("baseline", &arms.baseline.load)).chain(loads) {
        if let Some((key, what)) = load.without_effect(&plan.load) {
            return Err(PlanError::value(arm, key, what));
        }
    }
    let batch = arms.arms.iter().find(|arm| arm.configuration.is_batch());
    if let (Some(arm), Some(metric)) = (batch, plan.metrics()?.first())
        && metric.speaks_of_transactions()
    {
        let what = format!(
            "{} is of whole transactions, and one of several units of work is another: judge a figure of the work, such as throughput",
            metric.kind().name
        );
        return Err(PlanError::value(&arm.name, "units", what));
    }
    Ok(arms)
}

fn all<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Configuration {
    parts.into_iter().fold(Configuration::default(), |all, part| all.with(&part.configuration))
}

fn alone(part: &Part) -> ArmPlan {
    ArmPlan {
        name: part.name.clone(),
        changes: part.configuration.words(),
        configuration: part.configuration.clone(),
    }
}

fn one_at_a_time(parts: &[Part]) -> Arms {
    let arms = parts.iter().map(alone).collect();
    Arms { baseline: Configuration::default(), arms, factors: Vec::new() }
}

fn addition(parts: &[Part]) -> Arms {
    let mut arms = one_at_a_time(parts);
    if parts.len() > 1 {
        let configuration = all(parts);
        let changes = configuration.words();
        arms.arms.push(ArmPlan { name: "all together".to_owned(), configuration, changes });
    }
    arms
}

fn ablation(parts: &[Part]) -> Result<Arms, PlanError> {
    if parts.len() < 2 {
        let what = "an ablation leaves out one of several changes; there is only one";
        return Err(PlanError::value("", "design", what));
    }
    let mut arms: Vec<ArmPlan> = (0..parts.len())
        .map(|out| ArmPlan {
            name: format!("without {}", parts[out].name),
            configuration: all(parts
                .iter()
                .enumerate()
                .filter(|(place, _)| *place != out)
                .map(|(_, part)| part)),
            changes: left_out(parts[out].configuration.words()),
        })
        .collect();
    arms.push(ArmPlan {
        name: "without all".to_owned(),
        configuration: Configuration::default(),
        changes: left_out(all(parts).words()),
    });
    Ok(Arms { baseline: all(parts), arms, factors: Vec::new() })
}

fn left_out(words: Vec<String>) -> Vec<String> {
    words.into_iter().map(|word| format!("not {word}")).collect()
}

fn factorial(parts: &[Part]) -> Result<Arms, PlanError> {
    if !(2..=MOST_FACTORS).contains(&parts.len()) {
        let what = format!(
            "a factorial design takes 2 to {MOST_FACTORS} arms as its factors, not {}",
            parts.len()
        );
        return Err(PlanError::value("", "design", what));
    }
    let arms = (1_usize..1 << parts.len())
        .map(|on| {
            let chosen: Vec<&Part> = parts
                .iter()
                .enumerate()
                .filter(|(place, _)| on >> place & 1 == 1)
                .map(|(_, part)| part)
                .collect();
            let names: Vec<&str> = chosen.iter().map(|part| part.name.as_str()).collect();
            let name = names.join(" + ");
            let configuration = all(chosen);
            ArmPlan { name, changes: configuration.words(), configuration }
        })
        .collect();
    let factors = parts.iter().map(|part| part.name.clone()).collect();
    Ok(Arms { baseline: Configuration::default(), arms, factors })
}

fn pair(parts: &[Part]) -> Result<Arms, PlanError> {
    let [a, b] = parts else {
        let what = format!("a pair is of two arms, not of {}", parts.len());
        return Err(PlanError::value("", "design", what));
    };
    Ok(Arms { baseline: a.configuration.clone(), arms: vec![alone(b)], factors: Vec::new() })
}

/// What an arm's table says.
fn configuration(
    arm: &ArmTable,
    origin: &Path,
    profiles: &Profiles,
) -> Result<Configuration, PlanError> {
    let files: Vec<String> =
        arm.workload.files.iter().map(|file| found_from(origin, file.clone())).collect();
    let (ddl, undo) = statements(&arm.ddl);
    let own = Configuration {
        settings: settings(&arm.settings),
        ddl,
        follow_ups: BTreeSet::new(),
        undo,
        kernel: texts(&arm.kernel),
        load: arm.load.clone(),
        options: texts(&arm.workload.options),
        define: texts(&arm.workload.define),
        parameters: texts(&arm.parameters),
        files: (!files.is_empty()).then_some(files),
        units: arm.workload.units.map(std::num::NonZeroU32::get),
        postgres: postgres(origin, arm.postgres.as_ref(), arm.pg_bin.as_ref()),
        flush_latency: arm.flush_latency,
        processors: arm.processors,
        memory: arm.memory,
        tcp: arm.tcp,
    };
    match &arm.profile {
        Some(profile) => Ok(profiles.of(&arm.name, profile)?.configuration.with(&own)),
        None => Ok(own),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Consent;
    use super::*;

    fn read(plan: &PlanFile) -> Result<Arms, PlanError> {
        arms(plan, Path::new("."), &Profiles::default())
    }

    fn planned(design: &str) -> Result<Arms, PlanError> {
        let text = format!(
            "design = \"{design}\"\n\
             [[arm]]\nname = \"a\"\nsettings = {{ jit = \"off\" }}\n\
             [[arm]]\nname = \"b\"\nload = {{ clients = 4 }}\n"
        );
        read(&PlanFile::parse(&text)?)
    }

    fn names(arms: &Arms) -> Vec<&str> {
        arms.arms.iter().map(|arm| arm.name.as_str()).collect()
    }

    #[test]
    fn a_batch_is_judged_by_its_units_of_work() {
        let planned = |metric: &str, units: u32| {
            let text = format!(
                "metric = \"{metric}\"\n\
                 [[arm]]\nname = \"batch\"\nworkload = {{ files = [\"b.sql\"], units = {units} }}\n"
            );
            read(&PlanFile::parse(&text)?)
        };
        let arms = planned("throughput", 10).unwrap();
        assert_eq!(arms.arms[0].configuration.units, Some(10));
        assert!(arms.arms[0].changes.contains(&"10 units of work a transaction".to_owned()));
        let error = planned("latency_p99", 10).unwrap_err().to_string();
        assert!(error.contains("arm 'batch': units: ") && error.contains("throughput"), "{error}");
        assert!(planned("latency_p99", 1).is_ok());
        assert!(planned("throughput", 0).is_err());
        // What brings its own scripts does its own work.
        let other = Configuration { files: Some(Vec::new()), ..Configuration::default() };
        assert_eq!(arms.arms[0].configuration.with(&other).units, None);
    }

    #[test]
    fn designs_combine_the_same_changes() {
        let one = planned("one-at-a-time").unwrap();
        assert_eq!(names(&one), ["a", "b"]);
        let addition = planned("addition").unwrap();
        assert_eq!(names(&addition), ["a", "b", "all together"]);
        let ablation = planned("ablation").unwrap();
        assert_eq!(names(&ablation), ["without a", "without b", "without all"]);
        assert_eq!(ablation.baseline, addition.arms[2].configuration);
        assert_eq!(ablation.arms[0].configuration, one.arms[1].configuration);
        assert!(ablation.arms[2].configuration.is_empty());
        let factorial = planned("factorial").unwrap();
        assert_eq!(names(&factorial), ["a", "b", "a + b"]);
        assert_eq!(factorial.factors, ["a", "b"]);
        assert_eq!(factorial.arms[2].configuration, ablation.baseline);
        let pair = planned("pair").unwrap();
        assert_eq!(names(&pair), ["b"]);
        assert_eq!(pair.baseline, one.arms[0].configuration);
        assert_eq!(pair.arms[0].configuration, one.arms[1].configuration);
    }

    #[test]
    fn an_arm_must_change_something() {
        let plan = PlanFile::parse("[[arm]]\nname = \"same\"\n").unwrap();
        let error = read(&plan).unwrap_err().to_string();
        assert!(error.contains("same") && error.contains("changes nothing"), "{error}");
        let one = PlanFile::parse(
            "design = \"ablation\"\n[[arm]]\nname = \"a\"\nsettings = { jit = false }\n",
        );
        assert!(read(&one.unwrap()).is_err());
    }

    #[test]
    fn an_option_of_the_load_that_does_nothing_is_refused() {
        let read = |design: &str, load: &str| {
            let text = format!(
                "design = \"{design}\"\n[load]\n{load}\n\
                 [[arm]]\nname = \"a\"\nload = {{ rate = 3000 }}\n\
                 [[arm]]\nname = \"b\"\nload = {{ think = \"1ms\" }}\n"
            );
            read(&PlanFile::parse(&text).unwrap())
        };
        assert!(read("one-at-a-time", "").is_ok());
        let error = read("one-at-a-time", "rate = 2000").unwrap_err().to_string();
        assert!(error.contains("arm 'b'") && error.contains("think"), "{error}");
        let both = read("factorial", "").unwrap_err().to_string();
        assert!(both.contains("arm 'a + b'"), "{both}");
    }

    #[test]
    fn a_setting_is_the_same_however_its_name_is_written() {
        let text = "[server]\nsettings = { jit = true }\n\
                    [[arm]]\nname = \"a\"\nsettings = { JIT = false }\n";
        let plan = PlanFile::parse(text).unwrap();
        let arms = read(&plan).unwrap();
        let base = plan.bench(Path::new("."), &Profiles::default(), "").unwrap().base;
        let both = base.with(&arms.arms[0].configuration);
        assert_eq!(both, Configuration::of_settings([("jit", "off")]));
    }

    #[test]
    fn a_profile_is_one_arm_or_taken_apart() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("my.conf"), "jit = off\nmax_wal_size = 8GB\n").unwrap();
        let plan = |design: &str| {
            let text =
                format!("design = \"{design}\"\n[[arm]]\nname = \"mine\"\nprofile = \"my.conf\"\n");
            let plan = PlanFile::parse(&text).unwrap();
            let profiles =
                Profiles::read(plan.profiles(), dir.path(), &Consent::default()).unwrap();
            arms(&plan, dir.path(), &profiles).unwrap()
        };
        assert_eq!(names(&plan("one-at-a-time")), ["mine"]);
        assert_eq!(
            names(&plan("ablation")),
            ["without jit = off", "without max_wal_size = 8GB", "without all"]
        );
    }

    #[test]
    fn a_profile_has_its_values_of_the_kernel_with_consent_and_its_statements_together() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(dir.path().join("my.env"), text).unwrap();
        write("PG_JIT=off\nVM_SWAPPINESS=1\nINDEX_FILLFACTOR='a_pkey=70'\n");
        let text = "design = \"addition\"\n[[arm]]\nname = \"mine\"\nprofile = \"my.env\"\n";
        let plan = PlanFile::parse(text).unwrap();
        let made = |consent: &[&str]| {
            let consent = consent.iter().collect();
            let profiles = Profiles::read(plan.profiles(), dir.path(), &consent).unwrap();
            (arms(&plan, dir.path(), &profiles), plan.left_out(&profiles).unwrap())
        };
        let index = "ALTER INDEX a_pkey SET (fillfactor = 70), REINDEX INDEX a_pkey";
        let (found, left_out) = made(&[]);
        assert_eq!(names(&found.unwrap()), ["jit = off", index, "all together"]);
        let told = "1 of my.env are values of the kernel";
        assert!(left_out[0].starts_with(told) && left_out[0].ends_with(": vm.swappiness"));
        for consent in ["kernel", "vm.swappiness"] {
            let (found, left_out) = made(&[consent]);
            let found = found.unwrap();
            assert_eq!(names(&found), ["jit = off", index, "vm.swappiness = 1", "all together"]);
            assert_eq!(found.arms[3].configuration.ddl.len(), 2);
            assert_eq!(left_out, [""; 0]);
        }
        write("VM_SWAPPINESS=1\n");
        let refused = made(&[]).0.unwrap_err().to_string();
        assert!(refused.contains("profile: ") && refused.contains("--consent kernel"), "{refused}");
        assert_eq!(names(&made(&["kernel"]).0.unwrap()), ["vm.swappiness = 1"]);
    }
}

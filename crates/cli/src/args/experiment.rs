//! Arguments of `walwright experiment`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ViewArgs, VisitArgs};

/// `walwright experiment`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  walwright experiment --example > plan.toml         a plan to edit
  walwright experiment plan.toml --estimate          check it and print the estimated cost
  walwright experiment plan.toml                     do it
  walwright experiment plan.toml --stop-when-clear   end at a planned look when all is clear
  walwright experiment ingest --quick                a plan that comes with walwright, in minutes
  walwright experiment resume                        go on with one that was stopped or killed
  walwright experiment show latest                   the result again
  walwright experiment plan.toml --dsn postgres://me@db/app --maintenance
                                                     on your server: its settings are changed for
                                                     each run, and restored after it
Each block runs the baseline twice and every arm once, in random order, each from the same restored
data. Three blocks screen, six and more prove."
)]
pub struct ExperimentArgs {
    /// What else to do with experiments.
    #[command(subcommand)]
    pub command: Option<ExperimentCommand>,
    /// What to run.
    #[command(flatten)]
    pub new: NewExperimentArgs,
}

/// `walwright experiment run`, which may be left out.
#[derive(Debug, Args)]
pub struct NewExperimentArgs {
    /// The plan: a TOML file, see --example, or one by name that comes with walwright: ingest, ingest-cost, diary, pool-study, pool-study-locust, index-study.
    #[arg(value_name = "PLAN", required_unless_present_any = ["resume", "example"])]
    pub plan: Option<PathBuf>,
    /// Print a plan that can be edited and run.
    #[arg(long, conflicts_with_all = ["plan", "resume"])]
    pub example: bool,
    /// An older spelling of `experiment resume`.
    #[arg(long, hide = true, value_name = "ID", conflicts_with_all = ["plan", "estimate", "new", "blocks", "consent", "stop_when_clear"])]
    pub resume: Option<String>,
    /// Check the plan, print the estimated cost and exit.
    #[arg(long)]
    pub estimate: bool,
    /// Three blocks of 5-second windows: minutes that screen and prove nothing.
    #[arg(long, conflicts_with = "resume")]
    pub quick: bool,
    /// Blocks instead of the plan's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub blocks: Option<u32>,
    /// Allow what may lose committed data (a setting by name, or `unlogged`) or changes the kernel (a
    /// value by name, or `kernel`). May be repeated.
    #[arg(long, value_name = "NAME")]
    pub consent: Vec<String>,
    /// End at a planned look when every arm is clear, or will not become clear.
    ///
    /// Looks are at half and three quarters of the blocks; each, also the last, is then
    /// taken at a stricter level, so that looking early does not make noise an effect.
    #[arg(long)]
    pub stop_when_clear: bool,
    /// Begin anew though the same plan has an unfinished experiment.
    #[arg(long)]
    pub new: bool,
    /// A server of yours to run on.
    #[command(flatten)]
    pub visit: VisitArgs,
    /// How it is shown.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// What else there is to do with experiments.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Run a plan; `run` may be left out.
    Run(Box<NewExperimentArgs>),
    /// Go on with an experiment that was stopped or killed.
    Resume {
        /// Its name, the beginning or end of it, or `latest`.
        #[arg(default_value = "latest")]
        experiment: String,
        /// A server of yours that it runs on.
        #[command(flatten)]
        visit: Box<VisitArgs>,
        /// How it is shown.
        #[command(flatten)]
        view: ViewArgs,
    },
    /// List the experiments of the lab.
    List,
    /// Show the result of an experiment, finished or not.
    Show {
        /// Its name, the beginning or end of it, or `latest`.
        #[arg(default_value = "latest")]
        experiment: String,
        /// Write the page with the forest plot here instead of beside the experiment.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Delete an experiment and the data it restores from. The records of its runs stay.
    #[command(alias = "rm")]
    Delete {
        /// Its name, or the beginning or end of it.
        experiment: String,
    },
}

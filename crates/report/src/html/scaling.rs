//! A sweep over clients as one HTML page.

use serde::Serialize;
use walwright_figures::scaling::{Scaling, ScalingLoad};

use super::ReportError;
use super::frame::rendered;
use crate::scaled::{self, Parameter};
use crate::svg::scaling as plots;
use crate::{format, words};

const TEMPLATE: &str = include_str!("../../templates/scaling.html");

#[derive(Debug, Serialize)]
struct Page {
    title: String,
    deck: String,
    name: String,
    verdict: Vec<String>,
    warnings: Vec<String>,
    throughput: Option<String>,
    latency_breakdown: Option<String>,
    resources: Vec<Key>,
    parameters: Vec<Parameter>,
    loads: Vec<Row>,
    growths: Vec<Grown>,
    growth_title: String,
}

#[derive(Debug, Serialize)]
struct Key {
    name: &'static str,
    ink: &'static str,
}

#[derive(Debug, Serialize)]
struct Row {
    clients: String,
    runs: Vec<String>,
    throughput: String,
    latency: String,
    p99: String,
    shares: Vec<String>,
    busy: String,
    generator: String,
    finding: String,
}

#[derive(Debug, Serialize)]
struct Grown {
    name: &'static str,
    ink: &'static str,
    before: String,
    after: String,
    points: String,
    interval: String,
    seconds: String,
    part: String,
}

/// The sweep as a whole HTML page without outside resources: the curve with its band, every
/// run, the latency breakdown of each load, and what grows towards the bend.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn scaling(of: &Scaling) -> Result<String, ReportError> {
    rendered(TEMPLATE, &page(of))
}

fn page(of: &Scaling) -> Page {
    let resources = scaled::resources(of);
    let warnings = of.left_out.iter().map(|run| format!("left out: {run}"));
    Page {
        title: scaled::title(of),
        deck: scaled::deck(of),
        name: of.name.clone(),
        verdict: of.verdict.clone(),
        warnings: warnings
            .chain(of.warnings.iter().cloned())
            .map(|d| words::sentence(&d))
            .collect(),
        throughput: plots::throughput(of),
        latency_breakdown: plots::latency_breakdown(of),
        parameters: scaled::parameters(of),
        loads: of
            .loads
            .iter()
            .map(|load| Row {
                clients: load.clients.to_string(),
                runs: load.runs.iter().map(|run| run.0.clone()).collect(),
                throughput: format::estimate(&load.throughput, "/s"),
                latency: load.latency.map_or_else(String::new, format::seconds),
                p99: load.p99.map_or_else(String::new, format::seconds),
                shares: resources.iter().map(|r| scaled::share(load, *r)).collect(),
                busy: load.busy.map_or_else(String::new, format::percent),
                generator: load.generator.map_or_else(String::new, format::percent),
                finding: finding(load),
            })
            .collect(),
        resources: resources
            .iter()
            .map(|r| Key { name: r.label(), ink: plots::ink(*r).class() })
            .collect(),
        growths: of.bend.iter().flat_map(|bend| &bend.growths).map(grown).collect(),
        growth_title: of.bend.as_ref().map_or_else(String::new, |bend| {
            format!(
                "What grows from {} to {}",
                bend.from,
                format::counted(bend.to.into(), "client")
            )
        }),
    }
}

fn finding(load: &ScalingLoad) -> String {
    load.finding.as_ref().map_or_else(String::new, |f| format!("{}: {}", f.id, f.cause))
}

fn grown(growth: &walwright_figures::scaling::Growth) -> Grown {
    let points = |share: f64| format!("{:+.1}", share * 100.0).replace('-', "−");
    Grown {
        name: growth.resource.label(),
        ink: plots::ink(growth.resource).class(),
        before: format::percent(growth.before),
        after: format::percent(growth.after),
        points: points(growth.share.center),
        interval: growth
            .share
            .interval
            .map_or_else(String::new, |i| format!("{} to {}", points(i.low), points(i.high))),
        seconds: format::seconds(growth.seconds),
        part: growth.part_of_increase.map_or_else(String::new, format::percent),
    }
}

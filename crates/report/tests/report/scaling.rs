//! What the renderings of a sweep say and draw.

use std::time::Duration;

use walwright_figures::WorkUnit;
use walwright_figures::scaling::{
    Bend, Growth, ResourceTime, Scaling, ScalingLoad, ScalingPoint, ScalingResource,
};
use walwright_record::RunId;
use walwright_report::scaling;
use walwright_report::terminal::Style;
use walwright_stats::{Confidence, Estimate, Load, Method, Resampling, ScalingLaw, fit_scaling};

use crate::renderings::{markup, text_of};

fn about(center: f64) -> Estimate {
    Estimate::symmetric(center, 0.03 * center, Confidence::P95, Method::BlockBootstrap)
}

fn times(clients: u32, latency: f64) -> Vec<ResourceTime> {
    let locks = 0.9 - 0.85 / f64::from(clients);
    [
        (ScalingResource::Processors, 0.6 * (1.0 - locks)),
        (ScalingResource::WalFlush, 0.4 * (1.0 - locks)),
        (ScalingResource::Locks, locks),
    ]
    .map(|(resource, share)| ResourceTime {
        resource,
        seconds: about(share * latency),
        share: about(share),
    })
    .into()
}

pub fn sample() -> Scaling {
    let law = ScalingLaw { single: 1_600.0, contention: 0.06, coherency: 0.01 };
    let point = |clients: u32| {
        let rate = law.throughput(f64::from(clients)) * if clients == 4 { 1.03 } else { 1.0 };
        let latency = f64::from(clients) / rate;
        ScalingPoint {
            run: RunId(format!("20261120-0000{clients:02}-abc")),
            clients,
            unit: WorkUnit::Transaction,
            throughput: about(rate),
            window: Duration::from_secs(30),
            latency: Some(Duration::from_secs_f64(latency)),
            p99: Some(Duration::from_secs_f64(3.0 * latency)),
            times: times(clients, latency),
            busy: Some(0.5),
            generator: Some(0.1),
            finding: None,
        }
    };
    let points: Vec<ScalingPoint> = [1, 2, 4, 8, 16, 32].map(point).into();
    let measured: Vec<Load> = points
        .iter()
        .map(|p| Load { clients: f64::from(p.clients), throughput: p.throughput.center })
        .collect();
    let how = Resampling { resamples: 200, ..Resampling::default() };
    let fit = fit_scaling(&measured, &how).unwrap();
    let load = |p: &ScalingPoint| ScalingLoad {
        clients: p.clients,
        runs: vec![p.run.clone()],
        throughput: p.throughput.clone(),
        latency: p.latency.map(|l| l.as_secs_f64()),
        p99: p.p99.map(|l| l.as_secs_f64()),
        times: p.times.clone(),
        busy: p.busy,
        generator: p.generator,
        finding: None,
    };
    Scaling {
        name: "sweep-20261120-000000-abc".to_owned(),
        workload: "<tpcb>".to_owned(),
        target: "embedded PostgreSQL 18".to_owned(),
        unit: WorkUnit::Transaction,
        window: Duration::from_secs(30),
        loads: points.iter().map(load).collect(),
        points,
        peak: fit.peak_clients.clone(),
        fit: Some(fit),
        not_fitted: None,
        bend: Some(Bend {
            from: 1,
            to: 16,
            growths: vec![Growth {
                resource: ScalingResource::Locks,
                before: 0.05,
                after: 0.85,
                seconds: about(0.003),
                part_of_increase: Some(0.97),
            }],
            busy: Some(0.5),
            full: false,
            generator: Some(0.1),
        }),
        verdict: vec!["Throughput peaks at 9.7 clients.".to_owned()],
        left_out: vec!["run x is interrupted".to_owned()],
        warnings: vec!["one run a client count".to_owned()],
    }
}

fn style(unicode: bool) -> Style {
    Style { width: 90, colour: false, unicode }
}

#[test]
fn a_sweep_in_every_rendering() {
    let of = sample();
    let document = scaling(&of);
    let text = document.terminal(&style(true));
    insta::assert_snapshot!("scaling_terminal", text);
    assert_eq!(text.matches('●').count(), of.points.len(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    let ascii = document.terminal(&style(false));
    assert!(ascii.is_ascii(), "{ascii}");

    let page = markup(&document);
    insta::assert_snapshot!("scaling_page", text_of(&page));
    assert_eq!(page.matches("<circle").count(), of.points.len());
    assert!(page.contains("<polygon") && page.contains("<polyline"));
    let parts: usize = of.loads.iter().map(|load| load.times.len()).sum();
    assert_eq!(page.matches("<rect").count(), parts);
    assert!(!page.contains("<tpcb>") && !page.contains("NaN"));
}

#[test]
fn without_a_fit_and_without_samples_what_is_known_is_still_told() {
    let mut of = sample();
    of.fit = None;
    of.peak = None;
    of.bend = None;
    of.not_fitted = Some("too few".to_owned());
    of.loads.iter_mut().for_each(|load| load.times.clear());
    let document = scaling(&of);
    insta::assert_snapshot!("scaling_not_fitted", document.terminal(&style(true)));
    assert!(!markup(&document).contains("<polygon"));
}

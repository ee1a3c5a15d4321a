//! Commands that were started here.

use std::sync::Arc;

use bytes::Bytes;
use walwright_record::RunId;
use walwright_report::html::Links;
use walwright_report::{Document, JobRow, job, job_list};
use walwright_store::Lab;

use super::above;
use crate::answer::{LINKS, Packed, event};
use crate::forms;
use crate::jobs::{Job, Jobs, Standing};
use crate::live::{Seen, Watched};

/// All of them as a page.
pub(crate) fn list(jobs: &Jobs) -> Document {
    let all = jobs.list();
    let rows: Vec<JobRow<'_>> = all.iter().map(|job| row(job, &job.standing())).collect();
    job_list(&rows)
}

fn row<'a>(job: &'a Job, of: &Standing) -> JobRow<'a> {
    let state = match (of.ended, of.stopping, of.code) {
        (false, false, _) => "It goes on.".to_owned(),
        (false, true, _) => "It was asked to stop.".to_owned(),
        (true, _, Some(0)) => "It is done.".to_owned(),
        (true, true, _) => "It was stopped.".to_owned(),
        (true, _, Some(code)) => format!("It failed with exit code {code}."),
        (true, _, None) => "It was killed.".to_owned(),
    };
    let failed = of.ended && !of.stopping && of.code != Some(0);
    let link = format!("/jobs/{}", job.number);
    JobRow { link, command: &job.command, begun: job.begun, state, failed }
}

/// One that may go on.
pub(crate) struct WatchedJob {
    lab: Lab,
    job: Arc<Job>,
    last: Option<(Standing, Vec<RunId>)>,
    drawn: u64,
}

impl WatchedJob {
    pub(crate) fn new(lab: Lab, job: Arc<Job>) -> WatchedJob {
        WatchedJob { lab, job, last: None, drawn: 0 }
    }
}

impl Watched for WatchedJob {
    fn look(&mut self) -> Option<Seen> {
        let standing = self.job.standing();
        let runs = self.job.runs(&self.lab, standing.process);
        let now = (standing, runs);
        if self.last.as_ref() == Some(&now) {
            return None;
        }
        let (standing, runs) = self.last.insert(now);
        let ended = standing.ended;
        let document = job(&row(&self.job, standing), &standing.lines, runs);
        let events = format!("/jobs/{}/events", self.job.number);
        let stop = if ended { String::new() } else { forms::stop(self.job.number) };
        let above = above("/jobs", &stop);
        let links = Links { live: (!ended).then_some(&events), above: &above, ..LINKS };
        let page = Ok(Packed::page(&document, &links));
        let mut told = event("page", "{}").to_vec();
        if ended {
            told.extend(event("end", "{}"));
        }
        self.drawn += 1;
        Some(Seen { page, series: None, told: Bytes::from(told), drawn: self.drawn, ended })
    }
}

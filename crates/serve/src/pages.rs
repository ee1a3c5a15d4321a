//! The documents behind the addresses.

mod gateway;
mod jobs;
mod lists;
mod run;
mod studies;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use walwright_report::html::escape;
use walwright_report::terminal::printable;
use walwright_store::{FindError, Lab, Store, StoreError};

use crate::answer::Refusal;

pub(crate) use gateway::WatchedGateway;
pub(crate) use jobs::{WatchedJob, list as job_list};
pub(crate) use run::{Kept, Provable, WatchedRun};
pub(crate) use studies::{COMPARED, Study, WatchedStudy};

/// Runs on a page, and to choose from.
pub(crate) const PAGE: usize = 50;
/// Ended runs whose pages are kept ready.
const KEPT: usize = 8;

/// What is asked for beside the path.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(text: &str) -> Query {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of this name that says something.
    pub(crate) fn get(&self, name: &'static str) -> Option<&str> {
        self.all(name).next()
    }

    /// All of them.
    pub(crate) fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(called, _)| called == name);
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

/// The lab, and what was read of it lately.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) lab: Lab,
    /// Ended runs, the one used last in front.
    runs: Mutex<VecDeque<Arc<Kept>>>,
    /// Small drawings of runs that have ended.
    courses: Mutex<HashMap<String, Vec<f64>>>,
}

impl Pages {
    pub(crate) fn new(lab: Lab) -> Pages {
        Pages { lab, runs: Mutex::default(), courses: Mutex::default() }
    }

    pub(crate) fn store(&self) -> Result<Store, Refusal> {
        match self.lab.existing_store() {
            Ok(Some(store)) => Ok(store),
            Ok(None) => Err(Refusal::not_found("there are no runs in this lab")),
            Err(error) => Err(refused(&error)),
        }
    }
}

/// What the store says, for a person: what is not there is not found.
pub(crate) fn refused(error: &StoreError) -> Refusal {
    match error {
        StoreError::Find(FindError::NoSuch { .. }) => Refusal::not_found(error.to_string()),
        StoreError::Find(_) => Refusal::new(StatusCode::BAD_REQUEST, error.to_string()),
        other => Refusal::failed(other),
    }
}

/// A lock that a panic elsewhere does not take away.
pub(crate) fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Text as it stands in markup: nothing in it is markup, and letters that nobody sees, or that
/// turn the order of others around, are shown.
pub(crate) fn text(of: &str) -> String {
    escape(&printable(of))
}

/// A part of an address.
pub(crate) fn in_address(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The bar across the top of each page; `at` is the address of where one is.
fn bar(at: &str) -> String {
    let places = [
        ("/", "Runs"),
        ("/compare", "Compare"),
        ("/experiments", "Experiments"),
        ("/tunes", "Tunes"),
        ("/journal", "Journal"),
        ("/gateway", "Gateway"),
        ("/jobs", "Started here"),
    ];
    let link = |(to, name): &(&str, &str)| {
        let current = if *to == at { " aria-current=\"page\"" } else { "" };
        format!("<a href=\"{to}\"{current}>{name}</a>")
    };
    let links: String = places.iter().map(link).collect();
    format!("<nav class=\"bar\" aria-label=\"Lab\">{links}</nav>")
}

/// What stands above a page: the bar, and what can be done.
pub(crate) fn above(at: &str, deeds: &str) -> String {
    let bar = bar(at);
    if deeds.is_empty() {
        bar
    } else {
        format!(
            "{bar}<div class=\"deeds\" role=\"region\" aria-label=\"What can be done here\">{deeds}</div>"
        )
    }
}

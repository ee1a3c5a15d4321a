//! The frame that all pages share: the template engine, the head of a page, its style.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context, escape_formatter};
use serde::Serialize;

use super::ReportError;
use crate::terminal::printable;

/// What templates extend or include, by name.
const SHARED: [(&str, &str); 2] = [
    ("frame.html", include_str!("../../templates/frame.html")),
    ("warnings.html", include_str!("../../templates/warnings.html")),
];
pub(crate) const STYLE: &str = include_str!("../../templates/report.css");
pub(super) const SCRIPT: &str = include_str!("../../templates/report.js");

/// `page` in its template, which extends `frame.html`. Text is escaped; the template says
/// what is markup.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub(crate) fn rendered(template: &str, page: &impl Serialize) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // Letters that nobody sees, or that turn the order of others around, are shown: people
    // copy statements from a page.
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if !value.is_safe() => {
            escape_formatter(out, state, &Value::from(printable(text).into_owned()))
        }
        _ => escape_formatter(out, state, value),
    });
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    for (name, source) in SHARED {
        environment.add_template(name, source)?;
    }
    let context = context! {
        page => Serde(page),
        renderer => env!("CARGO_PKG_VERSION"),
        css => STYLE,
    };
    Ok(environment.render_named_str("page.html", template, context)?)
}

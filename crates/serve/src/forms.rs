//! The forms of pages, for those who may act. Each is a plain form: no script is needed.

use walwright_record::{RunHeader, RunState};

use crate::actions::CONSENTS;
use crate::pages::{Kept, Provable, text};

/// What folds away under a title.
fn folded(title: &str, inside: &str) -> String {
    format!("<details class=\"folded\"><summary><b>{}</b></summary>{inside}</details>", text(title))
}

fn hidden(name: &str, value: &str) -> String {
    format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", text(value))
}

/// What makes a run.
pub(crate) fn run(workloads: &[String]) -> String {
    let option = |name: &String| format!("<option>{}</option>", text(name));
    let options: String = workloads.iter().map(option).collect();
    let number = |name: &str, said: &str, value: &str| {
        format!(
            "<label>{said} <input type=\"number\" name=\"{name}\" min=\"1\" value=\"{value}\"></label> "
        )
    };
    let inside = format!(
        "<form method=\"post\" action=\"/jobs/run\"><p>On a fresh cluster of PostgreSQL 18, gone at the end.</p>\
         <p><label>Workload <select name=\"workload\">{options}</select></label> {}{}{}{}</p>\
         <p><label>Settings, NAME=VALUE a line<br><textarea name=\"settings\" rows=\"3\" cols=\"40\"></textarea></label></p>\
         <p><label>Label <input name=\"label\" maxlength=\"200\"></label> \
         <button type=\"submit\">Start the run</button></p></form>",
        number("clients", "clients", ""),
        number("seconds", "seconds", "60"),
        number("scale", "scale", ""),
        number("rate", "a second, or as fast as they can", ""),
    );
    folded("Start a run", &inside)
}

/// What a person may say of a run. Where none is given, a note on one that goes on is of now.
pub(crate) fn remarks(of: &RunHeader) -> String {
    let (required, now) = match of.state {
        RunState::Running => ("", ", or now"),
        _ => (" required", ""),
    };
    let (id, label) = (text(&of.id.0), text(of.label.as_deref().unwrap_or_default()));
    let inside = format!(
        "<form method=\"post\" action=\"/runs/{id}/label\"><p><label>Label \
         <input name=\"label\" maxlength=\"200\" value=\"{label}\"></label> \
         <button type=\"submit\">Keep it</button></p></form>\
         <form method=\"post\" action=\"/runs/{id}/note\"><p><label>Note \
         <input name=\"note\" maxlength=\"1000\" required></label> <label>at \
         <input type=\"number\" name=\"at\" min=\"0\" step=\"any\"{required}> s of the timeline{now}</label> \
         <button type=\"submit\">Write it down</button></p></form>"
    );
    folded("Label and notes", &inside)
}

/// The findings that an experiment can prove.
pub(crate) fn proofs(of: &Kept) -> String {
    if of.provable.is_empty() {
        return String::new();
    }
    if of.attached {
        let said = format!(
            "<p>It was made on a server of yours, whose address is not kept: \
             <code>walwright prove {}</code> lists what can be tried there, in a maintenance window.</p>",
            text(&of.header.id.0)
        );
        return folded("Prove a finding", &said);
    }
    let forms: String = of.provable.iter().map(|finding| proof(&of.header, finding)).collect();
    let lede = "<p>The run is repeated in pairs, as it was and with the change, on clusters of \
                walwright's own. This takes as long as some runs.</p>";
    folded("Prove a finding", &format!("{lede}{forms}"))
}

fn proof(run: &RunHeader, of: &Provable) -> String {
    let subject =
        of.subject.as_deref().map(|subject| hidden("subject", subject)).unwrap_or_default();
    let form = |(number, arm, consent): &(usize, String, Option<&'static str>)| {
        let agreed = consent.and_then(|name| CONSENTS.iter().find(|(known, _)| *known == name));
        let consent = agreed.map(|(name, said)| {
            format!(
                "<label><input type=\"checkbox\" name=\"consent\" value=\"{name}\" required> \
                 I agree: {said}.</label> "
            )
        });
        format!(
            "<form method=\"post\" action=\"/jobs/prove\"><p>{}{}{subject}{}<code>{}</code> {}\
             <button type=\"submit\">Prove {}</button></p></form>",
            hidden("run", &run.id.0),
            hidden("finding", &of.id),
            hidden("action", &number.to_string()),
            text(arm),
            consent.unwrap_or_default(),
            text(&of.id),
        )
    };
    let forms: String = of.actions.iter().map(form).collect();
    format!("<p><b>{}</b> {}</p>{forms}", text(&of.id), text(&of.title))
}

/// What ends a run that goes on, where a command that was started here makes it.
pub(crate) fn stop_run(job: Option<u32>) -> String {
    let said = "<p>It was not started here: end it where it was, with Ctrl-C.</p>";
    folded("Stop the run", &job.map_or_else(|| said.to_owned(), stop))
}

/// What ends a command.
pub(crate) fn stop(number: u32) -> String {
    format!(
        "<form method=\"post\" action=\"/jobs/{number}/stop\"><p>\
         <button type=\"submit\">Stop it, as Ctrl-C does</button></p></form>"
    )
}

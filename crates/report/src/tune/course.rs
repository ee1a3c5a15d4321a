//! The course of a search: what each measurement showed, one after the other.

use walwright_figures::compare::FigureUnit;
use walwright_search::Purpose;
use walwright_tune::{Objective, TuneState};

use crate::svg::{Course, CourseMark, Measured};

/// The measurements as a picture shows them; `None` before two have a value.
pub(super) fn course(state: &TuneState, objective: &Objective) -> Option<Course> {
    let searcher = state.searcher.as_ref()?;
    let made = searcher.trials().iter().zip(&state.made).map(|(trial, made)| Measured {
        number: trial.id + 1,
        value: made.value,
        mark: mark(&trial.purpose),
    });
    let unit = match objective.metric.kind().unit {
        FigureUnit::PerSecond => ", per second,",
        FigureUnit::Seconds => ", in seconds,",
        FigureUnit::Bytes => ", in bytes,",
        FigureUnit::Count | FigureUnit::Share | FigureUnit::Processors => "",
    };
    let caption = format!("{}{unit} of each measurement in order", objective.name());
    let course = Course { made: made.collect(), caption };
    course.svg().is_some().then_some(course)
}

/// How a measurement is drawn.
fn mark(purpose: &Purpose) -> CourseMark {
    match purpose {
        Purpose::Baseline | Purpose::Ablate { arm: 0, .. } => CourseMark::Hollow,
        Purpose::Start { .. } | Purpose::Screen { .. } => CourseMark::Faint,
        _ => CourseMark::Full,
    }
}

//! The warning that a run did not begin where the one before began.

use walwright_record::{Warning, WarningCode};

use super::{RunError, Window};

/// A run on an attached server that does not begin where the one before began: on data as
/// that left them, or without a `checkpoint`, which was refused.
pub(super) fn not_restored(window: Window, checkpoint: Option<RunError>) -> Option<Warning> {
    let data = (!window.filled).then(|| {
        "data on an attached server are not restored: this run began where the last one ended"
            .to_owned()
    });
    let refused = checkpoint.map(|error| format!("the checkpoint before it was refused ({error})"));
    let hint = match &refused {
        Some(_) => "GRANT pg_checkpoint lets this role ask for one (PostgreSQL 15 and later)",
        None => "use --init to refill the workload's tables before every run",
    };
    let said: Vec<String> = [data, refused].into_iter().flatten().collect();
    (!said.is_empty()).then(|| Warning::new(WarningCode::NotRestored, said.join("; ")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_begin_where_others_do_says_in_what() {
        let text = |filled, refused: Option<RunError>| {
            not_restored(Window { filled }, refused).map(|warning| warning.text)
        };
        assert_eq!(text(true, None), None);
        assert!(text(false, None).unwrap().contains("are not restored"));
        let both = text(false, Some(RunError::Stopped)).unwrap();
        assert!(both.contains("not restored") && both.contains("checkpoint before it was refused"));
        assert!(!text(true, Some(RunError::Stopped)).unwrap().contains("not restored"));
    }
}

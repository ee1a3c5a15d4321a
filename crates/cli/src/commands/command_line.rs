//! The command line as a record keeps it.

use walwright_record::redact;

/// What was typed, without what may hold a secret.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    redact::command(std::iter::once("walwright".to_owned()).chain(words))
}

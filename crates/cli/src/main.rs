//! The `walwright` command.
fn main() {}

//! The probe against real servers.

mod bench;
mod facts;
mod interruptions;
mod privileges;
mod schema;
mod versions;

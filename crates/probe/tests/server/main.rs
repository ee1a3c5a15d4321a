//! The probe against real servers.

mod bench;
mod facts;
mod interruptions;
mod many_tables;
mod privileges;
mod schema;
mod versions;

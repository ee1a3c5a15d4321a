//! The probe against real servers.

mod bench;
mod facts;
mod interruptions;
mod privileges;
mod versions;

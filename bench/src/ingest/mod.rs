//! What the write coalescer has to survive, and what it is compared with.

mod books;
mod link;
mod load;
mod row;
mod step;
mod writer;

pub use books::{Audit, Books, audit};
pub use link::{CuttingLink, Plan};
pub use load::{Load, Meter, Way, measure, offer};
pub use row::{Event, Rows, TABLES, empty};
pub use step::{Side, Step, When};
pub use writer::{Idempotent, WriterProcess, WriterSettings};

//! What a measured rate costs, by a price file of the user's.
//!
//! [`PriceList`] is the file; [`Capacity`] what runs say a server can do, and [`Cost`] the two
//! together, with the interval of the rate carried through; [`Smaller`] whether a cheaper
//! instance would do. Pure: no price is known here.

mod capacity;
mod cost;
mod price_list;
mod smaller;

pub use capacity::{Capacity, CapacityError, Machine};
pub use cost::{Bill, Cost, Item, Saving, Terms};
pub use price_list::{Charge, Price, PriceError, PriceList, Quantity};
pub use smaller::{Smaller, Verdict, smaller};

/// A commented price file: the form, with no price in it that is true of anything.
pub const EXAMPLE: &str = include_str!("example.toml");

//! What a measured rate costs, by a price file of the user's.
//!
//! [`PriceList`] is the file; [`Capacity`] what runs say a server can do, and [`Cost`] the two
//! together, with the interval of the rate carried through. Pure: no price is known here.

mod capacity;
mod cost;
mod price_list;

pub use capacity::{Capacity, CapacityError};
pub use cost::{Bill, Cost, Item, Saving, Terms};
pub use price_list::{Charge, Price, PriceError, PriceList, Quantity};

/// A commented price file: the form, with no price in it that is true of anything.
pub const EXAMPLE: &str = include_str!("example.toml");

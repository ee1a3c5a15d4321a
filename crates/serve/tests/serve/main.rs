//! The site over real sockets, on labs with real records.

mod fixture;
mod live;
mod pages;
mod security;

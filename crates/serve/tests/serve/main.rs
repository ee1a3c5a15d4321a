//! The site over real sockets, on labs with real records.

mod browser;
mod fixture;
mod live;
mod pages;
mod security;

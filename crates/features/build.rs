//! Empty: without a build script the features of build dependencies do not count.

fn main() {}

//! Compiles the library that lengthens flushes of an embedded server.

use std::path::PathBuf;

fn main() {
    let source = "shim/flush_latency.c";
    println!("cargo::rerun-if-changed={source}");
    let library = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .join("flush_latency.so");
    let mut compiler = cc::Build::new().get_compiler().to_command();
    compiler.args(["-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
    let status = compiler.arg("-ldl").status().expect("a C compiler, which the README asks for");
    assert!(status.success(), "compiling {source} failed: {status}");
}

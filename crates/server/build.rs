//! Compiles the libraries that are preloaded into embedded servers.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in ["flush_latency", "power_cut"] {
        let source = format!("shim/{name}.c");
        println!("cargo::rerun-if-changed={source}");
        let library = out.join(name).with_extension("so");
        let mut compiler = cc::Build::new().get_compiler().to_command();
        compiler.args(["-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-o"]);
        compiler.arg(&library).arg(&source).args(["-ldl", "-lpthread"]);
        let status = compiler.status().expect("a C compiler, which the README asks for");
        assert!(status.success(), "compiling {source} failed: {status}");
    }
}

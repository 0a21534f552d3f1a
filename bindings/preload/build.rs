//! Linker option of `libtimeous_run.so`: it is never unloaded, because its thread keeps running.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

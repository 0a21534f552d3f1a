//! Linker options of `libcm.so`: its soname, and that it is never unloaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // As long as the version is 0.x, so is the ABI's.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcm.so.0");
    // Its threads run on when a program closes the library.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

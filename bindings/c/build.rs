//! What the linker is told of `libcm.so`: the name that programs ask for, and that it stays once it is loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // As long as the version is 0.x, so is the ABI's.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcm.so.0");
    // Its threads run on when a program closes the library.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

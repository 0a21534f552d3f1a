//! Integration tests of libcm from C: installed, found by pkg-config, compiled by the system's compiler and run.

/// Ends a test, by name, where the programs are not there that make C of C.
macro_rules! needs_toolchain {
    () => {
        if $crate::installed::is_skipped(&["make", "cc", "c++", "pkg-config", "nm", "readelf"]) {
            return;
        }
    };
}

mod build;
mod daemon;
mod datagrams;
mod examples;
mod header;
mod installed;
mod manual;
mod peer;
mod programs;

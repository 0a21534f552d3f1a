//! libcm as a C program has it: installed, found by pkg-config, compiled by the system's compiler and run.

mod build;
mod examples;
mod header;
mod installed;
mod manual;
mod peer;
mod programs;

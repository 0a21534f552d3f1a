//! Tests of `timeous run` with programs that know nothing of it: the calls that they make, the tool, and their share of a link.

mod calls;
mod share;
mod support;
mod tool;

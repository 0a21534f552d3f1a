//! Runs the C programs of `tests/programs`, which test the library and report by their exit status.

use crate::build::{Way, command, program};
use crate::installed::run;

#[track_caller]
fn check(name: &str) {
    check_as(name, &[Way::C, Way::Sanitized]);
}

#[track_caller]
fn check_as(name: &str, ways: &[Way]) {
    for &way in ways {
        run(&mut command(&program(&format!("tests/programs/{name}.c"), way)));
    }
}

#[test]
fn what_cannot_be_is_an_error_and_nothing_else_happens() {
    needs_toolchain!();
    check("refusals");
}

#[test]
fn callbacks_may_call_everything() {
    needs_toolchain!();
    // The program's own functions are found each way.
    check_as("callbacks", &[Way::C, Way::Cpp, Way::Static, Way::Sanitized]);
}

#[test]
fn a_grant_of_which_nobody_can_be_told_goes_to_others() {
    needs_toolchain!();
    // Nor is it found each way that there is none.
    check_as("silent", &[Way::C, Way::Static]);
}

#[test]
fn one_descriptor_serves_select_poll_and_epoll() {
    needs_toolchain!();
    check("descriptor");
}

#[test]
fn sigio_tells_each_time_that_there_is_something() {
    needs_toolchain!();
    check("sigio");
}

#[test]
fn the_loop_ends_by_callback_thread_and_signal() {
    needs_toolchain!();
    check("loops");
}

#[test]
fn all_threads_may_call_everything_at_once() {
    needs_toolchain!();
    check("threads");
}

#[test]
fn a_copy_of_the_process_is_refused() {
    needs_toolchain!();
    check("forks");
}

#[test]
fn a_flow_with_a_socket_sends_what_it_is_given() {
    needs_toolchain!();
    check("buffered");
}

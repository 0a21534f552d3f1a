//! The programs of `tests/programs`, which check the library from C and say by their exit status how it was.

use crate::build::{Way, command, program};
use crate::installed::run;

/// Each way, since each has the library in another place: shared, static, and watched by sanitizers.
#[track_caller]
fn check(name: &str) {
    for way in [Way::C, Way::Cpp, Way::Static, Way::Sanitized] {
        run(&mut command(&program(&format!("tests/programs/{name}.c"), way)));
    }
}

#[test]
fn what_cannot_be_is_an_error_and_nothing_else_happens() {
    check("refusals");
}

#[test]
fn callbacks_may_call_everything() {
    check("callbacks");
}

#[test]
fn a_grant_of_which_nobody_can_be_told_goes_to_others() {
    check("silent");
}

#[test]
fn one_descriptor_serves_select_poll_and_epoll() {
    check("descriptor");
}

#[test]
fn sigio_tells_each_time_that_there_is_something() {
    check("sigio");
}

#[test]
fn the_loop_ends_by_callback_thread_and_signal() {
    check("loops");
}

#[test]
fn all_threads_may_call_everything_at_once() {
    check("threads");
}

#[test]
fn a_copy_of_the_process_is_refused() {
    check("forks");
}

#[test]
fn a_flow_with_a_socket_sends_what_it_is_given() {
    check("buffered");
}

//! Guarantees of every stream, over the simulator and over real sockets, plain and encrypted: each case is written once,
//! and runs on all stages with the same assertions, plus exact ones in virtual time.

mod cases;
mod scene;
mod simulated;
mod sockets;
mod stage;
#[path = "../stream/support.rs"]
#[allow(dead_code, reason = "the pairs of ends are for the tests of streams; the link is for both")]
mod support;

/// Makes four tests of each case: plain and encrypted, on each stage.
macro_rules! play {
    ($($case:ident,)*) => {
        mod in_the_simulator {
            $(#[test] fn $case() { crate::cases::$case::<crate::simulated::Simulated<false>>(); })*
        }
        mod in_the_simulator_encrypted {
            $(#[test] fn $case() { crate::cases::$case::<crate::simulated::Simulated<true>>(); })*
        }
        mod over_sockets {
            $(#[test] fn $case() { crate::cases::$case::<crate::sockets::Sockets<false>>(); })*
        }
        mod over_sockets_encrypted {
            $(#[test] fn $case() { crate::cases::$case::<crate::sockets::Sockets<true>>(); })*
        }
    };
}

play! {
    a_call_is_answered_and_both_ends_are_open,
    nobody_there_is_a_timeout,
    another_service_is_refused_and_the_listener_waits_on,
    what_is_sent_arrives_as_it_was_and_in_order,
    what_is_lost_or_given_up_has_one_true_fate,
    what_was_pulled_back_is_withdrawn_or_leaves_as_it_is_now,
    nothing_expired_arrives,
    a_deadline_that_has_passed_when_data_come_back_to_the_ring_holds,
    a_finished_stream_ends_in_order_with_all_delivered,
    a_receiver_that_lets_go_is_an_end_for_the_sender,
    a_sender_that_lets_go_is_an_end_for_the_receiver,
    a_path_that_falls_silent_ends_both_and_every_adu_has_its_fate,
    what_does_not_fit_is_refused_and_harms_nothing,
}

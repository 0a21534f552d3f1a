//! Two ends under adverse conditions: bad links of every kind, slow and silent applications, simultaneous open and
//! close, and forged segments.

#[path = "../tshark/mod.rs"]
mod capture;
#[path = "../../../transport/tests/support/clock.rs"]
mod clock;
mod closing;
mod duel;
mod injection;
mod random;
mod tshark;
mod window;

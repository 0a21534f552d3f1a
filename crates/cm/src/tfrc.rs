//! TCP-Friendly Rate Control (RFC 5348): a rate that follows what a TCP would get, but smoothly.
//!
//! Two sans-IO halves. The [`Receiver`] takes data packets, finds loss events and decides when to send a [`Feedback`];
//! the [`Sender`] takes these as [`Report`]s and decides when the next packet may leave. A transport such as DCCP's
//! CCID 3 carries packets, sequence numbers and reports.
//!
//! ```
//! use timeous_cm::tfrc::{Arrival, Receiver, Report, Sender, Settings};
//! use timeous_core::{Duration, Instant};
//! let (mut sender, mut receiver) = (Sender::new(Settings::for_segment(1_000)), Receiver::new());
//! let (sent, rtt) = (Instant::ZERO, Duration::from_millis(100));
//! assert!(sender.may_send(sent));
//! sender.on_sent(sent, 1_000);
//! // Half a round trip later, and the receiver answers at once.
//! let arrival = Arrival { seq: 0, bytes: 1_000, marked: false, rtt: sender.rtt() };
//! let feedback = receiver.on_packet(sent + rtt / 2, arrival).expect("the first packet is answered");
//! sender.on_feedback(sent + rtt, Report::of(&feedback, sent))?;
//! assert_eq!(sender.rate().bytes_in(rtt), 4_000, "the initial window, in a round trip");
//! # Ok::<(), timeous_cm::tfrc::ReportError>(())
//! ```

pub(crate) mod allowed;
mod arrivals;
pub mod equation;
pub mod intervals;
mod limited;
mod losses;
mod pacing;
pub mod receiver;
mod recent;
mod segment;
pub mod sender;

pub use intervals::LossIntervals;
pub use receiver::{Arrival, Feedback, Receiver};
pub use sender::{Report, ReportError, Sender, Settings};

//! Feedback from receiver to sender, which an application with datagrams needs to use the Congestion Manager (Andersen
//! et al. §3.1).
//!
//! The sender's half is [`Feedback`], the receiver's [`Acks`]. Both are sans-IO: the sender puts a number into each
//! packet, the receiver reports the numbers received in an [`Ack`], and the sender turns that into an
//! [`Update`](timeous_cm::Update): bytes acknowledged and lost, a round-trip time, and any sign of congestion.
//!
//! ```
//! use timeous::cm::{Ack, Acks, Feedback};
//! use timeous::core::{Duration, Instant};
//! let at = |millis| Instant::ZERO + Duration::from_millis(millis);
//! let (mut feedback, mut acks) = (Feedback::default(), Acks::default());
//!
//! // Two packets leave, each with the number that `sent` gives, and the second arrives.
//! feedback.sent(at(0), 1_000);
//! let number = feedback.sent(at(1), 500);
//! acks.received(at(21), number);
//!
//! // A gap is told of at once. The acknowledgement goes back as the payload of a datagram.
//! let datagram = acks.poll_ack(at(21)).unwrap().encode();
//! let update = feedback.acked(at(41), &Ack::decode(&datagram)?)?.unwrap();
//! assert_eq!((update.acked, update.rtt), (500, Some(Duration::from_millis(40))));
//! assert_eq!(feedback.outstanding(), 1_000, "it may still come");
//! # Ok::<(), timeous::cm::FeedbackError>(())
//! ```

mod ack;
mod error;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use ack::{Ack, MAX_RUNS, Run};
pub use error::FeedbackError;
pub use receiver::Acks;
pub use sender::Feedback;

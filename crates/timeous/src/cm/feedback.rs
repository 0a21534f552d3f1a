//! Feedback: what every application that sends datagrams must do by itself to use the Congestion Manager (Andersen et
//! al. §3.1), so that it need not be written again.
//!
//! The sender's half is [`Feedback`], the receiver's [`Acks`]. Neither touches a socket or a clock: a sender puts a
//! number into each packet, the receiver tells which numbers came in an [`Ack`] that it sends back, and the sender
//! makes an [`Update`](timeous_cm::Update) of it: bytes that arrived and bytes that did not, a round-trip time, and
//! what is to be concluded.
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

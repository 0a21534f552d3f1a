//! The Congestion Manager for applications' own datagrams (Andersen et al.; RFC 3124).

mod feedback;

pub use feedback::{Ack, Acks, Feedback, FeedbackError, MAX_RUNS, Run};

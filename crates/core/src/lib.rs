//! Basis of Timeous: time, application data units, and the interface of transports.
//!
//! Sans-IO: no code here or above opens a socket, starts a thread or reads a clock. Time is passed as an [`Instant`],
//! randomness as a [`Rng`].

#![forbid(unsafe_code)]

pub mod adu;
pub mod advice;
pub mod choice;
pub mod clock_pair;
pub mod host_rate_limit;
pub mod id_map;
pub mod keyed_hash;
pub mod path;
pub mod queue;
pub mod rate_limit;
pub mod recent_maximum;
pub mod rng;
pub mod schedule;
pub mod time;
pub mod transport;
pub mod units;

pub use adu::{Adu, AduMeta, AduSeq, DropReason, Fate, FrameId, Priority, References, SubStream};
pub use advice::{Advice, BufferState, RateRange, Reason, Thresholds};
pub use choice::{Adviser, LateChoice};
pub use clock_pair::read_both;
pub use host_rate_limit::HostRateLimit;
pub use id_map::IdMap;
pub use keyed_hash::KeyedHash;
pub use path::{Arrival, ArrivalModel, Arrived, PathState};
pub use queue::{Joined, Queue};
pub use rate_limit::RateLimit;
pub use recent_maximum::RecentMaximum;
pub use rng::Rng;
pub use schedule::Schedule;
pub use time::{Duration, Instant, Rate};
pub use transport::{AduSource, Copied, DriveOrder, Ecn, Misuse, NoAdus, PulledAdu, RecvMeta, Transmit, Transport};

//! Packet ring (Lai & Kohler §3): the send queue shared by an application and a transport.
//!
//! The application fills packet records and publishes them by moving an index; the transport claims them at the instant
//! of sending. Until then the application may mark a packet dead, or pull packets back to rewrite, reorder or drop
//! them, without system calls or locks. `user_seq` is [`timeous_core::AduSeq`], the paper's kernel is the [`Consumer`],
//! its user the [`Producer`].
//!
//! | index | moved by | meaning |
//! |---|---|---|
//! | `dev_i` | consumer | below it everything has left; slots and buffers are free again |
//! | `kern_i` | consumer | the oldest packet not yet taken for sending |
//! | `umod_i` | producer | the oldest packet that the producer may change; the only index that goes back |
//! | `user_i` | producer | just above the newest packet |
//!
//! `kern_i` and `umod_i` share one 64-bit word, moved by compare-and-swap, so that a pull back concurrent with a claim
//! (the paper's figure 6) leaves each side with exactly the packets that it believes to own.
//!
//! ```
//! use timeous_core::{AduMeta, AduSeq, Fate, Instant};
//! use timeous_ring::{Config, create};
//!
//! let (mut producer, mut consumer) = create(&Config::new(8)).unwrap();
//! for n in 0..3 {
//!     let meta = AduMeta { seq: AduSeq(n), ..AduMeta::default() };
//!     producer.enqueue(&meta, format!("frame {n}").as_bytes()).unwrap();
//! }
//!
//! // Second thoughts: the newest goes first, and the one after it not at all.
//! let mut pulled = producer.pull_back_all().unwrap();
//! pulled.move_to_front(2);
//! pulled.withdraw(1);
//! pulled.release();
//!
//! let mut packet = Vec::new();
//! while let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() {
//!     consumer.copy_payload(claimed.token, &mut packet);
//!     consumer.sent(claimed.token);
//!     consumer.acked(claimed.token);
//! }
//! assert_eq!(packet, b"frame 2frame 1");
//! let acked = std::iter::from_fn(|| producer.poll_completion()).filter(|done| done.fate == Fate::Acked);
//! assert!(acked.map(|done| done.seq.0).eq([2, 1]));
//! ```

#![deny(unsafe_code)]

mod attached;
mod books;
mod buffer;
mod buffers;
mod choose;
mod completion;
mod consumer;
mod create;
mod direct;
mod error;
#[cfg(all(test, not(loom)))]
mod figures;
#[cfg(all(test, not(loom)))]
mod hostile;
mod in_place;
mod index;
mod layout;
#[allow(unsafe_code, reason = "the one room that turns addresses into references")]
mod memory;
mod own_zone;
mod page;
#[cfg(not(loom))]
mod payload;
mod position_map;
mod producer;
mod pulled;
mod reader;
mod record;
mod seen;
mod settle;
#[cfg(not(loom))]
mod shared_zone;
mod source;
pub mod sync;
mod view;
mod zone;
#[cfg(not(loom))]
mod zone_origin;

pub use buffer::{FrozenBuffer, ZoneBuffer};
pub use choose::KeepAll;
pub use completion::Completion;
pub use consumer::{Claimed, Consumer};
pub use create::create;
#[cfg(not(loom))]
pub use create::{create_shared, create_shared_for_producer};
#[cfg(not(loom))]
pub use direct::{DirectFile, DirectMode};
pub use error::{Broken, ConfigError, CreateError, EnqueueError, OpenError, Violation};
pub use layout::{Config, Limits};
pub use memory::Memory;
pub use page::PAGE;
#[cfg(not(loom))]
pub use payload::Payload;
pub use producer::{Index, Producer, Queued};
pub use pulled::{Front, PulledBack};
#[cfg(not(loom))]
pub use reader::{ReadError, ZoneReader};
#[cfg(not(loom))]
pub use shared_zone::{SharedZone, ZoneRequest, ZoneTable};
pub use source::RingSource;
pub use view::QueueView;
pub use zone::PacketZone;
#[cfg(not(loom))]
pub use zone_origin::ZoneKey;

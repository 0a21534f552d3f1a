//! Timeous sends data that goes stale: video, audio, game state, sensor readings.
//!
//! The application keeps the last word on *what* leaves the host, up to the instant a packet is sent; congestion
//! control decides *when*. A [`Sender`] queues ADUs in a packet ring and hears what became of each; a [`Receiver`]
//! gets those that were worth sending.
//!
//! ```no_run
//! use timeous::{Arrival, Hints, Receiver, Sender};
//! # fn sending() -> Result<(), Box<dyn std::error::Error>> {
//! let mut sender = Sender::open(&"timeous://receiver.example:7000?passphrase=file:pass&latency=200ms".parse()?)?;
//! sender.send(b"worth something for 200 ms", Hints::default())?;
//! # Ok(())
//! # }
//! # fn receiving() -> Result<(), Box<dyn std::error::Error>> {
//! let mut receiver = Receiver::open(&"timeous://:7000?passphrase=file:pass".parse()?)?;
//! while let Arrival::Data(adu) = receiver.receive(None)? {
//!     println!("{} bytes", adu.bytes.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Encryption
//!
//! A stream between two hosts needs a credential in the URI of each end, and is encrypted then: a passphrase
//! (`timeous passphrase` makes one), or certificates. Without, [`Error::Security`] says what to write, and a listener takes
//! callers of its own host only. [`Uri::with_access`] decides who may call; [`Incoming::stream_id`] is what they named.
//!
//! # The last word
//!
//! A policy drops what is not worth sending any more: one by name (key `policy`), or the application's own
//! ([`LateChoice`], [`Uri::with_choice`]; example `own_choice`).
//!
//! What is queued can be pulled back, rewritten and dropped until it leaves. The example `late_choice`, whole; its
//! neighbours are `blocking` and `tokio`:
//!
//! ```no_run
#![doc = include_str!("../examples/late_choice.rs")]
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod asynchronous;
pub mod cm;
pub mod dialer;
pub mod error;
pub mod ladder;
pub mod listener;
mod open;
pub mod options;
mod own_choice;
pub mod policy;
mod process;
pub mod receiver;
pub mod security;
pub mod sender;
pub mod stats;
pub mod trace;
pub mod uri;
pub mod zone;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncListener, AsyncReceiver, AsyncSender};
pub use dialer::{DialEvent, Dialer};
pub use error::{Culprit, Error, SendError};
pub use ladder::Ladder;
pub use listener::{Incoming, Listener};
pub use options::contradictions::Contradiction;
pub use options::{Daemon, Encapsulation, Options, PlayoutName, Reconnect, RepairName, Role, TransportName};
pub use own_choice::OwnChoice;
pub use policy::{DbatSettings, Marked, PolicyName};
pub use process::{WorkersFixed, set_workers};
pub use receiver::{Arrival, Receiver};
pub use security::{
    AccessList, AccessListError, Authorities, OwnAccess, PassphraseSource, Security, SecurityError, Weakness,
};
pub use sender::{Delivery, Hints, Sender, SenderEvent, adopt, open_both};
pub use stats::{Fates, Stats};
pub use timeous_choice as choice;
pub use timeous_choice::Timeline;
pub use timeous_core as core;
pub use timeous_core::{AduMeta, DropReason, Fate, LateChoice, PathState, Queue};
pub use timeous_engine::{
    Ccid, CloseReason, EngineError, ReadyList, Received, RemoteError, Status, TcpFraming, Unordered, Waker, clock,
};
pub use timeous_seal as seal;
pub use timeous_seal::{
    Access, Admission, Call, CertificateFault, Fingerprint, Intent, Passphrase, Refusal, SealError, generate_passphrase,
};
pub use uri::{Uri, UriError};
pub use zone::{FrozenBuffer, Zone, ZoneBuffer};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The Rust code in the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
#[doc = include_str!("../../../docs/guide/scale.md")]
struct Guide;

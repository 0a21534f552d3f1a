//! Network simulator in virtual time: hosts, routers, and the links of [`crate::link`] between them.
//!
//! A [`Network`] is built from nodes and links, and then run: `run_until` processes all events up to a time, in order
//! of time, and those at the same time in the order of scheduling. It reads no clock and uses only seeded randomness,
//! so one seed gives the same run on every machine. At each address is a [`Host`], driven as an engine drives a
//! transport.
//!
//! Two hosts, with one link each way: a packet sent at 0 s arrives after its transmission (10 ms for 1000 bytes at 800
//! kbit/s) and propagation (40 ms).
//!
//! ```
//! use timeous_core::{Duration, Instant, Rate};
//! use timeous_net::LinkConfig;
//! use timeous_net::link::Capacity;
//! use timeous_net::sim::{Network, Scripted};
//!
//! let config = LinkConfig {
//!     capacity: Capacity::Fixed(Rate::from_kbps(800)),
//!     delay: Duration::from_millis(40),
//!     ..LinkConfig::default()
//! };
//! let (left, right) = ("10.0.0.1:9".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
//!
//! let mut network = Network::new(1);
//! let sender = network.add_host("10.0.0.1".parse().unwrap(), Scripted::new(left));
//! let receiver = network.add_host("10.0.0.2".parse().unwrap(), Scripted::new(right));
//! let (forward, _) = network.connect(sender, receiver, config.clone(), config);
//! network.record_journeys();
//!
//! network.with_host(sender, |now, host| host.send_at(now, right, vec![0; 1_000 - 28]));
//! network.run_until(Instant::ZERO + Duration::from_secs(1));
//!
//! let arrival = Instant::ZERO + Duration::from_millis(50);
//! assert_eq!(network.host(receiver).arrivals()[0].at, arrival);
//! assert_eq!(network.link(forward).counters().packets_out, 1);
//! assert_eq!(network.journeys().last().map(|step| step.at), Some(arrival));
//! ```

pub mod host;
pub mod journey;
pub mod network;
pub mod packet;
pub mod sampler;
pub mod scripted;
pub mod shapes;
pub mod topology;

mod agenda;
mod recorder;
mod routes;
mod tap;

pub use host::Host;
pub use journey::{Passage, Step};
pub use network::{Network, Tally};
pub use packet::{Packet, Protocol};
pub use sampler::Sample;
pub use scripted::Scripted;
pub use shapes::{Chain, Dumbbell};
pub use topology::{LinkId, NodeId};

//! Hosts for a simulated network: the same transports, rings and policies as over sockets, in virtual time.
//!
//! A [`Machine`] has an address and holds [agents](Agent): a transport at a port, with its application. Applications
//! are [sources] or an experiment's own. Agents record when each ADU was offered, sent and received.
//!
//! ```
//! use timeous_cm::Kind;
//! use timeous_core::{Duration, Instant, Rng};
//! use timeous_host::sources::{Cbr, OnFull};
//! use timeous_host::{Dccp, Machine, Stream};
//! use timeous_net::sim::Host;
//!
//! let mut machine = Machine::new("10.0.0.1".parse().unwrap());
//! let own = machine.add_manager(Kind::Aimd);
//! let source = Cbr::new(Duration::from_millis(20), 160, OnFull::Skip).for_packets(50);
//! let remote = "10.0.0.2:6511".parse().unwrap();
//! let dccp = Dccp::caller(remote, Stream::new(source), Default::default(), Rng::from_seed(1));
//! let caller = machine.add(5_000, own, dccp);
//!
//! let request = machine.poll_transmit(Instant::ZERO).expect("a caller calls at once");
//! assert_eq!(request.destination, remote);
//! assert_eq!(machine.agent(caller).sessions().count(), 1);
//! ```

#![forbid(unsafe_code)]

pub mod agent;
pub mod application;
pub mod dccp;
pub mod journal;
pub mod machine;
pub mod middlebox;
mod ring;
mod side;
pub mod socket;
pub mod sources;
pub mod stamp;
pub mod tcp;
pub mod udp;

pub use agent::{Agent, Congestion};
pub use application::{Application, Outlet, Refused, Sink};
pub use dccp::{Dccp, DccpSettings, Session, Status};
pub use journal::{AduRecord, Arrival, Arrivals, Journal};
pub use machine::{Handle, Machine, ManagerId};
pub use middlebox::{Middlebox, MiddleboxBehaviour};
pub use ring::Stream;
pub use socket::{SendBuffer, Socket};
pub use tcp::{Dialer, Ended, Feed, Tcp, TcpSession, TcpStatus};
pub use udp::Udp;

//! Link emulator in real time: between two UDP ports, or between two network namespaces.

mod contract;
mod end;
mod error;
mod interface;
mod ipv4;
mod namespace;
mod pump;
pub mod relay;
pub mod router;
mod stop;
#[allow(unsafe_code)]
mod tun;

pub use contract::Emulator;
pub use error::EmulatorError;
pub use interface::Ipv4Interface;
pub use namespace::Namespace;
pub use pump::{Ended, Snapshot};
pub use relay::{Relay, RelayConfig};
pub use router::{EndConfig, Router, RouterConfig};
pub use stop::{Stop, Stopper};
pub use tun::Tun;

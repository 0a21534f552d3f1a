//! A DCCP port that accepts connections, and its limit.

use crate::connection::Config;
use crate::reset::ResetCode;
use crate::service::ServiceCode;

/// A listening port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) services: Vec<ServiceCode>,
    /// Settings of its connections.
    pub(super) config: Config,
    /// Number of connections still accepted; `None`: no limit.
    pub(super) room: Option<usize>,
}

impl Listener {
    /// Takes a place for an established connection, if there is one.
    pub(super) fn take_place(&mut self) -> Result<(), ResetCode> {
        let free = self.room != Some(0);
        self.room = self.room.map(|room| room.saturating_sub(1));
        if free { Ok(()) } else { Err(ResetCode::TooBusy) }
    }
}

//! A DCCP port on which connections may come in, and how many.

use crate::connection::Config;
use crate::reset::ResetCode;
use crate::service::ServiceCode;

/// What is offered on a port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) services: Vec<ServiceCode>,
    /// How its connections are set up.
    pub(super) config: Config,
    /// Connections that may still come in; `None`: any number.
    pub(super) room: Option<usize>,
}

impl Listener {
    /// Takes a place for a connection whose handshake is complete, if there is one.
    pub(super) fn take_place(&mut self) -> Result<(), ResetCode> {
        let free = self.room != Some(0);
        self.room = self.room.map(|room| room.saturating_sub(1));
        if free { Ok(()) } else { Err(ResetCode::TooBusy) }
    }
}

//! Settings of a listening port: its streams' configuration and where incoming ones go.

use std::sync::Arc;

use crate::command::{Incoming, ListenerId, User};
use crate::config::StreamConfig;

/// Listener data that its port keeps.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) id: ListenerId,
    pub(crate) user: User,
    pub(crate) config: StreamConfig,
    pub(crate) incoming: Arc<Incoming>,
    /// Held while the port exists, so that others can tell.
    pub(crate) life: Arc<()>,
}

//! Who is waited for on a port, and what they get.

use std::sync::Arc;

use crate::command::{Incoming, ListenerId, User};
use crate::config::StreamConfig;

/// What the port of a listener knows of it.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) id: ListenerId,
    pub(crate) user: User,
    pub(crate) config: StreamConfig,
    pub(crate) incoming: Arc<Incoming>,
    /// Tells whether it is there.
    pub(crate) life: Arc<()>,
}

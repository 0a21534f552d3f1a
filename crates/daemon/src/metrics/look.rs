//! What the server is given: how to look at the daemon, and who may.

use std::sync::Arc;

use crate::view::View;

/// How the daemon is looked at.
pub type Look = Arc<dyn Fn() -> View + Send + Sync>;

/// Who may ask for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Programs of this host.
    #[default]
    Loopback,
    /// Whoever reaches the address.
    Beyond,
}

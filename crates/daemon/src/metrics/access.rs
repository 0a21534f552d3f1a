//! Access of the metrics server to the daemon, and of others to the server.

use std::sync::Arc;

use crate::view::View;

/// Function that returns a view of the daemon.
pub type ViewSource = Arc<dyn Fn() -> View + Send + Sync>;

/// Hosts that may read metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// This host only.
    #[default]
    Loopback,
    /// Any host that reaches the address.
    Beyond,
}

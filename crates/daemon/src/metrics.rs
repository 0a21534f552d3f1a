//! Metrics for Prometheus, over HTTP on loopback.
//!
//! A thread of its own answers; a scrape costs the rest of the daemon one snapshot, at most four per second.

mod access;
mod exposition;
mod http;

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use access::{MetricsAccess, ViewSource};
pub use exposition::{CONTENT_TYPE, LISTED, exposition};

/// Reason why no metrics are served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address is not loopback: other hosts could read this host's peers.
    #[error(
        "{0} is not a loopback address, and metrics name the hosts that this one talks to: use 127.0.0.1 or [::1], or say that they may leave this host"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be used.
    #[error("metrics on {address}: {error}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
}

/// Server of `/metrics`, until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `look` returns at `address`; port 0 takes any.
    ///
    /// # Errors
    /// [`MetricsError::NotLoopback`] unless the reach allows it, or [`MetricsError::Io`].
    pub fn start(address: SocketAddr, reach: MetricsAccess, look: ViewSource) -> Result<Self, MetricsError> {
        if reach == MetricsAccess::Loopback && !address.ip().to_canonical().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        let io = |error| MetricsError::Io { address, error };
        let listener = TcpListener::bind(address).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let bound = listener.local_addr().map_err(io)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(io)?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            if let Err(error) = runtime.block_on(http::serve(listener, reach, look, stopped)) {
                tracing::warn!(%error, "metrics are not served any more");
            }
        };
        let thread = std::thread::Builder::new().name("timeous-metrics".into()).spawn(serve).map_err(io)?;
        Ok(Self { address: bound, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;

//! Setting of a test case: path, stream options, requested service.

use timeous::core::{Duration, Rate};
use timeous::{Options, PolicyName};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};

pub(crate) const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) forward: LinkConfig,
    pub(crate) back: LinkConfig,
    pub(crate) options: Options,
    /// Whether there is a listener.
    pub(crate) listens: bool,
    /// Service Code that the caller requests; the listener offers that of the options.
    pub(crate) asks_for: [u8; 4],
}

impl Scene {
    /// A path of `kbps` kbit/s, with a one-way delay of 20 ms and a queue of 100 ms; ADUs not sent within `latency` are
    /// dropped.
    pub(crate) fn new(kbps: u64, latency: Duration) -> Self {
        let link = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(kbps)),
            delay: MS * 20,
            queue: Limit::Time(MS * 100),
            ..LinkConfig::default()
        };
        let mut options = Options::default();
        (options.latency, options.policy) = (latency, Some(PolicyName::Deadline));
        Self { forward: link.clone(), back: link, asks_for: options.service, options, listens: true }
    }

    /// Sets the loss rate in both directions.
    pub(crate) fn lossy(mut self, p: f64) -> Self {
        self.forward.loss = Loss::Bernoulli { p };
        self.back.loss = Loss::Bernoulli { p };
        self
    }

    /// Sets the timeout for a silent peer.
    pub(crate) fn patient_for(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }
}

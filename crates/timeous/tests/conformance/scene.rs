//! What a case is played in: a path, the options of the stream, who asks for what.

use timeous::Options;
use timeous::core::{Duration, Rate};
use timeous::options::PolicyName;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};

pub(crate) const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) forward: LinkConfig,
    pub(crate) back: LinkConfig,
    pub(crate) options: Options,
    /// Whether somebody listens at all.
    pub(crate) listens: bool,
    /// What the caller asks for first; the listener offers that of the options.
    pub(crate) asks_for: [u8; 4],
}

impl Scene {
    /// A path of so many kbit/s, 20 ms long each way, that queues for 100 ms; what is not sent within `latency` is
    /// given up.
    pub(crate) fn new(kbps: u64, latency: Duration) -> Self {
        let link = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(kbps)),
            delay: MS * 20,
            queue: Limit::Time(MS * 100),
            ..LinkConfig::default()
        };
        let options = Options { latency, policy: Some(PolicyName::Deadline), ..Options::default() };
        Self { forward: link.clone(), back: link, asks_for: options.service, options, listens: true }
    }

    /// Loses packets: this share on the way there, and as many acknowledgements.
    pub(crate) fn lossy(mut self, p: f64) -> Self {
        self.forward.loss = Loss::Bernoulli { p };
        self.back.loss = Loss::Bernoulli { p };
        self
    }

    /// Gives up on a silent peer after so long.
    pub(crate) fn patient_for(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }
}

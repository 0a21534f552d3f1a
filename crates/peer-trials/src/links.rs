//! Links of the comparison, relative to the stream's rate and deadline.

use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_testbed::bound::{Bound, Job, Rates, bound};
use timeous_testbed::values;

use crate::trace::{Trace, TraceFrame};

/// Settings common to all peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Mean rate of the stream's payload.
    pub(crate) rate: Rate,
    /// Duration of the stream.
    pub(crate) length: Duration,
    /// Deadline from sending to playout.
    pub(crate) deadline: Duration,
    /// Round-trip time of the link, without queues.
    pub(crate) rtt: Duration,
}

values! {
    /// Link, by name.
    #[derive(clap::ValueEnum)]
    pub(crate) enum LinkName {
        /// Half of the stream's rate, a queue of four deadlines
        Bloat = "bloat",
        /// Nine tenths of the stream's rate, a queue of one deadline, 2 % loss
        Short = "short",
        /// One and a half times the stream's rate, a queue of one deadline, 2 % loss
        Room = "room",
        /// The same at a round trip of half the deadline
        Far = "far",
        /// Twice the stream's rate, a queue of four deadlines, one CUBIC flow beside
        Beside = "beside",
        /// Twice the stream's rate, a queue of one deadline, one CUBIC flow beside
        Share = "share",
        /// One and a half times the stream's rate, in the middle third two fifths of it; a queue of two deadlines
        Fall = "fall",
    }
}

impl LinkName {
    /// Description.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Bloat => "half of the stream's rate, a queue of four deadlines",
            Self::Short => "nine tenths of the stream's rate, a queue of one deadline, 2 % loss",
            Self::Room => "1.5 times the stream's rate, a queue of one deadline, 2 % loss",
            Self::Far => {
                "1.5 times the stream's rate, a queue of one deadline, 2 % loss, a round trip of half the deadline"
            }
            Self::Beside => "twice the stream's rate, a queue of four deadlines, one CUBIC flow beside",
            Self::Share => "twice the stream's rate, a queue of one deadline, one CUBIC flow beside",
            Self::Fall => "1.5 times the stream's rate, in the middle third 0.4 times; a queue of two deadlines",
        }
    }

    /// Settings of the runs over this link.
    pub(crate) fn setting(self, asked: &Setting) -> Setting {
        match self {
            Self::Far => Setting { rtt: asked.deadline / 2, ..*asked },
            _ => *asked,
        }
    }

    /// Random loss, both ways.
    fn loss(self) -> Loss {
        match self {
            Self::Short | Self::Room | Self::Far => Loss::Bernoulli { p: 0.02 },
            Self::Bloat | Self::Beside | Self::Share | Self::Fall => Loss::None,
        }
    }

    /// Whether there is cross traffic: a CUBIC flow.
    pub(crate) fn has_flow_beside(self) -> bool {
        matches!(self, Self::Beside | Self::Share)
    }

    /// Rate over time; the trace begins `lead` after the link.
    fn steps(self, setting: &Setting, lead: Duration) -> Vec<(Duration, Rate)> {
        let from = |at, share: f64| (at, Rate::from_bps((setting.rate.as_bps() as f64 * share) as u64));
        let third = setting.length / 3;
        match self {
            Self::Bloat => vec![from(Duration::ZERO, 0.5)],
            Self::Short => vec![from(Duration::ZERO, 0.9)],
            Self::Room | Self::Far => vec![from(Duration::ZERO, 1.5)],
            Self::Beside | Self::Share => vec![from(Duration::ZERO, 2.0)],
            Self::Fall => vec![from(Duration::ZERO, 1.5), from(lead + third, 0.4), from(lead + third * 2, 1.5)],
        }
    }

    /// Forward link; the trace begins `lead` after it.
    pub(crate) fn forward(self, setting: &Setting, lead: Duration) -> LinkConfig {
        let steps = self.steps(setting, lead);
        let deadlines = match self {
            Self::Bloat | Self::Beside => 4,
            Self::Fall => 2,
            Self::Short | Self::Room | Self::Far | Self::Share => 1,
        };
        // In bytes, by the initial rate: a device's buffer does not change with its rate.
        let first = steps[0].1;
        let queue = Limit::Bytes(first.bytes_in(setting.deadline * deadlines));
        let capacity = match steps.len() {
            1 => Capacity::Fixed(first),
            _ => Capacity::Trace(RateTrace::new(steps).expect("times increase from zero")),
        };
        LinkConfig { capacity, queue, loss: self.loss(), delay: setting.rtt / 2, ..LinkConfig::default() }
    }

    /// Upper bound of decodable frames over this link for any sender: without losses, cross traffic and headers.
    pub(crate) fn bound(self, setting: &Setting, trace: &Trace) -> Bound {
        let job = |frame: &TraceFrame| Job {
            release: frame.at.as_nanos(),
            deadline: (frame.at + setting.deadline).saturating_sub(setting.rtt / 2).as_nanos(),
            bytes: frame.pieces().map(|(_, len)| len as u64).sum(),
            // Frames are numbered from one on.
            needs: frame.references.iter().map(|&id| id as usize - 1).collect(),
            value: 1,
        };
        let jobs: Vec<Job> = trace.frames.iter().map(job).collect();
        bound(&jobs, &Rates::steps(&self.steps(setting, Duration::ZERO)))
    }

    /// Reverse link: only delay, and the same loss.
    pub(crate) fn back(self, setting: &Setting) -> LinkConfig {
        LinkConfig::with_delay(setting.rtt / 2).with_loss(self.loss())
    }
}

//! Late-choice policies by name, and their settings.

use timeous_choice::dbat::{DropRule, Marking, Settings};
use timeous_core::{Duration, Priority, SubStream};

/// Late-choice policy, by name: decides which queued ADUs are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyName {
    /// Drops whole frames, the least valuable first; sends nothing late or undecodable.
    Frames,
    /// Drops only ADUs that cannot arrive in time.
    Deadline,
    /// Drops ADUs that have waited for too long.
    Age,
    /// Advises the source before its queue grows too long, by [`Sender::poll_advice`](crate::Sender::poll_advice);
    /// beyond that only frames of the highest priority are sent (Hasan et al.).
    Dbat,
    /// Drops nothing, not even expired ADUs: a plain queue, as a baseline.
    Fifo,
    /// Keeps the set of frames with the most decodable in time, predicted from the path's rate and the source's past:
    /// whole frames, heads of groups before tails.
    Plan,
    /// As [`Plan`](Self::Plan), where a frame counts more than several of the layer above; a layer is a sub-stream, 0 the base.
    Layers,
    /// Drops ADUs that may not arrive in time, by a pessimistic estimate of the delay.
    Punctual,
    /// Drops only ADUs that are expired, or depend on a frame that was lost or dropped.
    Dependencies,
}

impl PolicyName {
    /// All policies.
    pub const ALL: [Self; 9] = [
        Self::Plan,
        Self::Frames,
        Self::Layers,
        Self::Deadline,
        Self::Punctual,
        Self::Dependencies,
        Self::Age,
        Self::Dbat,
        Self::Fifo,
    ];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Deadline => "deadline",
            Self::Age => "age",
            Self::Dbat => "dbat",
            Self::Fifo => "fifo",
            Self::Plan => "plan",
            Self::Layers => "layers",
            Self::Punctual => "punctual",
            Self::Dependencies => "dependencies",
        }
    }

    /// Description of the data that the policy drops, for the reference.
    pub const fn drops(self) -> &'static str {
        match self {
            Self::Plan => {
                "all but the set of frames of which most can be decoded in time, by the path's rate and what the \
                 source is expected to send"
            }
            Self::Frames => "whole frames, the least valuable first (B before P before I); `queue` limits what waits",
            Self::Deadline => "only what cannot arrive in time",
            Self::Age => "what has waited longer than `age`",
            Self::Dbat => {
                "advises the encoder first; while the average queue exceeds what the stream sends within the path's \
                 delay (`Max_Th`), only frames of the highest priority are sent (`marked`, `overfull`)"
            }
            Self::Fifo => "nothing, and nothing is retransmitted: a plain queue",
            Self::Layers => "as `plan`, from the top layer down; a layer is a sub-stream, 0 the base",
            Self::Punctual => "what may not arrive in time, by a pessimistic estimate of the path's delay",
            Self::Dependencies => "only what is expired, or refers to a frame that was lost or dropped",
        }
    }

    /// Streams that the policy suits, for the reference.
    pub const fn suits(self) -> &'static str {
        match self {
            Self::Plan => "video; the default",
            Self::Frames => "video over TCP; data that differ in priority only; where every keyframe counts",
            Self::Deadline => "streams of single datagrams",
            Self::Age => "readings of which only recent ones matter",
            Self::Dbat => "encoders whose bitrate can change (`--adapt` sets it)",
            Self::Fifo => "comparison",
            Self::Layers => {
                "layered media with a sub-stream per layer; `timeous send` has one per spatial and temporal layer"
            }
            Self::Punctual => "streams in which a late datagram is worse than a missing one",
            Self::Dependencies => "receivers that use late data, too",
        }
    }
}

/// ADUs that [`PolicyName::Dbat`] sends even while the queue is overfull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marked {
    /// Those of at least this priority.
    Priority(Priority),
    /// Those of the sub-streams up to this one: the base layers of layered media.
    Layers(SubStream),
}

impl From<Marked> for Marking {
    fn from(marked: Marked) -> Self {
        match marked {
            Marked::Priority(least) => Self::Priority(least),
            Marked::Layers(last) => Self::Layers(last),
        }
    }
}

/// Settings of [`PolicyName::Dbat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbatSettings {
    /// ADUs that are sent even while the queue is overfull; by default those of the highest priority.
    pub marked: Marked,
    /// Drop rule while the queue is overfull.
    pub overfull: DropRule,
    /// Lower bound of the path's delay from which the thresholds follow. With a higher value more is queued before the
    /// source is told.
    pub least_delay: Duration,
    /// Upper bound of `Max_Th` in bytes; `None`: no bound.
    pub max_threshold: Option<u64>,
}

impl DbatSettings {
    /// Settings of the policy.
    pub(crate) fn settings(self) -> Settings {
        let Self { marked: _, overfull, least_delay, max_threshold } = self;
        Settings { beyond: overfull, least_delay, most: max_threshold, ..Settings::default() }
    }
}

impl Default for DbatSettings {
    fn default() -> Self {
        let Settings { beyond, least_delay, most, .. } = Settings::default();
        let marked = Marked::Priority(Priority::HIGHEST);
        Self { marked, overfull: beyond, least_delay, max_threshold: most }
    }
}

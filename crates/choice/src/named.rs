//! The policies by the names that URIs and the daemon's clients use, each with those that it needs beside it.

use timeous_core::{Duration, SubStream};

use crate::age::Age;
use crate::chain::Chain;
use crate::deadline::{Deadlines, Punctual};
use crate::dependencies::Dependencies;
use crate::frames::{Frames, QueueLimit};
use crate::layers::Layers;
use crate::plan::Plan;

/// `deadline`: drops what cannot arrive in time or be decoded.
#[must_use]
pub fn deadline() -> Chain {
    Chain::default().then(Deadlines).then(Dependencies::default())
}

/// `punctual`: as [`deadline`], by a pessimistic estimate.
#[must_use]
pub fn punctual() -> Chain {
    Chain::default().then(Punctual).then(Dependencies::default())
}

/// `age`: drops what waits for longer than `limit`. If that is part of a frame, the policies behind it drop the rest.
#[must_use]
pub fn age(limit: Duration) -> Chain {
    Chain::default().then(Age::new(limit)).then(deadline())
}

/// `frames`: drops whole frames while the queue exceeds `limit`.
#[must_use]
pub fn frames(limit: QueueLimit) -> Chain {
    deadline().then(Frames::new(limit))
}

/// `layers`: drops what cannot arrive in time, from the top sub-stream down. `Layers` comes last, since it accounts for
/// the packet that is sent.
#[must_use]
pub fn layers() -> Chain {
    Chain::default().then(Dependencies::default()).then(Layers::default())
}

/// Worth of audio in frames of video. Chosen by us: no frame of video of usual size is worth a gap in the sound; a higher value
/// changes nothing while audio is a small part of the stream.
const AUDIO_WEIGHT: u32 = 16;
/// Worth of tables in frames of video. Chosen by us: nothing can be decoded without them.
const TABLES_WEIGHT: u32 = 64;

/// `plan`: plans the whole queue; these sub-streams count as much as given here, and audio and tables more than video unless they are.
#[must_use]
pub fn plan(weights: impl IntoIterator<Item = (u8, u32)>) -> Plan {
    let weigh = |plan: Plan, (substream, weight)| plan.weighing(SubStream(substream), weight);
    let plan = Plan::default().weighing(SubStream::AUDIO, AUDIO_WEIGHT).weighing(SubStream::TABLES, TABLES_WEIGHT);
    weights.into_iter().fold(plan, weigh)
}

//! Streams: frames of a live encoder, in groups of pictures that begin with a keyframe.

use timeous::core::{AduMeta, Duration, FrameId, LateChoice, Priority, References, Rng, SubStream};
use timeous::{Options, PolicyName};
use timeous_cm::Kind;
use timeous_dccp::Ccid;
use timeous_host::sources::Frame;

use crate::experiment::values;

/// Frames per second.
const RATE: u64 = 25;
/// Size of a keyframe in multiples of another frame, as low-latency encoders make them.
const INTRA: f64 = 3.0;
/// Random variation of each frame's size, as a share to either side.
const SPREAD: f64 = 0.25;
/// Frames per group with temporal layers.
const LAYERED: u32 = 32;

/// References between frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReferencePattern {
    /// Groups with this number of frames, each of which refers to the previous one.
    Gop(u32),
    /// Groups of 32 frames in three temporal layers: each fourth frame refers to the fourth before
    /// it, those midway between to the nearest such frame before them, the others to the previous
    /// frame.
    Layers,
}

impl ReferencePattern {
    pub(crate) const ALL: [Self; 4] = [Self::Gop(10), Self::Gop(30), Self::Gop(60), Self::Layers];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Gop(frames) => format!("groups of {frames}"),
            Self::Layers => "layers".to_owned(),
        }
    }

    fn frames(self) -> u32 {
        match self {
            Self::Gop(frames) => frames,
            Self::Layers => LAYERED,
        }
    }

    /// Returns layer, distance to the reference in frames, and size relative to a plain frame.
    fn place(self, place: u32) -> (u8, u32, f64) {
        match self {
            _ if place == 0 => (0, 0, INTRA),
            Self::Gop(_) => (0, 1, 1.0),
            Self::Layers => match place % 4 {
                0 => (0, 4, 1.6),
                2 => (1, 2, 1.0),
                _ => (2, 1, 0.6),
            },
        }
    }
}

/// Returns the bytes of a frame of size 1 in a stream of `kbps`.
fn plain_bytes(shape: ReferencePattern, kbps: u64) -> f64 {
    let places = 0..shape.frames();
    let mean = places.map(|place| shape.place(place).2).sum::<f64>() / f64::from(shape.frames());
    kbps as f64 * 1e3 / 8.0 / RATE as f64 / mean
}

/// Returns the time of a mean keyframe at the stream's own rate.
pub(super) fn keyframe_time(shape: ReferencePattern, kbps: u64) -> Duration {
    Duration::from_secs_f64(INTRA * plain_bytes(shape, kbps) * 8e-3 / kbps as f64)
}

/// Returns a stream of `kbps` over `lasting`. The seed decides the sizes and the position in the
/// group at which the stream begins.
pub(crate) fn stream(shape: ReferencePattern, kbps: u64, lasting: Duration, rng: &mut Rng) -> Vec<Frame> {
    let plain = plain_bytes(shape, kbps);
    let count = lasting.as_nanos() * RATE / 1_000_000_000;
    let frame = |number: u64| {
        let place = number as u32 % shape.frames();
        let (layer, back, size) = shape.place(place);
        let varied = 1.0 + SPREAD * (2.0 * rng.unit() - 1.0);
        // The source counts frames from one.
        let references = match back {
            0 => References::NONE,
            back => References::from([FrameId(number as u32 + 1 - back)]),
        };
        let priority = match (place, layer) {
            (0, _) => Priority::HIGHEST,
            (_, 2) => Priority(16),
            (place, _) => Priority(240 - place.min(176) as u8),
        };
        let meta = AduMeta { references, priority, substream: SubStream(layer), ..AduMeta::default() };
        let at = Duration::from_nanos(number * 1_000_000_000 / RATE);
        Frame { at, bytes: (plain * size * varied) as usize, meta }
    };
    (0..count).map(frame).collect()
}

values! {
    /// Sender of a trial.
    pub(crate) enum SenderKind {
        /// Timeous with all of its parts.
        Timeous = "Timeous",
        /// Timeous with the link's true rate at each instant in place of its controller, which no real
        /// sender can know. It sees round trips and losses as they happen, and knows nothing in
        /// advance.
        Told = "told the rate",
        /// Timeous with a controller that fills queues.
        NoController = "without the controller",
        /// Timeous with a policy that looks no further than its queue.
        NoPlan = "without the plan",
        /// Timeous without repair of lost packets.
        NoRepair = "without the repair",
        /// TCP-like congestion control.
        TcpLike = "TCP-like",
        /// TFRC congestion control.
        Tfrc = "TFRC",
    }
}

impl SenderKind {
    /// Senders compared in all cells. Where there is too much data, `Told` is the most that
    /// congestion control could reach.
    pub(super) const REAL: [Self; 6] =
        [Self::Timeous, Self::NoController, Self::NoPlan, Self::NoRepair, Self::TcpLike, Self::Tfrc];

    pub(super) fn controller(self) -> Kind {
        match self {
            Self::TcpLike => Kind::NewReno,
            Self::Tfrc => Kind::Tfrc,
            Self::NoController => Kind::Aimd,
            Self::Timeous | Self::Told | Self::NoPlan | Self::NoRepair => Kind::Live,
        }
    }

    pub(super) fn ccid(self) -> Ccid {
        if self == Self::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 }
    }

    pub(super) fn choice(self) -> Box<dyn LateChoice> {
        let mut options = Options::default();
        options.policy = Some(if self == Self::NoPlan { PolicyName::Frames } else { PolicyName::Plan });
        options.choice()
    }

    pub(super) fn repairs(self) -> bool {
        self != Self::NoRepair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_rate_and_refers_within_its_groups() {
        for shape in ReferencePattern::ALL {
            let frames = stream(shape, 1_000, Duration::from_secs(48), &mut Rng::from_seed(1));
            let bytes: usize = frames.iter().map(|frame| frame.bytes).sum();
            assert!((5_900_000..6_100_000).contains(&bytes), "{shape:?}: {bytes}");
            let group = shape.frames() as usize;
            for (place, frame) in frames.iter().enumerate() {
                let begin = place / group * group;
                let within = |reference: FrameId| (begin..place).contains(&(reference.0 as usize - 1));
                assert!(frame.meta.references.iter().all(within), "{shape:?}: frame {place}");
                assert_eq!(frame.meta.references.is_empty(), place == begin);
            }
        }
    }
}

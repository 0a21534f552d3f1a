//! Three users with flows to one host over one bottleneck; the third may send false feedback.

use std::net::SocketAddr;

use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_testbed::machine::sleep;

use super::super::daemon::false_feedback::FalseFeedback;
use super::super::daemon::feedback_receiver::{FeedbackReceiver, Wire};
use super::super::daemon::host::{ClientProcess, DaemonHost};
use super::super::daemon::messages::Work;
use crate::experiment::{Run, RunError};

pub(super) const RATE: Rate = Rate::from_bps(4_000_000);
/// One-way delay.
pub(super) const DELAY: Duration = Duration::from_millis(20);
/// Queue of the bottleneck, in packets.
pub(super) const QUEUE: usize = 30;
pub(super) const LEN: u64 = 1_000;
pub(super) const WARM_UP: Duration = Duration::from_secs(5);
pub(super) const TIME: Duration = Duration::from_secs(45);
/// Number of paths with honest users only, the baseline.
pub(super) const HONEST: usize = 3;
const UIDS: [u32; 3] = [61_001, 61_002, 61_003];

/// Outcome on one path; the third user is the liar.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Outcome {
    pub(super) lie: FalseFeedback,
    /// Received rate of each user, in kbit/s.
    pub(super) kbps: [f64; 3],
    /// Refused feedback of each user.
    pub(super) refused: [u64; 3],
}

impl Outcome {
    /// Returns the mean rate of the honest users.
    pub(super) fn others(&self) -> f64 {
        (self.kbps[0] + self.kbps[1]) / 2.0
    }
}

struct Path {
    lie: FalseFeedback,
    far: FeedbackReceiver,
    _wire: Wire,
    members: Vec<ClientProcess>,
}

/// Measures all paths at the same time, each with a bottleneck of its own.
///
/// # Errors
/// Missing features of the machine, such as root.
pub(super) fn measure(host: &DaemonHost, run: &Run<'_>) -> Result<Vec<Outcome>, RunError> {
    let honest = std::iter::repeat_n(FalseFeedback::None, HONEST - 1);
    let mut paths = Vec::new();
    for (number, lie) in honest.chain(FalseFeedback::ALL).enumerate() {
        paths.push(Path::make(host, lie, number as u8, run.seed)?);
    }
    for path in &mut paths {
        path.members.iter_mut().try_for_each(ClientProcess::go)?;
    }
    sleep(WARM_UP);
    let begins: Vec<_> = paths.iter().map(Path::sample_bytes).collect();
    sleep(TIME);
    let ends: Vec<_> = paths.iter().map(Path::sample_bytes).collect();
    let both = begins.into_iter().zip(ends);
    paths.into_iter().zip(both).map(|(path, (begin, end))| path.end(end.0.saturating_since(begin.0), end.1)).collect()
}

impl Path {
    fn make(host: &DaemonHost, lie: FalseFeedback, number: u8, seed: u64) -> Result<Self, RunError> {
        let far = FeedbackReceiver::start()?;
        let back = LinkConfig::with_delay(DELAY);
        let narrow = back.clone().with_rate(RATE, Limit::Packets(QUEUE));
        let wire = Wire::start(&far, narrow, back, seed + u64::from(number))?;
        let member = |user: usize| {
            ClientProcess::opened(&Work {
                daemon: Some(host.socket()),
                uid: Some(UIDS[user]),
                first: user as u32,
                to: vec![SocketAddr::from(([127, 0, 3, 1 + number], wire.port()))],
                len: LEN,
                every_micros: None,
                lie: if user == 2 { lie } else { FalseFeedback::None },
            })
        };
        let members = (0..UIDS.len()).map(member).collect::<Result<_, _>>()?;
        Ok(Self { lie, far, _wire: wire, members })
    }

    /// Returns the current time, and the bytes of each user since the last call.
    fn sample_bytes(&self) -> (timeous::core::Instant, [u64; 3]) {
        let seen = self.far.take();
        (timeous::clock::now(), [0, 1, 2].map(|user| seen.get(&user).map_or(0, |seen| seen.bytes)))
    }

    fn end(self, time: Duration, bytes: [u64; 3]) -> Result<Outcome, RunError> {
        let mut refused = [0; 3];
        for (refused, member) in refused.iter_mut().zip(self.members) {
            *refused = member.end()?.refused;
        }
        let kbps = bytes.map(|bytes| bytes as f64 * 8e-3 / time.as_secs_f64());
        Ok(Outcome { lie: self.lie, kbps, refused })
    }
}

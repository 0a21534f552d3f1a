//! What goes through the queues: everything that is frequent, as messages of 64 bytes.
//!
//! The reader of a message is strict: a kind it does not know, a flag that means nothing, or a word that should be zero
//! and is not, and the message is none. So every message has one form only.

use timeous_cm::{Loss, Update};
use timeous_core::{Duration, Instant, PathState, Rate};

use crate::handle::Handle;
use crate::layout::SLOT;

/// A message as it lies in shared memory.
pub type Words = [u64; SLOT];

/// From a client to the daemon.
#[derive(Clone, Copy, Debug)]
pub enum Submission {
    /// `cm_request`, so many times.
    Request {
        /// The flow.
        flow: Handle,
        /// How many packets.
        count: u32,
    },
    /// `cm_request` for one packet that is of use until an instant: for a macroflow that is scheduled by deadlines.
    RequestBy {
        /// The flow.
        flow: Handle,
        /// When the packet is due.
        deadline: Instant,
    },
    /// `cm_notify`: a grant was used for so many bytes, or given back with none.
    Notify {
        /// The flow.
        flow: Handle,
        /// Bytes.
        bytes: u64,
    },
    /// `cm_update`.
    Update {
        /// The flow.
        flow: Handle,
        /// What was learnt.
        update: Update,
    },
    /// A packet of so many bytes left without a grant: what a sender at a rate of its own tells (Andersen et al. §2.1.2).
    NotifyUnasked {
        /// The flow.
        flow: Handle,
        /// Bytes.
        bytes: u64,
    },
    /// Nothing: that the daemon has read it shows that it lives.
    Ping,
}

/// From the daemon to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The flow may send so many packets (`cmapp_send`).
    Granted {
        /// The flow.
        flow: Handle,
        /// How many packets.
        count: u32,
    },
    /// The flow's rate has crossed a threshold (`cmapp_update`).
    Changed {
        /// The flow.
        flow: Handle,
        /// What is known of its path now.
        state: PathState,
    },
    /// Something that the client submitted was refused, and has changed nothing.
    Refused {
        /// The flow.
        flow: Handle,
        /// Why.
        why: Refusal,
        /// What it was about: bytes claimed, packets requested.
        value: u64,
    },
}

/// Why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The flow is not open.
    #[error("the flow is not open")]
    UnknownFlow,
    /// Bytes were sent without a grant.
    #[error("the flow held no grant: it was given to another meanwhile, or never requested")]
    NotGranted,
    /// More was acknowledged or lost than the flow has outstanding.
    #[error("feedback for more than was outstanding")]
    MoreThanSent,
    /// Feedback that cannot be true.
    #[error("feedback that cannot be true")]
    Implausible,
    /// More is waited for than the daemon allows.
    #[error("more requests than the daemon allows to wait")]
    OverLimit,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::UnknownFlow, Self::NotGranted, Self::MoreThanSent, Self::Implausible, Self::OverLimit];

    fn number(self) -> u64 {
        Self::ALL.iter().position(|&refusal| refusal == self).expect("all are there") as u64
    }
}

const REQUEST: u64 = 1;
const REQUEST_BY: u64 = 2;
const NOTIFY: u64 = 3;
const UPDATE: u64 = 4;
const NOTIFY_UNASKED: u64 = 5;
const PING: u64 = 6;

const GRANTED: u64 = 1;
const CHANGED: u64 = 2;
const REFUSED: u64 = 3;

const KIND: u64 = 0xff;
/// Flags of an update, above its kind.
const RECOVERING: u64 = 1 << 8;
const HAS_RTT: u64 = 1 << 9;
const SLOW_RECEIVER: u64 = 1 << 10;
const LOSS_SHIFT: u32 = 16;
/// Flags of a path state, above its kind; the loss is in the upper half.
const HAS_SRTT: u64 = 1 << 8;
const HAS_MIN_RTT: u64 = 1 << 9;
const CONTENDED: u64 = 1 << 10;
/// The flags of a path state.
const STATE_FLAGS: u64 = HAS_SRTT | HAS_MIN_RTT | CONTENDED;

impl Submission {
    /// As it lies in shared memory.
    #[must_use]
    pub fn to_words(&self) -> Words {
        match *self {
            Self::Request { flow, count } => [REQUEST, flow.bits(), count.into(), 0, 0, 0, 0, 0],
            Self::RequestBy { flow, deadline } => [REQUEST_BY, flow.bits(), deadline.as_nanos(), 0, 0, 0, 0, 0],
            Self::Notify { flow, bytes } => [NOTIFY, flow.bits(), bytes, 0, 0, 0, 0, 0],
            Self::Update { flow, update } => update_words(flow, update),
            Self::Ping => [PING, 0, 0, 0, 0, 0, 0, 0],
            Self::NotifyUnasked { flow, bytes } => [NOTIFY_UNASKED, flow.bits(), bytes, 0, 0, 0, 0, 0],
        }
    }

    /// Whether an honest client may say it: a request is for a packet at least.
    #[cfg(not(loom))]
    pub(crate) fn check(&self) -> Result<(), crate::messages::Malformed> {
        if matches!(self, Self::Request { count: 0, .. }) {
            return Err(crate::messages::Malformed::Senseless("number of requests"));
        }
        Ok(())
    }

    /// From shared memory; `None` if it is no message.
    #[must_use]
    pub fn from_words(words: &Words) -> Option<Self> {
        let flow = Handle::from_bits(words[1]);
        let zero_from = |at: usize| words[at..].iter().all(|&word| word == 0);
        match words[0] {
            REQUEST if zero_from(3) => {
                Some(Self::Request { flow, count: u32::try_from(words[2]).ok().filter(|&count| count > 0)? })
            }
            REQUEST_BY if zero_from(3) => Some(Self::RequestBy { flow, deadline: Instant::from_nanos(words[2]) }),
            NOTIFY if zero_from(3) => Some(Self::Notify { flow, bytes: words[2] }),
            PING if zero_from(1) => Some(Self::Ping),
            NOTIFY_UNASKED if zero_from(3) => Some(Self::NotifyUnasked { flow, bytes: words[2] }),
            kind if kind & KIND == UPDATE => Some(Self::Update { flow, update: update(words)? }),
            _ => None,
        }
    }
}

fn update_words(flow: Handle, update: Update) -> Words {
    let Update { acked, lost, loss, rtt, recovering, slow_receiver, beyond_gap, overtaken_by } = update;
    let (kind, sent_at) = match loss {
        None => (0, Instant::ZERO),
        Some((Loss::None, at)) => (1, at),
        Some((Loss::Transient, at)) => (2, at),
        Some((Loss::Persistent, at)) => (3, at),
        Some((Loss::Ecn, at)) => (4, at),
    };
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    let flags = flag(recovering, RECOVERING) | flag(rtt.is_some(), HAS_RTT) | flag(slow_receiver, SLOW_RECEIVER);
    let rtt = rtt.map_or(0, Duration::as_nanos);
    [
        UPDATE | flags | kind << LOSS_SHIFT,
        flow.bits(),
        acked,
        lost,
        sent_at.as_nanos(),
        rtt,
        beyond_gap,
        overtaken_by.as_nanos(),
    ]
}

fn update(words: &Words) -> Option<Update> {
    let [head, _, acked, lost, sent_at, rtt, beyond_gap, overtaken_by] = *words;
    let sent_at = Instant::from_nanos(sent_at);
    let loss = match (head & !(KIND | RECOVERING | HAS_RTT | SLOW_RECEIVER)) >> LOSS_SHIFT {
        0 if sent_at == Instant::ZERO => None,
        1 => Some((Loss::None, sent_at)),
        2 => Some((Loss::Transient, sent_at)),
        3 => Some((Loss::Persistent, sent_at)),
        4 => Some((Loss::Ecn, sent_at)),
        _ => return None,
    };
    // Flags that mean nothing are not shifted out unseen.
    if head & 0xf800 != 0 {
        return None;
    }
    let rtt = optional(rtt, head & HAS_RTT != 0)?;
    let (recovering, slow_receiver) = (head & RECOVERING != 0, head & SLOW_RECEIVER != 0);
    let overtaken_by = Duration::from_nanos(overtaken_by);
    Some(Update { acked, lost, loss, rtt, recovering, slow_receiver, beyond_gap, overtaken_by })
}

/// A duration that is there or zero.
fn optional(word: u64, is_there: bool) -> Option<Option<Duration>> {
    match (is_there, word) {
        (true, nanos) => Some(Some(Duration::from_nanos(nanos))),
        (false, 0) => Some(None),
        (false, _) => None,
    }
}

impl Completion {
    /// As it lies in shared memory.
    #[must_use]
    pub fn to_words(&self) -> Words {
        match *self {
            Self::Granted { flow, count } => [GRANTED, flow.bits(), count.into(), 0, 0, 0, 0, 0],
            Self::Changed { flow, state } => {
                let [loss, flags, rest @ ..] = state_words(&state);
                let [rate, srtt, rttvar, min_rtt, window, outstanding] = rest;
                let head = CHANGED | flags | loss << 32;
                [head, flow.bits(), rate, srtt, rttvar, min_rtt, window, outstanding]
            }
            Self::Refused { flow, why, value } => [REFUSED, flow.bits(), why.number(), value, 0, 0, 0, 0],
        }
    }

    /// From shared memory; `None` if it is no message.
    #[must_use]
    pub fn from_words(words: &Words) -> Option<Self> {
        let flow = Handle::from_bits(words[1]);
        let zero_from = |at: usize| words[at..].iter().all(|&word| word == 0);
        match words[0] {
            GRANTED if zero_from(3) => Some(Self::Granted { flow, count: u32::try_from(words[2]).ok()? }),
            REFUSED if zero_from(4) => {
                let why = *Refusal::ALL.get(usize::try_from(words[2]).ok()?)?;
                Some(Self::Refused { flow, why, value: words[3] })
            }
            head if head as u32 as u64 & !STATE_FLAGS == CHANGED => {
                let [_, _, rest @ ..] = *words;
                Some(Self::Changed { flow, state: path_state(head >> 32, head & !KIND & 0xffff, rest)? })
            }
            _ => None,
        }
    }
}

/// A path state as words: its loss, its flags, and six more. There is no room for what it delivered and for the latest
/// round trip, of which only what chooses in a stream's queue makes anything.
pub(crate) fn state_words(state: &PathState) -> Words {
    let PathState {
        rate,
        srtt,
        rttvar,
        min_rtt,
        window,
        outstanding,
        loss_ppm,
        delivered: _,
        latest_rtt: _,
        contended,
    } = *state;
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    let flags = flag(srtt.is_some(), HAS_SRTT) | flag(min_rtt.is_some(), HAS_MIN_RTT) | flag(contended, CONTENDED);
    let nanos = |time: Option<Duration>| time.map_or(0, Duration::as_nanos);
    [loss_ppm.into(), flags, rate.as_bps(), nanos(srtt), rttvar.as_nanos(), nanos(min_rtt), window, outstanding]
}

/// The same back; `None` if flags and words do not fit.
pub(crate) fn path_state(loss: u64, flags: u64, rest: [u64; 6]) -> Option<PathState> {
    let [rate, srtt, rttvar, min_rtt, window, outstanding] = rest;
    if flags & !STATE_FLAGS != 0 {
        return None;
    }
    Some(PathState {
        rate: Rate::from_bps(rate),
        srtt: optional(srtt, flags & HAS_SRTT != 0)?,
        rttvar: Duration::from_nanos(rttvar),
        min_rtt: optional(min_rtt, flags & HAS_MIN_RTT != 0)?,
        window,
        outstanding,
        loss_ppm: u32::try_from(loss).ok()?,
        delivered: None,
        latest_rtt: None,
        contended: flags & CONTENDED != 0,
    })
}

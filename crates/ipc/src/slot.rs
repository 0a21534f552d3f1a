//! Messages in the queues: the frequent operations, in 64 bytes each.
//!
//! Parsing is strict: an unknown kind, an undefined flag, or a nonzero word that should be zero makes a message
//! invalid. So every message has exactly one encoding.

use timeous_cm::{Loss, Update};
use timeous_core::{Duration, Instant, PathState};

use crate::handle::Handle;
use crate::layout::SLOT;
use crate::state::{STATE_FLAGS, optional, path_state, state_words};

/// Encoded message in shared memory.
pub type Words = [u64; SLOT];

/// Message from a client to the daemon.
#[derive(Clone, Copy, Debug)]
pub enum Submission {
    /// `cm_request` for `count` packets.
    Request {
        /// The flow.
        flow: Handle,
        /// Number of packets.
        count: u32,
    },
    /// `cm_request` for one packet with a deadline, for macroflows scheduled by deadline.
    RequestBy {
        /// The flow.
        flow: Handle,
        /// Deadline of the packet.
        deadline: Instant,
    },
    /// `cm_notify`: a grant was used for this many bytes, or given back with 0.
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
        /// The feedback.
        update: Update,
    },
    /// A packet of this many bytes was sent without a grant, as a rate-paced sender does (Andersen et al. §2.1.2).
    NotifyUnasked {
        /// The flow.
        flow: Handle,
        /// Bytes.
        bytes: u64,
    },
    /// No operation: reading it shows that the daemon is alive.
    Ping,
}

/// Message from the daemon to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The flow may send `count` packets (`cmapp_send`).
    Granted {
        /// The flow.
        flow: Handle,
        /// Number of packets.
        count: u32,
    },
    /// The flow's rate has crossed a threshold (`cmapp_update`).
    Changed {
        /// The flow.
        flow: Handle,
        /// Current path state.
        state: PathState,
    },
    /// A submission was refused, and has had no effect.
    Refused {
        /// The flow.
        flow: Handle,
        /// Reason.
        why: Refusal,
        /// Value of the submission: bytes claimed, packets requested.
        value: u64,
    },
}

/// Reason why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The flow is not open.
    #[error("the flow is not open")]
    UnknownFlow,
    /// Bytes were sent without a grant.
    #[error("the flow held no grant: it was given to another meanwhile, or never requested")]
    NotGranted,
    /// More was acknowledged or lost than the flow has in flight.
    #[error("feedback for more than was outstanding")]
    MoreThanSent,
    /// Implausible feedback.
    #[error("feedback that cannot be true")]
    Implausible,
    /// The limit of waiting requests is reached.
    #[error("more requests than the daemon allows to wait")]
    OverLimit,
}

impl Refusal {
    /// All reasons.
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

impl Submission {
    /// Encodes the message.
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

    /// Checks the constraints on submissions: a request is for at least one packet.
    #[cfg(not(loom))]
    pub(crate) fn check(&self) -> Result<(), crate::messages::Malformed> {
        if matches!(self, Self::Request { count: 0, .. }) {
            return Err(crate::messages::Malformed::Senseless("number of requests"));
        }
        Ok(())
    }

    /// Decodes a message; `None` if it is invalid.
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
    let Update { acked, lost, loss, rtt, recovering, slow_receiver, beyond_gap, overtaken_by, path_rtt: _ } = update;
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
    // Undefined flags must not be lost by the shift.
    if head & 0xf800 != 0 {
        return None;
    }
    let rtt = optional(rtt, head & HAS_RTT != 0)?;
    let (recovering, slow_receiver) = (head & RECOVERING != 0, head & SLOW_RECEIVER != 0);
    let overtaken_by = Duration::from_nanos(overtaken_by);
    Some(Update { acked, lost, loss, rtt, recovering, slow_receiver, beyond_gap, overtaken_by, path_rtt: None })
}

impl Completion {
    /// Encodes the message.
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

    /// Decodes a message; `None` if it is invalid.
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

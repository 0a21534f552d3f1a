//! How a stream is treated: what a URI's keys say, and what holds where it says nothing.

use std::net::IpAddr;
use std::path::PathBuf;

use timeous_choice::{Age, Chain, Dbat, Deadlines, Dependencies, Frames, Plan, QueueLimit};
use timeous_cm::Kind;
use timeous_core::{Duration, LateChoice, SubStream};
use timeous_engine::{Ccid, Parity, TcpFraming, Unordered};

/// Who calls whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Calls a host.
    Caller {
        /// Its name or address.
        host: String,
        /// Its UDP port; without UDP it is [`Options::dccp_port`] that counts.
        port: u16,
    },
    /// Waits to be called.
    Listener {
        /// The local address; all of them if `None`.
        address: Option<IpAddr>,
        /// The UDP port; without UDP it is [`Options::dccp_port`] that counts.
        port: u16,
    },
}

/// A late-choice policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// What is worth least is given up first, by whole frames; nothing late or undecodable leaves.
    Frames,
    /// Only what cannot arrive in time is given up.
    Deadline,
    /// What has waited too long is given up.
    Age,
    /// The source is told before its queue is too long for its rate and the path's delay, by
    /// [`Sender::poll_advice`](crate::Sender::poll_advice); beyond that only frames of the highest priority go (Hasan et
    /// al.).
    Dbat,
    /// Nothing is given up, not even what is expired: a plain queue, to compare with.
    Fifo,
    /// What is kept is the set of frames of which most can be decoded in time, as far as the path's rate and the source's
    /// past tell: whole frames, heads of groups before tails.
    Plan,
}

impl PolicyName {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Frames, Self::Deadline, Self::Age, Self::Dbat, Self::Fifo, Self::Plan];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Deadline => "deadline",
            Self::Age => "age",
            Self::Dbat => "dbat",
            Self::Fifo => "fifo",
            Self::Plan => "plan",
        }
    }
}

/// When received media is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlayoutName {
    /// At a constant delay after its capture: the latency, on top of the shortest way.
    #[default]
    Constant,
    /// As soon as it can be decoded.
    Immediate,
}

impl PlayoutName {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Constant, Self::Immediate];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Immediate => "immediate",
        }
    }
}

/// What is done about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RepairName {
    /// What was lost and can still arrive in time is sent again, and where there is no time for that, lost packets are rebuilt
    /// from parity, as much as the losses ask for.
    #[default]
    Auto,
    /// What was lost and can still arrive in time is sent again.
    Retransmit,
    /// Lost packets are rebuilt from parity.
    Fec,
    /// Nothing.
    Off,
}

impl RepairName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Retransmit, Self::Fec, Self::Off];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Retransmit => "retransmit",
            Self::Fec => "fec",
            Self::Off => "off",
        }
    }
}

/// What carries a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TransportName {
    /// DCCP in UDP.
    #[default]
    Dccp,
    /// TCP, which passes nearly everywhere, and which any TCP receiver can read.
    Tcp,
    /// DCCP in UDP, and TCP where UDP does not pass, from the beginning or later. The listener has to say so, too, and its
    /// port has to be reachable by both.
    Auto,
}

impl TransportName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dccp, Self::Tcp, Self::Auto];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dccp => "dccp",
            Self::Tcp => "tcp",
            Self::Auto => "auto",
        }
    }
}

/// Who runs a stream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Daemon {
    /// This process. It shares what it knows of a path with its own streams and flows only, and depends on nobody: the
    /// default, since a stream that is run by the daemon ends with it.
    #[default]
    Off,
    /// The daemon of this host if one listens where it is looked for, else this process. Decided when the stream is
    /// opened. A daemon that is there and refuses is an error, not a reason to do without.
    Auto,
    /// The daemon at this socket, and nobody else.
    At(PathBuf),
}

/// Whether a stream that ends is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// It is not, and neither is one that was never answered.
    Off,
    /// It is, after waits that double up to this one.
    UpTo(Duration),
}

impl Reconnect {
    /// The longest wait that `on` means.
    pub const LONGEST: Duration = Duration::from_secs(5);
}

/// What a stream's DCCP packets travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encapsulation {
    /// UDP (RFC 6773): it passes NATs, and takes no rights.
    #[default]
    Udp,
    /// Nothing but IP, as its protocol 33 (RFC 4340): it takes the right to open raw sockets (`CAP_NET_RAW`) here or,
    /// where the daemon runs the stream, there.
    None,
}

/// How a stream is treated.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// From the moment of handing over to playout. Nothing leaves later than that, unless the policy is
    /// [`PolicyName::Fifo`].
    pub latency: Duration,
    /// When a receiver of media gives it out. Streams of plain ADUs have no playout.
    pub playout: PlayoutName,
    /// What is given up when the path is too slow; [`chooses_by`](Self::chooses_by) says by what if `None`.
    pub policy: Option<PolicyName>,
    /// How much may wait under [`PolicyName::Frames`], which it asks for where no policy is named; what can arrive before its deadline
    /// if `None`.
    pub queue: Option<QueueLimit>,
    /// How long an ADU may wait under [`PolicyName::Age`]; the latency if `None`.
    pub age: Option<Duration>,
    /// What is done about losses: over DCCP, to a peer that knows how. Never anything under [`PolicyName::Fifo`].
    pub repair: RepairName,
    /// Under [`PolicyName::Plan`], how many others a frame of a sub-stream is worth: at most
    /// [`MOST_WEIGHTS`](Self::MOST_WEIGHTS) of them; one if it is not among them.
    pub weights: Vec<(u8, u32)>,
    /// What carries it.
    pub transport: TransportName,
    /// Over TCP, how datagrams lie in the byte stream.
    pub framing: TcpFraming,
    /// Over TCP, whether what is received waits for what is missing before it.
    pub unordered: Unordered,
    /// The largest UDP payload, and over TCP about the largest record. The default passes wherever IPv6 passes, through a tunnel too: larger ones are not
    /// probed for.
    pub mtu: usize,
    /// Places in the packet ring.
    pub slots: u32,
    /// How long a silent peer is waited for.
    pub timeout: Duration,
    /// How long a peer may have nothing to say before it is asked whether it still lives, which keeps a NAT's binding, too;
    /// a quarter of the timeout if `None`: a receiver that its NAT has forgotten, and that hears nothing any more, has to say where
    /// it is before its sender gives it up, after half of the timeout. A dead peer is noticed after this and half of the timeout. Zero: it is never asked.
    pub keep_alive: Option<Duration>,
    /// The congestion control of both directions; both ends have to ask for the same.
    pub ccid: Ccid,
    /// What decides how fast it sends, with CCID 2. It is that of all flows of the process, or the daemon, to the same host,
    /// so that the last stream to be opened decides. `None`: Copa, if its data go stale; else as it is, AIMD unless another
    /// stream chose. Over TCP the kernel's own decides besides, and alone if this is `None`.
    pub controller: Option<Kind>,
    /// The DCCP service code (RFC 4340 §8.1.2); by default that of RTP video (RFC 5762 §5.2).
    pub service: [u8; 4],
    /// The DCCP port, behind the UDP port if there is one; by default RTP's (RFC 5762).
    pub dccp_port: u16,
    /// What its packets travel in.
    pub encapsulation: Encapsulation,
    /// Who runs it. What the peer sees is the same.
    pub daemon: Daemon,
    /// Whether a [`Dialer`](crate::Dialer), and the tool `timeous`, call again after a break or where nobody answers; `None`:
    /// they do, after five seconds at most. [`Sender::open`](crate::Sender::open) and its like call once, whatever is said.
    pub reconnect: Option<Reconnect>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(300),
            playout: PlayoutName::Constant,
            policy: None,
            queue: None,
            age: None,
            repair: RepairName::Auto,
            weights: Vec::new(),
            transport: TransportName::default(),
            framing: TcpFraming::default(),
            unordered: Unordered::default(),
            mtu: 1200,
            slots: 1024,
            timeout: Duration::from_secs(10),
            keep_alive: None,
            ccid: Ccid::Ccid2,
            controller: None,
            service: *b"RTPV",
            dccp_port: 5004,
            encapsulation: Encapsulation::Udp,
            daemon: Daemon::Off,
            reconnect: None,
        }
    }
}

impl Options {
    /// How many sub-streams may have weights.
    pub const MOST_WEIGHTS: usize = 4;

    /// The policy: the one that is named, else [`PolicyName::Plan`], which made more frames decodable than [`PolicyName::Frames`] over
    /// most of the links that were tried. Where a length of the queue is asked for it is `Frames`, and so it is over TCP, where the plan
    /// sends less than it could. `transport=auto` has the plan, whichever way the stream then takes.
    #[must_use]
    pub fn chooses_by(&self) -> PolicyName {
        let is_unplanned = self.queue.is_some() || self.transport == TransportName::Tcp;
        self.policy.unwrap_or(if is_unplanned { PolicyName::Frames } else { PolicyName::Plan })
    }

    /// The choice that the options describe.
    #[must_use]
    pub fn choice(&self) -> Box<dyn LateChoice> {
        let chain = Chain::default().then(Deadlines).then(Dependencies::default());
        match self.chooses_by() {
            PolicyName::Fifo => Box::new(Chain::default()),
            PolicyName::Deadline => Box::new(chain),
            PolicyName::Dbat => Box::new(Dbat::for_media()),
            PolicyName::Plan => {
                let weigh = |plan: Plan, &(substream, weight): &(u8, u32)| plan.weighing(SubStream(substream), weight);
                Box::new(self.weights.iter().take(Self::MOST_WEIGHTS).fold(Plan::default(), weigh))
            }
            // What ages away in the middle of a frame takes the rest with it.
            PolicyName::Age => {
                let age = Age::new(self.age.unwrap_or(self.latency));
                Box::new(Chain::default().then(age).then(chain))
            }
            PolicyName::Frames => {
                let limit = self.queue.unwrap_or(QueueLimit::Deadlines);
                Box::new(chain.then(Frames::new(limit)))
            }
        }
    }

    /// After how long without a word from the peer it is asked.
    pub(crate) fn asks_after(&self) -> Option<Duration> {
        Some(self.keep_alive.unwrap_or(self.timeout / 4)).filter(|after| !after.is_zero())
    }

    /// What decides how fast it sends: a live stream keeps the path's queue short, anything else leaves it as it is.
    pub(crate) fn deciding(&self) -> Option<Kind> {
        let live = self.ccid == Ccid::Ccid2 && self.has_deadlines();
        self.controller.or_else(|| live.then_some(Kind::Copa))
    }

    /// Whether a stream that has ended, or was never answered, is opened again: unless the URI says `reconnect=off`.
    #[must_use]
    pub fn reconnects(&self) -> bool {
        self.reconnect != Some(Reconnect::Off)
    }

    /// Whether ADUs get deadlines at all.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        self.policy != Some(PolicyName::Fifo)
    }

    /// The largest ADU.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.mtu - timeous_engine::DccpConfig::HEADER_ROOM
    }

    /// Whether lost ADUs are sent again.
    #[must_use]
    pub fn repairs(&self) -> bool {
        matches!(self.repair, RepairName::Auto | RepairName::Retransmit) && self.has_deadlines()
    }

    /// When ADUs get parity.
    #[must_use]
    pub fn parity(&self) -> Parity {
        match self.repair {
            RepairName::Auto if self.has_deadlines() => Parity::Auto,
            RepairName::Fec if self.has_deadlines() => Parity::Always,
            _ => Parity::Off,
        }
    }
}

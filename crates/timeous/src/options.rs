//! Options of a stream, as set by the keys of its URI, and their defaults.

pub(crate) mod contradictions;

use std::net::IpAddr;
use std::path::PathBuf;

use timeous_choice::{Chain, Dbat, Dependencies, QueueLimit, named};
use timeous_cm::Kind;
use timeous_core::{Duration, LateChoice};
use timeous_engine::{Ccid, Parity, TcpFraming, Unordered};

use crate::own_choice::OwnChoice;
use crate::policy::{DbatSettings, PolicyName};
use crate::security::Security;

/// Role of this end: caller or listener. These two are all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Calls a host.
    Caller {
        /// Name or address of the host.
        host: String,
        /// UDP port; without UDP, [`Options::dccp_port`] is used instead.
        port: u16,
    },
    /// Waits for callers.
    Listener {
        /// Local address; all addresses if `None`.
        address: Option<IpAddr>,
        /// UDP port; without UDP, [`Options::dccp_port`] is used instead.
        port: u16,
    },
}

/// Playout of received media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlayoutName {
    /// At a constant delay after capture: the latency, on top of the shortest one-way delay.
    #[default]
    Constant,
    /// As soon as a frame is decodable.
    Immediate,
}

impl PlayoutName {
    /// All playout modes.
    pub const ALL: [Self; 2] = [Self::Constant, Self::Immediate];

    /// The name in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Immediate => "immediate",
        }
    }
}

/// Loss repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RepairName {
    /// Retransmission of packets that can still arrive in time, and parity, as much as the loss rate requires, where
    /// there is no time for that.
    #[default]
    Auto,
    /// Retransmission of packets that can still arrive in time.
    Retransmit,
    /// Parity, from which lost packets are rebuilt.
    Fec,
    /// No repair.
    Off,
}

impl RepairName {
    /// All repair modes.
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

/// Transport protocol of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TransportName {
    /// DCCP in UDP.
    #[default]
    Dccp,
    /// TCP, which passes nearly all firewalls, and which any TCP receiver can read.
    Tcp,
    /// DCCP in UDP, and TCP where UDP is blocked, from the beginning or later. The listener has to use `auto`, too, and
    /// its port has to be reachable by both.
    Auto,
}

impl TransportName {
    /// All transports.
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

/// Process that runs a stream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Daemon {
    /// This process. It shares path state only among its own streams and flows. The default, since a stream run by the
    /// daemon ends with the daemon.
    #[default]
    Off,
    /// The host's daemon if it is running, else this process. Decided when the stream is opened. A daemon that refuses
    /// is an error.
    Auto,
    /// The daemon at this socket.
    At(PathBuf),
}

/// Whether a caller calls again after a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconnect {
    /// No: neither after the end of a stream nor after a failed call.
    Off,
    /// Yes, with waits that double up to this one.
    UpTo(Duration),
}

impl Reconnect {
    /// Longest wait for the value `on`. Chosen by us: a higher value calls a missing receiver less often, and is
    /// connected later.
    pub const LONGEST: Duration = Duration::from_secs(5);
}

/// Encapsulation of a stream's DCCP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Encapsulation {
    /// UDP (RFC 6773): passes NATs, and needs no privileges.
    #[default]
    Udp,
    /// Native IP, protocol 33 (RFC 4340): needs the right to open raw sockets (`CAP_NET_RAW`), here or in the daemon
    /// that runs the stream.
    None,
}

/// Options of a stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Time from [`Sender::send`](crate::Sender::send) to playout. Nothing is sent later than that, unless the policy
    /// is [`PolicyName::Fifo`].
    pub latency: Duration,
    /// Playout at a receiver of media. Streams of plain ADUs have no playout.
    pub playout: PlayoutName,
    /// Policy that drops ADUs when the path is too slow; `None`: see [`chooses_by`](Self::chooses_by).
    pub policy: Option<PolicyName>,
    /// Late choice of the application's own, in place of a policy: see [`Uri::with_choice`](crate::Uri::with_choice).
    pub own_choice: Option<OwnChoice>,
    /// Queue limit of [`PolicyName::Frames`]; setting it selects that policy unless another is named. `None`: limited
    /// by the deadlines.
    pub queue: Option<QueueLimit>,
    /// Longest wait of an ADU under [`PolicyName::Age`]; `None`: the latency.
    pub age: Option<Duration>,
    /// Settings of [`PolicyName::Dbat`].
    pub dbat: DbatSettings,
    /// Loss repair, over DCCP and with a peer that supports it. Always off under [`PolicyName::Fifo`].
    pub repair: RepairName,
    /// Weights of sub-streams under [`PolicyName::Plan`]: value of one frame relative to others. At most
    /// [`MOST_WEIGHTS`](Self::MOST_WEIGHTS) of them; a sub-stream not listed has weight one.
    pub weights: Vec<(u8, u32)>,
    /// Transport protocol.
    pub transport: TransportName,
    /// Over TCP, framing of datagrams in the byte stream.
    pub framing: TcpFraming,
    /// Over TCP, whether datagrams are delivered before missing ones that precede them.
    pub unordered: Unordered,
    /// Upper bound of the UDP payload, which path MTU discovery keeps to, and over TCP about the largest record. `None`:
    /// [`MOST_MTU`](Self::MOST_MTU) and, over TCP, [`BASE_MTU`](Self::BASE_MTU).
    pub mtu: Option<usize>,
    /// Slots in the packet ring.
    pub slots: u32,
    /// Time to wait for a silent peer.
    pub timeout: Duration,
    /// Silence after which the peer is probed, which also keeps NAT bindings open; zero: never. `None`: a quarter of
    /// the timeout, so that a receiver whose NAT binding is lost is heard before its sender gives up, after half of the
    /// timeout. A dead peer is noticed after this and half of the timeout.
    pub keep_alive: Option<Duration>,
    /// Congestion control of both directions; must be the same at both ends.
    pub ccid: Ccid,
    /// Congestion controller of CCID 2, shared by all flows of the process or daemon to one host: the last opened
    /// stream sets it. `None`: [`Kind::Live`] for a stream with deadlines; else unchanged, AIMD by default. Over TCP it acts
    /// besides the kernel's own, which acts alone if this is `None`.
    pub controller: Option<Kind>,
    /// DCCP service code (RFC 4340 §8.1.2); by default that of RTP video (RFC 5762 §5.2).
    pub service: [u8; 4],
    /// DCCP port, inside the UDP port if there is one; by default RTP's (RFC 5762).
    pub dccp_port: u16,
    /// Encapsulation of its packets.
    pub encapsulation: Encapsulation,
    /// Address of this host to call from, such as that of a second uplink. `None`: the route's own.
    pub local: Option<IpAddr>,
    /// Encryption and authentication.
    pub security: Security,
    /// Process that runs the stream; makes no difference to the peer.
    pub daemon: Daemon,
    /// Whether a [`Dialer`](crate::Dialer) and the tool `timeous` reconnect after a break or a failed call; `None`:
    /// yes, with waits of at most five seconds. [`Sender::open`](crate::Sender::open) and the like always call once.
    pub reconnect: Option<Reconnect>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(300),
            playout: PlayoutName::Constant,
            policy: None,
            own_choice: None,
            queue: None,
            age: None,
            dbat: DbatSettings::default(),
            repair: RepairName::Auto,
            weights: Vec::new(),
            transport: TransportName::default(),
            framing: TcpFraming::default(),
            unordered: Unordered::default(),
            mtu: None,
            slots: 1024,
            timeout: Duration::from_secs(10),
            keep_alive: None,
            ccid: Ccid::Ccid2,
            controller: None,
            service: *b"RTPV",
            dccp_port: 5004,
            encapsulation: Encapsulation::Udp,
            local: None,
            security: Security::default(),
            daemon: Daemon::Off,
            reconnect: None,
        }
    }
}

impl Options {
    /// UDP payload that path MTU discovery begins with, in bytes (`BASE_PLPMTU`, RFC 8899 §5.1.2): it passes wherever IPv6
    /// does, even through a tunnel.
    pub const BASE_MTU: usize = 1_200;
    /// Upper bound of the UDP payload without the option `mtu`, in bytes: that of a jumbo frame over IPv4.
    pub const MOST_MTU: usize = 9_000 - 28;
    /// Length of the largest ADU, in bytes: over DCCP it is cut and put together again.
    pub const MAX_ADU: usize = timeous_engine::MAX_ADU;
    /// The same without framing, over TCP.
    pub const MAX_UNFRAMED: usize = timeous_engine::MAX_UNFRAMED;

    /// Length of the largest ADU of a stream with these options, in bytes.
    #[must_use]
    pub fn max_adu(&self) -> usize {
        if self.framing == TcpFraming::None { Self::MAX_UNFRAMED } else { Self::MAX_ADU }
    }

    /// Maximum number of sub-streams with weights.
    pub const MOST_WEIGHTS: usize = 4;

    /// Policy in effect: the one named, else [`PolicyName::Plan`], which made more frames decodable than
    /// [`PolicyName::Frames`] over most links tested. With a queue limit, and over TCP, where the plan sends less than
    /// it could, it is `Frames`. `transport=auto` always uses the plan.
    #[must_use]
    pub fn chooses_by(&self) -> PolicyName {
        let is_unplanned = self.queue.is_some() || self.transport == TransportName::Tcp;
        self.policy.unwrap_or(if is_unplanned { PolicyName::Frames } else { PolicyName::Plan })
    }

    /// Creates the late-choice policy that the options describe.
    #[must_use]
    pub fn choice(&self) -> Box<dyn LateChoice> {
        if let Some(own) = &self.own_choice {
            return own.make();
        }
        match self.chooses_by() {
            PolicyName::Fifo => Box::new(Chain::default()),
            PolicyName::Deadline => Box::new(named::deadline()),
            PolicyName::Punctual => Box::new(named::punctual()),
            PolicyName::Dependencies => Box::new(Dependencies::default()),
            PolicyName::Layers => Box::new(named::layers()),
            PolicyName::Dbat => Box::new(Dbat::chain(self.dbat.settings(), self.dbat.marked.into())),
            PolicyName::Plan => Box::new(named::plan(self.weights.iter().take(Self::MOST_WEIGHTS).copied())),
            PolicyName::Age => Box::new(named::age(self.age.unwrap_or(self.latency))),
            PolicyName::Frames => Box::new(named::frames(self.queue.unwrap_or(QueueLimit::Deadlines))),
        }
    }

    /// Silence after which the peer is probed; `None`: never.
    pub(crate) fn asks_after(&self) -> Option<Duration> {
        Some(self.keep_alive.unwrap_or(self.timeout / 4)).filter(|after| !after.is_zero())
    }

    /// Congestion controller in effect: [`Kind::Live`] for a live stream, to keep the queue short; else unchanged.
    pub(crate) fn deciding(&self) -> Option<Kind> {
        let live = self.ccid == Ccid::Ccid2 && self.has_deadlines();
        self.controller.or_else(|| live.then_some(Kind::Live))
    }

    /// Whether a caller reconnects after an end or a failed call: unless the URI says `reconnect=off`.
    #[must_use]
    pub fn reconnects(&self) -> bool {
        self.reconnect != Some(Reconnect::Off)
    }

    /// Whether ADUs have deadlines.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        self.policy != Some(PolicyName::Fifo)
    }

    /// Largest ADU in bytes that leaves in one packet, before the path's size is known; over TCP in one record. With a
    /// credential it is less, since encryption adds to each packet.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        match self.transport {
            TransportName::Tcp => self.record_payload(),
            TransportName::Dccp | TransportName::Auto => {
                self.payload_of(self.mtu.unwrap_or(Self::BASE_MTU).min(Self::BASE_MTU))
            }
        }
    }

    /// Largest payload of a record over TCP.
    pub(crate) fn record_payload(&self) -> usize {
        self.payload_of(self.mtu.unwrap_or(Self::BASE_MTU))
    }

    fn payload_of(&self, mtu: usize) -> usize {
        let overhead = if self.security.has_credential() { timeous_seal::OVERHEAD } else { 0 };
        mtu - timeous_engine::DccpConfig::HEADER_ROOM - overhead
    }

    /// Whether lost ADUs are retransmitted.
    #[must_use]
    pub fn repairs(&self) -> bool {
        matches!(self.repair, RepairName::Auto | RepairName::Retransmit) && self.has_deadlines()
    }

    /// Parity policy.
    #[must_use]
    pub fn parity(&self) -> Parity {
        match self.repair {
            RepairName::Auto if self.has_deadlines() => Parity::Auto,
            RepairName::Fec if self.has_deadlines() => Parity::Always,
            _ => Parity::Off,
        }
    }
}

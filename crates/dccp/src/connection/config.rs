//! What a connection can be told beforehand.

use timeous_cm::Kind;
use timeous_core::Duration;

use crate::ccid::Ccid;
use crate::packet::Encapsulation;
use crate::seq::Seq;

/// When data get parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Parity {
    /// Never.
    #[default]
    Off,
    /// Where packets get lost, for data that could not be sent again in time.
    Auto,
    /// Where packets get lost.
    Always,
}

/// The settings of a connection. [`Config::default`] is DCCP in UDP with the RFC's timers.
///
/// ```
/// use timeous_dccp::Config;
/// let config = Config { mps: 1_400, ..Config::default() };
/// assert_eq!(config.max_payload(), 1_400 - Config::HEADER_ROOM);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// How packets travel, which decides what their checksum is worth.
    pub encapsulation: Encapsulation,
    /// The maximum packet size: the most bytes of one DCCP packet, header and options included (RFC 4340 §14). The
    /// path's own limit lowers it later.
    pub mps: usize,
    /// The maximum segment lifetime (RFC 4340 §3.4): TIMEWAIT lasts two of them, a half-open connection four.
    pub msl: Duration,
    /// How long a client asks before it gives up (RFC 4340 §8.1.1).
    pub connect_timeout: Duration,
    /// How long a peer may leave data or a Close unanswered before the link is taken for dead.
    pub silence: Duration,
    /// After how long without a packet from the peer it is asked whether it still lives; `None`: never, so that an idle
    /// connection costs nothing. It keeps the ports of a NAT open, and lets a server forget clients that have vanished.
    pub keep_alive: Option<Duration>,
    /// How long the acknowledgement of a data packet may wait for company (RFC 4340 §11.3).
    ///
    /// The RFC's 200 ms suit bulk data. A sender of data that goes stale wants to hear of a loss while something can
    /// still be done about it, and at two packets an acknowledgement a shorter wait costs only slow flows a few more.
    pub ack_delay: Duration,
    /// The congestion control of what this end sends, most preferred first (RFC 4340 §10). One that is not in the list is
    /// never used: a peer that has none of them is reset. An empty list stands for CCID 2.
    pub ccids: Vec<Ccid>,
    /// The same for what the peer sends.
    pub peer_ccids: Vec<Ccid>,
    /// The Sequence Window at the start (RFC 4340 §7.5.2): five times the packets that are sent in a round trip. It
    /// grows with the rate.
    pub sequence_window: u64,
    /// Whether the peer is asked for NDP Count options, which tell whether a gap held application data (§7.7).
    pub ndp_count: bool,
    /// Whether the host can read and write ECN marks (RFC 4340 §12).
    pub ecn: bool,
    /// Whether data packets carry a CRC-32c of their data, if the peer agrees to check it (RFC 4340 §9.3). It costs six
    /// bytes, and a look at every byte of data.
    pub data_checksum: bool,
    /// The checksum coverage of data packets (RFC 4340 §9.2): 0 for all of a packet; with `n` from 1 to 15 only the first
    /// `(n - 1) * 4` bytes of data are covered, and all where there are fewer, if the peer takes that. In UDP always 0.
    pub checksum_coverage: u8,
    /// The least coverage of data packets that is taken, besides 0 (RFC 4340 §9.2.1); with 0 nothing else is.
    pub min_checksum_coverage: u8,
    /// Whether the congestion window grows for what arrives in a window with a loss, too. RFC 4341 §5 lets it grow "for
    /// every window of data acknowledged without lost or marked packets", as TCP's stays while TCP repairs. A live
    /// stream repairs little, its windows are small, and few of them are without a loss: if only those counted, a
    /// quarter of a narrow link would stay unused.
    pub grows_in_lossy_windows: bool,
    /// The controller of what this end sends by CCID 2; `None`, the one that the Congestion Manager has. It is that of all
    /// flows to the same host.
    pub controller: Option<Kind>,
    /// Whether a server that closes keeps the TIMEWAIT state itself, instead of asking its client to (§8.3).
    pub server_holds_timewait: bool,
    /// Whether the peer is asked to take data that are sent again, and to deliver them once. One of ours always does; with
    /// another, what is lost stays lost.
    pub repeats: bool,
    /// When data get parity, from which lost ones are rebuilt, if the peer agrees to take it.
    pub parity: Parity,
    /// How often in a round trip this end tells a peer what came whose congestion control is CCID 3 or 4: once (RFC 4342 §10.3) to four
    /// times, for who wants to know soon of a path that changes (RFC 5348 §6).
    pub reports: u64,
    /// The first sequence number; `None`, as it should be outside of tests, takes a random one (§7.2).
    pub initial_seq: Option<Seq>,
}

impl Config {
    /// [`reports`](Self::reports) of a stream with deadlines: what leaves before a changed path is known may be late.
    pub const REPORTS_FOR_DEADLINES: u64 = 4;

    /// What a data packet needs beside its payload: the longest header of one (24 bytes) and room for options. Options
    /// that need more travel on a packet of their own (RFC 4340 §11.2).
    pub const HEADER_ROOM: usize = 24 + Self::OPTION_ROOM;
    /// The room for options that every data packet is sure to leave.
    pub(crate) const OPTION_ROOM: usize = 40;
    /// The least maximum packet size: what IPv4 hosts must take (RFC 791), less the headers of IP and UDP.
    pub const MIN_MPS: usize = 576 - 60 - 8;

    /// The same with these CCIDs for both directions, most preferred first.
    ///
    /// ```
    /// use timeous_dccp::{Ccid, Config};
    /// let config = Config::default().with_ccids(&[Ccid::Ccid3, Ccid::Ccid2]);
    /// assert_eq!(config.ccids, config.peer_ccids);
    /// ```
    #[must_use]
    pub fn with_ccids(self, ccids: &[Ccid]) -> Self {
        Self { ccids: ccids.to_vec(), peer_ccids: ccids.to_vec(), ..self }
    }

    /// The largest payload that fits into every data packet.
    pub fn max_payload(&self) -> usize {
        self.mps.saturating_sub(Self::HEADER_ROOM)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            encapsulation: Encapsulation::Udp,
            // Fits into the least MTU of IPv6 (1280) with room for a tunnel.
            mps: 1_200,
            msl: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(60),
            silence: Duration::from_secs(30),
            keep_alive: None,
            ack_delay: Duration::from_millis(20),
            ccids: vec![Ccid::Ccid2],
            peer_ccids: vec![Ccid::Ccid2],
            sequence_window: 1_024,
            ndp_count: true,
            ecn: true,
            data_checksum: false,
            checksum_coverage: 0,
            min_checksum_coverage: 0,
            grows_in_lossy_windows: true,
            controller: None,
            server_holds_timewait: false,
            repeats: false,
            parity: Parity::Off,
            reports: 1,
            initial_seq: None,
        }
    }
}

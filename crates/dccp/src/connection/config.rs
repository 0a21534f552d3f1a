//! Settings of a connection.

use timeous_cm::Kind;
use timeous_core::Duration;

use crate::ccid::Ccid;
use crate::packet::Encapsulation;
use crate::seq::Seq;

/// Policy for parity packets (forward error correction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Parity {
    /// No parity.
    #[default]
    Off,
    /// On lossy paths, for data that could not be retransmitted in time.
    Auto,
    /// On lossy paths, for all data.
    Always,
}

/// Settings of a connection. [`Config::default`] is DCCP in UDP with the RFC's timers.
///
/// ```
/// use timeous_dccp::Config;
/// let config = Config { mps: 1_400, ..Config::default() };
/// assert_eq!(config.max_payload(), 1_400 - Config::HEADER_ROOM);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Encapsulation of packets (native or UDP); it decides how the checksum is computed.
    pub encapsulation: Encapsulation,
    /// Maximum packet size: bytes of one DCCP packet, header and options included (RFC 4340 §14). With
    /// [`largest`](Self::largest) it is the size that the search begins with; a smaller path MTU lowers it later.
    pub mps: usize,
    /// Upper bound of the maximum packet size, for path MTU discovery (RFC 4340 §14.1, RFC 8899); `None`: none, packets
    /// keep to `mps`.
    pub largest: Option<usize>,
    /// Bytes that encryption below DCCP adds to each packet.
    pub overhead: usize,
    /// Maximum segment lifetime (RFC 4340 §3.4): TIMEWAIT lasts two of them, a half-open connection four.
    pub msl: Duration,
    /// Time after which a client gives up the handshake (RFC 4340 §8.1.1).
    pub connect_timeout: Duration,
    /// Time without an answer to data or a Close after which the peer is considered dead.
    pub silence: Duration,
    /// Idle time after which the peer is probed; `None`: never, so that an idle connection costs nothing. Probes keep
    /// NAT bindings open, and let a server forget clients that have vanished.
    pub keep_alive: Option<Duration>,
    /// Maximum delay of the acknowledgement of a data packet (delayed acknowledgements, RFC 4340 §11.3).
    ///
    /// The RFC's 200 ms suit bulk data. A sender of data that goes stale needs to know of a loss while it can still
    /// retransmit; at one acknowledgement for two packets, a shorter delay adds acknowledgements only to slow flows.
    pub ack_delay: Duration,
    /// Acceptable CCIDs for the data that this end sends, most preferred first (RFC 4340 §10). A CCID not listed is
    /// never used: a peer that supports none of them is reset. An empty list stands for CCID 2.
    pub ccids: Vec<Ccid>,
    /// Acceptable CCIDs for the data that the peer sends, in the same form.
    pub peer_ccids: Vec<Ccid>,
    /// Initial Sequence Window (RFC 4340 §7.5.2): five times the packets sent per round trip. It grows with the rate.
    pub sequence_window: u64,
    /// Whether the peer is asked for NDP Count options, which tell whether a gap contained application data (§7.7).
    pub ndp_count: bool,
    /// Whether the host can read and write ECN marks (RFC 4340 §12).
    pub ecn: bool,
    /// Whether data packets carry a CRC-32c of their data (Data Checksum), if the peer agrees to check it (RFC 4340
    /// §9.3). It costs six bytes per packet, and one pass over the data.
    pub data_checksum: bool,
    /// Checksum coverage of data packets (RFC 4340 §9.2): 0 covers the whole packet, `n` from 1 to 15 only the first
    /// `(n - 1) * 4` bytes of data, if the peer accepts that; a packet with less data is covered whole. In UDP always
    /// 0.
    pub checksum_coverage: u8,
    /// Minimum checksum coverage accepted in received data packets, besides 0 (RFC 4340 §9.2.1); 0 accepts full
    /// coverage only.
    pub min_checksum_coverage: u8,
    /// Whether the congestion window also grows in a window with a loss. RFC 4341 §5 lets it grow only "for every
    /// window of data acknowledged without lost or marked packets", as TCP does while it recovers. A live stream has
    /// small windows, few without a loss: it would leave a quarter of a narrow link unused.
    pub grows_in_lossy_windows: bool,
    /// Controller of what this end sends by CCID 2; `None`: the Congestion Manager's default. All flows to one host
    /// share it.
    pub controller: Option<Kind>,
    /// Whether a server that closes holds TIMEWAIT itself instead of asking its client to (§8.3).
    pub server_holds_timewait: bool,
    /// Whether the peer is asked to accept retransmissions and to deliver each ADU once. Timeous always accepts; with
    /// other implementations, lost data stay lost.
    pub repeats: bool,
    /// Whether the peer is asked to put ADUs together that are larger than a packet. Timeous always does; for other
    /// implementations such ADUs are too large.
    pub fragments: bool,
    /// Policy for parity packets, from which the peer rebuilds lost data, if it agrees.
    pub parity: Parity,
    /// Feedback packets per round trip that this end sends to a CCID 3 or 4 sender: one (RFC 4342 §10.3) to four, for a
    /// faster reaction to path changes (RFC 5348 §6).
    pub reports: u64,
    /// Initial sequence number; `None`, the right value outside of tests, takes a random one (§7.2).
    pub initial_seq: Option<Seq>,
}

impl Config {
    /// [`reports`](Self::reports) for a stream with deadlines, per round trip
    /// (docs/decisions/tfrc-feedback-interval.md): data sent before a path change is known may be late.
    pub const REPORTS_FOR_DEADLINES: u64 = 4;

    /// Bytes reserved in a data packet besides its payload: the longest data header (24 bytes) and room for options.
    /// Options that need more travel in a packet of their own (RFC 4340 §11.2).
    pub const HEADER_ROOM: usize = 24 + Self::OPTION_ROOM;
    /// Room for options reserved in every data packet, in bytes. Chosen by us: a higher value leaves less for the
    /// payload; a lower one sends more options in packets of their own.
    pub(crate) const OPTION_ROOM: usize = 40;
    /// Lower bound of the packet size after ICMP messages and black holes: the 576 bytes that IPv4 hosts must take
    /// (RFC 791), less the headers of IP and UDP.
    pub const FALLBACK_MPS: usize = 576 - 60 - 8;
    /// Minimum of [`mps`](Self::mps) as a setting. Chosen by us: a handshake and its options fit.
    pub const MIN_MPS: usize = 200;

    /// Returns the same settings with these CCIDs for both directions, most preferred first.
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

    /// Largest payload that fits into every data packet.
    pub fn max_payload(&self) -> usize {
        self.mps.saturating_sub(Self::HEADER_ROOM)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            encapsulation: Encapsulation::Udp,
            // Fits into the minimum MTU of IPv6 (1280) with room for a tunnel header.
            mps: 1_200,
            largest: None,
            overhead: 0,
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
            fragments: false,
            parity: Parity::Off,
            reports: 1,
            initial_seq: None,
        }
    }
}

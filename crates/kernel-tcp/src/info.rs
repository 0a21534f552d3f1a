//! `TCP_INFO`: the kernel's state of a connection. Read by offsets, since libc's structure lacks the newer fields.

use timeous_core::{Duration, Rate};

/// Number of bytes that are read of it (`struct tcp_info` of `linux/tcp.h`). An older kernel fills fewer, and the rest
/// stays zero.
pub(crate) const LEN: usize = 240;

/// Snapshot of the kernel's state of a connection (`struct tcp_info` of `linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info([u8; LEN]);

impl Info {
    pub(crate) fn new(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().expect("a fixed place within a fixed size"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.0[at..].first_chunk().expect("a fixed place within a fixed size"))
    }

    /// Returns the window scale that this end advertises (`tcpi_rcv_wscale`).
    pub(crate) fn window_scale(&self) -> u8 {
        // C bit-fields start at the least significant bit or at the most significant one, by endianness.
        if cfg!(target_endian = "little") { self.0[6] >> 4 } else { self.0[6] & 0xf }
    }

    /// Returns whether ECN was negotiated (`TCPI_OPT_ECN` of `tcpi_options`).
    pub(crate) fn has_ecn(&self) -> bool {
        const ECN: u8 = 8;
        self.0[5] & ECN != 0
    }

    /// Returns the maximum segment size of the sending side (`tcpi_snd_mss`).
    pub(crate) fn mss(&self) -> u32 {
        self.u32(16)
    }

    /// Returns the number of lost segments, including those whose retransmission is in flight.
    pub(crate) fn holes(&self) -> u32 {
        self.u32(32) + self.u32(36)
    }

    /// Returns whether the connection is in fast recovery (`TCP_CA_Recovery`) with exactly one lost segment, which was retransmitted.
    pub(crate) fn repairs_one(&self) -> bool {
        const RECOVERY: u8 = 3;
        self.0[1] == RECOVERY && self.sacked() > 0 && self.u32(32) == 1 && self.u32(36) == 1
    }

    /// Returns whether reordering was ever seen (`tcpi_reord_seen`; zero on kernels before 4.19): then segments marked as lost may only be
    /// late.
    pub(crate) fn is_reordered(&self) -> bool {
        self.u32(220) > 0
    }

    /// Returns the number of sent, unacknowledged segments (`tcpi_unacked`).
    pub(crate) fn under_way(&self) -> u32 {
        self.u32(24)
    }

    /// Returns the number of cumulatively acknowledged bytes (`tcpi_bytes_acked`; zero on kernels before 4.1).
    pub(crate) fn acknowledged(&self) -> u64 {
        self.u64(120)
    }

    /// Returns the number of SACKed segments.
    pub(crate) fn sacked(&self) -> u32 {
        self.u32(28)
    }

    /// Returns the number of unacknowledged segments that are not in flight: SACKed, or lost and not retransmitted.
    pub(crate) fn gone(&self) -> u32 {
        (self.u32(28) + self.u32(32)).saturating_sub(self.u32(36))
    }

    /// Returns the smoothed RTT; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        micros(self.u32(68))
    }

    /// Returns the mean deviation of the RTT.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_micros(self.u32(72).into())
    }

    /// Returns the number of unsent bytes (`tcpi_notsent_bytes`). The call waits for a transmission that is in progress.
    pub(crate) fn unsent(&self) -> u32 {
        self.u32(144)
    }

    /// Returns the kernel's windowed minimum RTT.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        // All ones before the first sample.
        micros(self.u32(148)).filter(|_| self.u32(148) != u32::MAX)
    }

    /// Returns the congestion window in segments.
    pub(crate) fn window(&self) -> u32 {
        self.u32(80)
    }

    /// Returns the number of consecutive retransmission timeouts.
    pub(crate) fn timeouts(&self) -> u8 {
        self.0[2]
    }

    /// Returns the number of unanswered zero-window probes.
    pub(crate) fn window_probes(&self) -> u8 {
        self.0[3]
    }

    /// Returns the number of data segments sent, retransmissions included.
    pub(crate) fn data_segments_sent(&self) -> u32 {
        self.u32(156)
    }

    /// Returns the number of retransmitted segments.
    pub(crate) fn retransmitted(&self) -> u32 {
        self.u32(100)
    }

    /// Returns the kernel's latest delivery rate sample.
    pub(crate) fn delivery_rate(&self) -> Rate {
        Rate::from_bps(self.u64(160).saturating_mul(8))
    }

    /// Returns the peer's receive window in bytes (`tcpi_snd_wnd`; zero on kernels before 5.4).
    pub(crate) fn peer_window(&self) -> u32 {
        self.u32(228)
    }
}

fn micros(value: u32) -> Option<Duration> {
    (value > 0).then(|| Duration::from_micros(value.into()))
}

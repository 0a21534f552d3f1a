//! `TCP_INFO`: what the kernel knows of a connection. Read by offsets, since libc's structure ends before what is new.

use timeous_core::{Duration, Rate};

/// As much of it as is asked for. An older kernel gives less, and the rest stays zero.
pub(super) const LEN: usize = 240;

/// What the kernel knows of a connection at one moment (`struct tcp_info` of `linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Info([u8; LEN]);

impl Info {
    pub(super) fn new(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().expect("a fixed place within a fixed size"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.0[at..].first_chunk().expect("a fixed place within a fixed size"))
    }

    /// By how much the windows that this end tells of are shifted (`tcpi_rcv_wscale`).
    pub(super) fn window_scale(&self) -> u8 {
        // C's fields of bits begin at the least significant one, or at the most.
        if cfg!(target_endian = "little") { self.0[6] >> 4 } else { self.0[6] & 0xf }
    }

    /// The largest segment that is sent (`tcpi_snd_mss`).
    pub(super) fn mss(&self) -> u32 {
        self.u32(16)
    }

    /// Segments that are thought lost and not repaired yet, or whose repair is under way.
    pub(super) fn holes(&self) -> u32 {
        self.u32(32) + self.u32(36)
    }

    /// Whether one segment alone is lost, the kernel found it out by what the peer has beyond (`TCP_CA_Recovery`), and it has been
    /// sent again.
    pub(super) fn repairs_one(&self) -> bool {
        const RECOVERY: u8 = 3;
        self.0[1] == RECOVERY && self.sacked() > 0 && self.u32(32) == 1 && self.u32(36) == 1
    }

    /// Whether segments ever overtook each other (`tcpi_reord_seen`; zero on kernels before 4.19): then what is thought lost may
    /// only be late.
    pub(super) fn is_reordered(&self) -> bool {
        self.u32(220) > 0
    }

    /// Segments that were sent and are not acknowledged (`tcpi_unacked`).
    pub(super) fn under_way(&self) -> u32 {
        self.u32(24)
    }

    /// Bytes that the peer has acknowledged without a gap (`tcpi_bytes_acked`; zero on kernels before 4.1).
    pub(super) fn acknowledged(&self) -> u64 {
        self.u64(120)
    }

    /// Segments beyond a gap that the peer has.
    pub(super) fn sacked(&self) -> u32 {
        self.u32(28)
    }

    /// Segments that are not under way although they are not acknowledged: the peer has them, or they are thought lost and were
    /// not sent again.
    pub(super) fn gone(&self) -> u32 {
        (self.u32(28) + self.u32(32)).saturating_sub(self.u32(36))
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        micros(self.u32(68))
    }

    /// Its mean deviation.
    pub(super) fn rttvar(&self) -> Duration {
        Duration::from_micros(self.u32(72).into())
    }

    /// Bytes that have not been sent (`tcpi_notsent_bytes`). Asked so, the kernel waits for a transmission that is under way.
    pub(super) fn unsent(&self) -> u32 {
        self.u32(144)
    }

    /// The smallest round trip of late.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        // All ones before the first sample.
        micros(self.u32(148)).filter(|_| self.u32(148) != u32::MAX)
    }

    /// The congestion window in segments.
    pub(super) fn window(&self) -> u32 {
        self.u32(80)
    }

    /// Times that a retransmission timer ran out in a row.
    pub(super) fn timeouts(&self) -> u8 {
        self.0[2]
    }

    /// Probes of a closed window that were not answered by an open one.
    pub(super) fn window_probes(&self) -> u8 {
        self.0[3]
    }

    /// Segments that left with data, retransmissions included.
    pub(super) fn data_segments_sent(&self) -> u32 {
        self.u32(156)
    }

    /// Segments sent again.
    pub(super) fn retransmitted(&self) -> u32 {
        self.u32(100)
    }

    /// The rate at which the path delivered of late.
    pub(super) fn delivery_rate(&self) -> Rate {
        Rate::from_bps(self.u64(160).saturating_mul(8))
    }

    /// The peer's window in bytes (`tcpi_snd_wnd`; zero on kernels before 5.4).
    pub(super) fn peer_window(&self) -> u32 {
        self.u32(228)
    }
}

fn micros(value: u32) -> Option<Duration> {
    (value > 0).then(|| Duration::from_micros(value.into()))
}

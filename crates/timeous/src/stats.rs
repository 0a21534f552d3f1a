//! Statistics of a stream, under the names that SRT uses.

use std::collections::BTreeMap;

use serde::Serialize;
use timeous_core::{DropReason, Duration, Fate, Instant};
use timeous_engine::{Reach, Snapshot};

/// Fates of the ADUs sent by the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fates {
    /// ADUs that the receiver has acknowledged.
    pub acked: u64,
    /// ADUs that were sent and did not arrive.
    pub lost: u64,
    /// ADUs dropped before they were sent, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl Fates {
    pub(crate) fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Acked => self.acked += 1,
            Fate::Lost => self.lost += 1,
            Fate::Dropped(reason) => *self.dropped.entry(reason).or_default() += 1,
        }
    }

    /// Number dropped for this reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped.get(&reason).copied().unwrap_or(0)
    }

    /// Number of ADUs that have a fate.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.acked + self.lost + self.dropped.values().sum::<u64>()
    }
}

/// Statistics of a stream since it began, under SRT's names where they exist. ADUs that expired in the queue are
/// counted apart from those lost on the path, as WebTransport does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stats {
    /// Time since the stream began, in milliseconds.
    pub ms_time_stamp: u64,
    /// Data packets sent, retransmissions included.
    pub pkt_sent_total: u64,
    /// Bytes of application data sent, retransmissions included.
    pub byte_sent_total: u64,
    /// Packets acknowledged by the receiver.
    pub pkt_acked_total: u64,
    /// Packets lost for good.
    pub pkt_snd_loss_total: u64,
    /// Packets retransmitted.
    pub pkt_retrans_total: u64,
    /// Parity packets sent.
    pub pkt_snd_filter_extra_total: u64,
    /// Parity packets received.
    pub pkt_rcv_filter_extra_total: u64,
    /// Lost packets rebuilt from parity.
    pub pkt_rcv_filter_supply_total: u64,
    /// Duplicate packets received, and delivered once.
    pub pkt_rcv_duplicate_total: u64,
    /// Loss repair over DCCP: `on`, or `off` if switched off or not supported by the peer.
    pub repair: &'static str,
    /// Packets dropped before they were sent: the sum of the next five.
    pub pkt_snd_drop_total: u64,
    /// Dropped because their deadline had passed.
    pub pkt_snd_expired_total: u64,
    /// Dropped because they could not have arrived in time.
    pub pkt_snd_too_late_total: u64,
    /// Dropped because a frame that they refer to was lost or dropped.
    pub pkt_snd_reference_lost_total: u64,
    /// Dropped by the policy, in favour of other packets.
    pub pkt_snd_policy_total: u64,
    /// Dropped for other reasons: withdrawn, too large, or the connection was over.
    pub pkt_snd_other_total: u64,
    /// Over TCP: late packets in the kernel's send queue that were replaced by fresh ones.
    pub pkt_snd_replaced_total: u64,
    /// Over TCP: late packets in the kernel's send queue that were replaced by padding.
    pub pkt_snd_padded_total: u64,
    /// Over TCP: late packets in the kernel's send queue that could not be replaced; TCP may have retransmitted them
    /// after their deadline.
    pub pkt_snd_unchanged_total: u64,
    /// Transport protocol: `dccp` or `tcp`.
    pub transport: &'static str,
    /// How long data can still be dropped: until they are sent (`sending`), in the kernel's queue, too (`queue`), or
    /// before TCP's retransmissions, too (`retransmissions`).
    pub late_choice: &'static str,
    /// Whether the peer's receive window is closed: its application does not read.
    pub peer_stalled: bool,
    /// Order of delivery: `unordered`; over TCP `ordered`, unless the packet tap reads segments as they arrive.
    pub delivery: &'static str,
    /// Over TCP: packets that the packet tap delivered before the ordered stream reached them.
    pub pkt_recv_early_total: u64,
    /// Data packets received.
    pub pkt_recv_total: u64,
    /// Bytes of application data received.
    pub byte_recv_total: u64,
    /// Packets received, and dropped because the application did not read them in time.
    pub pkt_rcv_drop_total: u64,
    /// Packets in the send queue.
    pub pkt_snd_buf: u64,
    /// Bytes in the send queue.
    pub byte_snd_buf: u64,
    /// Time to send the send queue at the present rate, in milliseconds; 0 before the first round trip.
    pub ms_snd_buf: f64,
    /// With `policy=dbat`: weighted average of the bytes in the send queue.
    pub byte_snd_buf_average: Option<u64>,
    /// With `policy=dbat`: `Min_Th` in bytes. Below it a higher rate is advised; from half-way to `Max_Th` on, a
    /// lower one.
    pub byte_snd_buf_min_th: Option<u64>,
    /// With `policy=dbat`: `Max_Th` in bytes. Above it only packets of the highest priority are sent.
    pub byte_snd_buf_max_th: Option<u64>,
    /// With `policy=dbat`: rate of the source in Mbit/s, as it declared or as measured.
    pub mbps_source_rate: Option<f64>,
    /// With `policy=dbat`: rate last advised to the source, in Mbit/s.
    pub mbps_advised_rate: Option<f64>,
    /// Over DCCP: largest packet that the path carries, as far as is known, in bytes of UDP payload without encryption; 0
    /// before the stream is open.
    #[serde(rename = "byteMSS")]
    pub byte_mss: u64,
    /// Times that the path has swallowed packets of a size that passed before, without a message: later ones are smaller.
    pub path_black_holes_total: u64,
    /// Bytes in flight.
    pub byte_flight_size: u64,
    /// Congestion window in bytes.
    pub byte_congestion_window: u64,
    /// Smoothed round-trip time in milliseconds; over DCCP the handshake's until data are acknowledged. 0 until
    /// measured.
    #[serde(rename = "msRTT")]
    pub ms_rtt: f64,
    /// Minimum round-trip time in milliseconds, without queueing delay. 0 until measured.
    #[serde(rename = "msRTTMin")]
    pub ms_rtt_min: f64,
    /// Rate in Mbit/s that congestion control permits this stream now; not the link's.
    pub mbps_bandwidth: f64,
    /// Mean sending rate in Mbit/s since the stream began. For the rate of an interval take the difference of
    /// `byteSentTotal` of two records.
    pub mbps_send_rate: f64,
    /// Mean receive rate in Mbit/s since the stream began. For the rate of an interval take the difference of
    /// `byteRecvTotal` of two records.
    pub mbps_recv_rate: f64,
}

impl Stats {
    /// Computes the statistics at `now` of a stream that began at `began`.
    #[must_use]
    pub fn new(began: Instant, now: Instant, snapshot: &Snapshot, fates: &Fates) -> Self {
        let time = now.saturating_since(began);
        let mbps = |bytes: u64| if time.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / time.as_secs_f64() };
        let (transport, path, tcp) = (&snapshot.transport, &snapshot.path, snapshot.tcp.unwrap_or_default());
        let known = [DropReason::Expired, DropReason::TooLate, DropReason::ReferenceLost, DropReason::Policy];
        let [expired, too_late, reference, policy] = known.map(|reason| fates.dropped_for(reason));
        let dropped: u64 = fates.dropped.values().sum();
        let queue = path.rate.time_for(snapshot.queued_bytes as u64);
        let buffer = snapshot.buffer.as_ref();
        let thresholds = buffer.and_then(|buffer| buffer.thresholds);
        let millis = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let in_mbps = |rate: timeous_core::Rate| rate.as_bps() as f64 / 1e6;
        Self {
            ms_time_stamp: time.as_millis(),
            pkt_sent_total: transport.data_sent,
            byte_sent_total: transport.bytes_sent,
            pkt_acked_total: fates.acked,
            pkt_snd_loss_total: fates.lost,
            pkt_retrans_total: snapshot.repaired,
            pkt_snd_filter_extra_total: transport.parity_sent,
            pkt_rcv_filter_extra_total: transport.parity_received,
            pkt_rcv_filter_supply_total: transport.rebuilt,
            pkt_rcv_duplicate_total: transport.repeats_dropped,
            repair: if snapshot.repairs { "on" } else { "off" },
            pkt_snd_drop_total: dropped,
            pkt_snd_expired_total: expired,
            pkt_snd_too_late_total: too_late,
            pkt_snd_reference_lost_total: reference,
            pkt_snd_policy_total: policy,
            pkt_snd_other_total: dropped - expired - too_late - reference - policy,
            pkt_snd_replaced_total: tcp.replaced,
            pkt_snd_padded_total: tcp.padded,
            pkt_snd_unchanged_total: tcp.unchanged,
            transport: if snapshot.tcp.is_some() { "tcp" } else { "dccp" },
            late_choice: match tcp.reach {
                Reach::Sending => "sending",
                Reach::Queue => "queue",
                Reach::Retransmissions => "retransmissions",
            },
            peer_stalled: tcp.stalled,
            delivery: if snapshot.tcp.is_some_and(|tcp| !tcp.tapped) { "ordered" } else { "unordered" },
            pkt_recv_early_total: tcp.early,
            pkt_recv_total: transport.data_received,
            byte_recv_total: transport.bytes_received,
            pkt_rcv_drop_total: snapshot.unread,
            pkt_snd_buf: snapshot.queued_packets as u64,
            byte_snd_buf: snapshot.queued_bytes as u64,
            ms_snd_buf: if path.srtt.is_some() { queue.as_secs_f64() * 1e3 } else { 0.0 },
            byte_snd_buf_average: buffer.map(|buffer| buffer.average),
            byte_snd_buf_min_th: thresholds.map(|thresholds| thresholds.min),
            byte_snd_buf_max_th: thresholds.map(|thresholds| thresholds.max),
            mbps_source_rate: buffer.and_then(|buffer| buffer.stream).map(in_mbps),
            mbps_advised_rate: buffer.and_then(|buffer| buffer.advised).map(in_mbps),
            byte_mss: transport.packet_size,
            path_black_holes_total: transport.black_holes,
            byte_flight_size: path.outstanding,
            byte_congestion_window: path.window,
            ms_rtt: millis(path.srtt),
            ms_rtt_min: millis(path.min_rtt),
            mbps_bandwidth: in_mbps(path.rate),
            mbps_send_rate: mbps(transport.bytes_sent),
            mbps_recv_rate: mbps(transport.bytes_received),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_add_up_and_names_are_srts() {
        let mut fates = Fates::default();
        fates.count(Fate::Acked);
        for reason in [DropReason::Expired, DropReason::Policy, DropReason::Policy, DropReason::Withdrawn] {
            fates.count(Fate::Dropped(reason));
        }
        assert_eq!(fates.total(), 5);
        let mut snapshot = Snapshot::default();
        snapshot.path.min_rtt = Some(Duration::from_micros(20_500));
        let stats = Stats::new(Instant::ZERO, Instant::ZERO, &snapshot, &fates);
        assert_eq!((stats.ms_rtt, stats.ms_rtt_min), (0.0, 20.5));
        assert_eq!((stats.pkt_snd_drop_total, stats.pkt_snd_policy_total, stats.pkt_snd_other_total), (4, 2, 1));
        let json = serde_json::to_value(&stats).unwrap();
        for name in
            ["pktSentTotal", "pktSndDropTotal", "msRTT", "msRTTMin", "mbpsBandwidth", "msSndBuf", "pktSndExpiredTotal"]
        {
            assert!(json.get(name).is_some(), "{name} in {json}");
        }
    }
}

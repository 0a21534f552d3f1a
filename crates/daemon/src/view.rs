//! Snapshot of the daemon: for `timeous top`, for metrics, and as JSON for scripts.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use timeous_cm::{FlowView, MacroflowView, Scheduling, Snapshot};
use timeous_core::{Duration, Instant};

use crate::store::Remembered;

/// Snapshot of the daemon, its clients, and the macroflows with their flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// The daemon's version.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Time of the snapshot, in nanoseconds on the host's monotonic clock.
    pub at_ns: u64,
    /// Milliseconds since the daemon started.
    pub uptime_ms: u64,
    /// Connected clients.
    pub clients: Vec<Client>,
    /// Macroflows, by identifier.
    pub macroflows: Vec<Macroflow>,
    /// Health counters.
    pub health: Health,
}

/// Health counters of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Clients disconnected for protocol violations.
    pub violations_total: u64,
    /// Entries in the path memory.
    pub paths_remembered: u64,
    /// Failed writes of the path memory.
    pub path_write_failures_total: u64,
    /// Events lost by the qlog for want of room.
    pub qlog_lost_total: u64,
}

/// A client process of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// Identifier, used by flows. 0 is the daemon's own engine.
    pub id: u64,
    /// Process ID.
    pub pid: u32,
    /// User ID.
    pub uid: u32,
}

/// Macroflow: flows to one destination, which share path state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Macroflow {
    /// Identifier.
    pub id: u64,
    /// Destination host.
    pub address: IpAddr,
    /// DSCP of the packets.
    pub dscp: u8,
    /// Source address of the packets, if it is not the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// User of the flows; none: the host's own flows, with feedback seen by the host itself.
    pub user: Option<u32>,
    /// The congestion controller.
    pub controller: String,
    /// Scheduler: `roundRobin`, `weighted` or `deadline`.
    pub scheduling: String,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Slow start threshold, once there is one.
    pub threshold_bytes: Option<u64>,
    /// Bytes in flight.
    pub outstanding_bytes: u64,
    /// Sending rate in bits per second.
    pub rate_bps: u64,
    /// Smoothed RTT, once there is a sample.
    pub srtt_us: Option<u64>,
    /// Mean deviation of the RTT.
    pub rttvar_us: u64,
    /// Minimum RTT.
    pub min_rtt_us: Option<u64>,
    /// Recent packet loss, in parts per million.
    pub loss_ppm: u32,
    /// Unused grants.
    pub grants: u32,
    /// Requests waiting for a grant.
    pub waiting: u64,
    /// Loss events, at most one per window.
    pub losses_total: u64,
    /// ECN events, at most one per window.
    pub marks_total: u64,
    /// Timeouts.
    pub timeouts_total: u64,
    /// Totals of its flows, including closed ones.
    #[serde(flatten)]
    pub totals: Totals,
    /// Open flows.
    pub flows: Vec<Flow>,
}

/// Totals of sent data and its fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Bytes sent.
    pub sent_bytes_total: u64,
    /// Bytes acknowledged.
    pub acked_bytes_total: u64,
    /// Bytes lost.
    pub lost_bytes_total: u64,
    /// Updates refused as implausible.
    pub refused_total: u64,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// Identifier.
    pub id: u64,
    /// Identifier of its client.
    pub client: u64,
    /// Weight, for the weighted scheduler.
    pub weight: u32,
    /// Maximum packet size.
    pub mtu_bytes: u64,
    /// Bytes in flight.
    pub outstanding_bytes: u64,
    /// Requests waiting for a grant.
    pub waiting: u32,
    /// Unused grants.
    pub grants: u32,
    /// Local address, if known.
    pub local: Option<SocketAddr>,
    /// Peer's address, if known.
    pub remote: Option<SocketAddr>,
    /// Totals.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Remembered state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// Destination host.
    pub address: IpAddr,
    /// DSCP of the packets.
    pub dscp: u8,
    /// User whose flows learned it; none: the host's own.
    pub user: Option<u32>,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Slow start threshold, if there was one.
    pub threshold_bytes: Option<u64>,
    /// Smoothed RTT.
    pub srtt_us: u64,
    /// Mean deviation of the RTT.
    pub rttvar_us: u64,
    /// Minimum RTT.
    pub min_rtt_us: u64,
    /// Sending rate in bits per second.
    pub rate_bps: u64,
    /// Packet loss, in parts per million.
    pub loss_ppm: u32,
    /// Seconds since the path was last used.
    pub age_seconds: u64,
}

impl From<&Remembered> for Path {
    fn from(remembered: &Remembered) -> Self {
        let Remembered { destination, learnt, age } = remembered;
        Self {
            address: destination.addr,
            dscp: destination.dscp,
            user: destination.user.map(|user| user.0),
            window_bytes: learnt.window,
            threshold_bytes: learnt.ssthresh,
            srtt_us: learnt.srtt.as_micros(),
            rttvar_us: learnt.rttvar.as_micros(),
            min_rtt_us: learnt.min_rtt.as_micros(),
            rate_bps: learnt.rate.as_bps(),
            loss_ppm: learnt.loss_ppm,
            age_seconds: age.as_millis() / 1_000,
        }
    }
}

impl View {
    /// Converts a snapshot of the Congestion Manager. The daemon fills in the other fields.
    pub fn of(snapshot: &Snapshot, now: Instant, since: Instant) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            at_ns: now.as_nanos(),
            uptime_ms: now.saturating_since(since).as_millis(),
            macroflows: snapshot.macroflows.iter().map(Macroflow::from).collect(),
            ..Self::default()
        }
    }

    /// Returns the part that a reader may see.
    #[must_use]
    pub fn for_reader(mut self, reader: &Reader) -> Self {
        self.clients.retain(|client| reader.sees(Some(client.uid)));
        self.macroflows.retain(|macroflow| reader.sees(macroflow.user));
        self
    }
}

/// User for whom a view is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The user.
    pub uid: u32,
    /// Whether the user's flows are among the host's ([`Config::share_with_host`](crate::Config::share_with_host)).
    pub sees_host: bool,
}

impl Reader {
    /// Returns whether data of `owner` may be shown: users see their own, root and the daemon's own user see everything. Data
    /// without an owner is the host's, including streams that the daemon runs for users.
    pub fn sees(&self, owner: Option<u32>) -> bool {
        let Self { uid, sees_host } = *self;
        uid == 0 || uid == rustix::process::geteuid().as_raw() || owner == Some(uid) || (owner.is_none() && sees_host)
    }
}

impl From<&MacroflowView> for Macroflow {
    fn from(view: &MacroflowView) -> Self {
        let MacroflowView { destination, state, answered, .. } = view;
        let scheduling = match view.scheduling {
            Scheduling::RoundRobin => "roundRobin",
            Scheduling::Weighted => "weighted",
            Scheduling::Deadline => "deadline",
        };
        Self {
            id: view.id.as_u64(),
            address: destination.addr,
            dscp: destination.dscp,
            source: destination.source,
            user: destination.user.map(|user| user.0),
            controller: view.controller.to_owned(),
            scheduling: scheduling.to_owned(),
            window_bytes: state.window,
            threshold_bytes: view.threshold,
            outstanding_bytes: state.outstanding,
            rate_bps: state.rate.as_bps(),
            srtt_us: state.srtt.map(Duration::as_micros),
            rttvar_us: state.rttvar.as_micros(),
            min_rtt_us: state.min_rtt.map(Duration::as_micros),
            loss_ppm: state.loss_ppm,
            grants: view.grants,
            waiting: view.waiting,
            losses_total: answered.losses,
            marks_total: answered.marks,
            timeouts_total: answered.timeouts,
            totals: Totals {
                sent_bytes_total: view.sent,
                acked_bytes_total: view.acked,
                lost_bytes_total: view.lost,
                refused_total: view.refused,
            },
            flows: view.flows.iter().map(Flow::from).collect(),
        }
    }
}

impl From<&FlowView> for Flow {
    fn from(view: &FlowView) -> Self {
        Self {
            id: view.id.as_u64(),
            client: view.client.as_u64(),
            weight: view.weight,
            mtu_bytes: view.mtu,
            outstanding_bytes: view.outstanding,
            waiting: view.waiting,
            grants: view.grants,
            local: view.local,
            remote: view.remote,
            totals: Totals {
                sent_bytes_total: view.sent,
                acked_bytes_total: view.acked,
                lost_bytes_total: view.lost,
                refused_total: view.refused,
            },
        }
    }
}

#[cfg(test)]
mod tests;

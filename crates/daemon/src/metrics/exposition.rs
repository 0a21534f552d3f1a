//! A view as OpenMetrics text: names by Prometheus' conventions, base units, a bound on the number of series.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, text,
};
use prometheus_client::metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info};
use prometheus_client::registry::{Registry, Unit};

use crate::view::{Macroflow, View};

/// Maximum number of macroflows shown, the oldest first: each has about twenty series, which cost their collectors. `timeous_macroflows`
/// counts all.
pub const LISTED: usize = 200;

/// Content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Renders the view as text.
pub fn exposition(view: &View) -> String {
    let mut registry = Registry::with_prefix("timeous");
    let build = Info::new([("version", view.version.clone())]);
    registry.register("build", "The daemon's version", build);
    registry.register_collector(Box::new(MetricsSnapshot { view: view.clone() }));
    let mut text = String::new();
    match text::encode(&mut text, &registry) {
        Ok(()) => text,
        // Writing to a string cannot fail.
        Err(fmt::Error) => unreachable!("writing to a string has failed"),
    }
}

#[derive(Debug)]
struct MetricsSnapshot {
    view: View,
}

/// Labels of a macroflow's values. Its identifier is not a label, since every new macroflow would be a new series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    address: IpAddr,
    dscp: u8,
    user: Option<u32>,
    /// Index among several split macroflows of one destination, from 0.
    part: usize,
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let user = self.user.map_or("host".to_owned(), |user| user.to_string());
        let labels = [
            ("address", self.address.to_string()),
            ("dscp", self.dscp.to_string()),
            ("user", user),
            ("part", self.part.to_string()),
        ];
        labels.encode(encoder)
    }
}

fn labelled(macroflows: &[Macroflow]) -> Vec<(Labels, &Macroflow)> {
    let mut parts = BTreeMap::<_, usize>::new();
    let mut by_age: Vec<_> = macroflows.iter().collect();
    by_age.sort_by_key(|macroflow| macroflow.id);
    let label = |macroflow: &Macroflow| {
        let Macroflow { address, dscp, user, .. } = *macroflow;
        let next = parts.entry((address, dscp, user)).or_default();
        let part = *next;
        *next += 1;
        Labels { address, dscp, user, part }
    };
    let mut label = label;
    by_age.into_iter().take(LISTED).map(|macroflow| (label(macroflow), macroflow)).collect()
}

/// Encoder of metric families.
struct Families<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
    macroflows: Vec<(Labels, &'a Macroflow)>,
}

impl Families<'_, '_> {
    fn gauge<N: EncodeGaugeValue>(&mut self, name: &str, help: &str, value: N) -> fmt::Result {
        let metric = ConstGauge::new(value);
        metric.encode(self.encoder.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    fn counter<N: EncodeCounterValue>(&mut self, name: &str, help: &str, value: N) -> fmt::Result {
        let metric = ConstCounter::new(value);
        metric.encode(self.encoder.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    /// Encodes a value of each macroflow that has it.
    fn gauges<N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&Macroflow) -> Option<N>,
    ) -> fmt::Result {
        let kind = prometheus_client::metrics::MetricType::Gauge;
        let mut family = self.encoder.encode_descriptor(name, help, unit, kind)?;
        for (labels, macroflow) in &self.macroflows {
            if let Some(value) = value(macroflow) {
                ConstGauge::new(value).encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&Macroflow) -> u64,
    ) -> fmt::Result {
        let kind = prometheus_client::metrics::MetricType::Counter;
        let mut family = self.encoder.encode_descriptor(name, help, unit, kind)?;
        for (labels, macroflow) in &self.macroflows {
            ConstCounter::new(value(macroflow)).encode(family.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn of_the_daemon(&mut self, view: &View) -> fmt::Result {
        let flows: usize = view.macroflows.iter().map(|macroflow| macroflow.flows.len()).sum();
        self.gauge("uptime_seconds", "Time since the daemon began", view.uptime_ms as f64 / 1e3)?;
        self.gauge("clients", "Processes that use the daemon", view.clients.len() as u64)?;
        self.gauge("macroflows", "Macroflows, those not listed included", view.macroflows.len() as u64)?;
        self.gauge("macroflows_listed", "Macroflows that have series here", self.macroflows.len() as u64)?;
        self.gauge("flows", "Flows that are open", flows as u64)?;
        self.gauge("paths_remembered", "Paths in the path memory", view.health.paths_remembered)?;
        let failures = view.health.path_write_failures_total;
        self.counter("path_write_failures", "Writes of the path memory that failed", failures)?;
        self.counter("qlog_lost_events", "Events that the qlog had no room for", view.health.qlog_lost_total)?;
        self.counter("client_violations", "Clients disconnected for breaking the rules", view.health.violations_total)
    }

    fn of_macroflows(&mut self) -> fmt::Result {
        let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
        self.gauges("macroflow_flows", "Open flows", None, |m| Some(m.flows.len() as u64))?;
        self.gauges("macroflow_window", "Bytes that may be outstanding", bytes, |m| Some(m.window_bytes))?;
        self.gauges("macroflow_threshold", "Slow start threshold", bytes, |m| m.threshold_bytes)?;
        self.gauges("macroflow_outstanding", "Bytes that are outstanding", bytes, |m| Some(m.outstanding_bytes))?;
        let rate = |m: &Macroflow| Some(m.rate_bps as f64 / 8.0);
        self.gauges("macroflow_rate_bytes_per_second", "Rate that may be sent", None, rate)?;
        self.gauges("macroflow_srtt", "Smoothed round trip", seconds, |m| m.srtt_us.map(from_micros))?;
        self.gauges("macroflow_rttvar", "Mean deviation of round trips", seconds, |m| Some(from_micros(m.rttvar_us)))?;
        self.gauges("macroflow_min_rtt", "Least round trip", seconds, |m| m.min_rtt_us.map(from_micros))?;
        let loss = |m: &Macroflow| Some(f64::from(m.loss_ppm) / 1e6);
        self.gauges("macroflow_loss_ratio", "Share of packets lost of late", None, loss)?;
        self.gauges("macroflow_grants", "Grants given and not yet used", None, |m| Some(m.grants))?;
        self.gauges("macroflow_waiting_requests", "Requests that wait for a grant", None, |m| Some(m.waiting))?;
        self.counters("macroflow_sent", "Bytes sent", bytes, |m| m.totals.sent_bytes_total)?;
        self.counters("macroflow_acked", "Bytes that arrived", bytes, |m| m.totals.acked_bytes_total)?;
        self.counters("macroflow_lost", "Bytes that were lost", bytes, |m| m.totals.lost_bytes_total)?;
        let refused = "Updates refused because they cannot be true";
        self.counters("macroflow_refused_updates", refused, None, |m| m.totals.refused_total)?;
        self.counters("macroflow_losses", "Windows with losses", None, |m| m.losses_total)?;
        self.counters("macroflow_marks", "Windows with congestion marks", None, |m| m.marks_total)?;
        self.counters("macroflow_timeouts", "Timeouts", None, |m| m.timeouts_total)
    }
}

fn from_micros(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut families = Families { encoder: &mut encoder, macroflows: labelled(&self.view.macroflows) };
        families.of_the_daemon(&self.view)?;
        families.of_macroflows()
    }
}

//! Data age (Lai & Kohler §4.2, figures 9 and 10): age of packets at departure and on arrival.

use serde_json::json;
use timeous::core::{Duration, Instant};

use super::seeds::over_seeds;
use super::setup::{self, Transport, WARM_UP};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series, cumulative};

/// Timestamps of a packet by one clock, counted from the start of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketTimestamps {
    /// Time at which the application sent it.
    pub(crate) sent: Instant,
    /// First arrival at the link, if any.
    pub(crate) on_wire: Option<Instant>,
    /// Delivery to the receiving application, if any.
    pub(crate) arrived: Option<Instant>,
}

/// Packets of one flow at the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkPackets {
    /// Packets that arrived at the link.
    pub(crate) packets: u64,
    /// Packets dropped by its full queue.
    pub(crate) dropped: u64,
}

impl LinkPackets {
    /// Returns the sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, dropped: self.dropped + other.dropped }
    }

    /// Returns the share of dropped packets, in percent.
    pub(crate) fn loss(self) -> f64 {
        100.0 * self.dropped as f64 / self.packets.max(1) as f64
    }
}

/// Measured flow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    /// Transport of the flow.
    pub(crate) transport: Transport,
    /// Packets of the flow.
    pub(crate) journeys: Vec<PacketTimestamps>,
    /// Packets at the link.
    pub(crate) link: LinkPackets,
}

/// Delays of a transport's packets in milliseconds, sorted.
struct Delays {
    transport: Transport,
    sent: usize,
    in_sender: Vec<f64>,
    end_to_end: Vec<f64>,
    /// Delay from arrival at the link to delivery.
    under_way: Vec<f64>,
    link: LinkPackets,
}

impl Delays {
    /// Collects the delays of all flows of a transport.
    fn new(transport: Transport, flows: &[Flow]) -> Self {
        let flows = || flows.iter().filter(|flow| flow.transport == transport);
        let counted =
            || flows().flat_map(|flow| &flow.journeys).filter(|journey| journey.sent >= Instant::ZERO + WARM_UP);
        let sorted = |delay: &dyn Fn(&PacketTimestamps) -> Option<Duration>| {
            let mut delays: Vec<f64> = counted().filter_map(delay).map(milliseconds).collect();
            delays.sort_unstable_by(f64::total_cmp);
            delays
        };
        Self {
            transport,
            sent: counted().count(),
            in_sender: sorted(&|journey| Some(journey.on_wire?.saturating_since(journey.sent))),
            end_to_end: sorted(&|journey| Some(journey.arrived?.saturating_since(journey.sent))),
            under_way: sorted(&|journey| Some(journey.arrived?.saturating_since(journey.on_wire?))),
            link: flows().fold(LinkPackets::default(), |sum, flow| sum.and(flow.link)),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// Returns a percentile by nearest rank; NaN without values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Compares the paper's figures 9 and 10 with the results of each seed. `choices` are those of the
/// form that was run.
///
/// # Errors
/// [`LabError::Plot`] if nothing arrived.
pub(crate) fn findings(seeds: &[Vec<Flow>], choices: Vec<Choice>) -> Result<Findings, LabError> {
    let claims = seeds.iter().map(|flows| Ok(claims(&delays(flows)?))).collect::<Result<_, LabError>>()?;
    let all = delays(&seeds.concat())?;
    let setup = [setup::choices(), setup_of_ages(), choices].concat();
    Ok(Findings {
        setup,
        tables: vec![table("From application to application, ms", &all, |delays| &delays.end_to_end), in_sender(&all)],
        figures: vec![
            figure("End-to-end delay (figure 9)", &all, |delays| &delays.end_to_end)?,
            figure("In-sender delay (figure 10)", &all, |delays| &delays.in_sender)?,
        ],
        claims: over_seeds(claims),
        notes: notes(&all),
        data: json!({ "flows": all.iter().map(data).collect::<Vec<_>>() }),
    })
}

/// Returns the delays over UDP, TCP and Timeous.
fn delays(flows: &[Flow]) -> Result<[Delays; 3], LabError> {
    let all = Transport::ALL.map(|transport| Delays::new(transport, flows));
    match all.iter().all(|delays| delays.sent > 0) {
        true => Ok(all),
        false => Err(LabError::Machine("a flow is missing of which the experiment needs three".to_owned())),
    }
}

fn setup_of_ages() -> Vec<Choice> {
    vec![
        Choice::paper("beside the flow", "one long TCP flow", "§4.2"),
        Choice::paper("a packet every", "30 ms", "§4.2"),
        Choice::paper(
            "what is older is dead",
            "three intervals, 90 ms",
            "§4.2: by user_dead; here by the policy `age` at the instant of the pull",
        ),
    ]
}

fn claims([udp, tcp, timeous]: &[Delays; 3]) -> Vec<Claim> {
    let ratio = |a: f64, b: f64| a / b;
    let close = |percent| ratio(percentile(&timeous.end_to_end, percent), percentile(&udp.end_to_end, percent));
    let (median, p90) = (close(50), close(90));
    let average = ratio(mean(&tcp.end_to_end), mean(&timeous.end_to_end));
    let least = udp.end_to_end.first().copied().unwrap_or(f64::NAN);
    let faster = timeous.end_to_end.iter().filter(|&&delay| delay < least).count();
    let faster = 100.0 * faster as f64 / timeous.end_to_end.len() as f64;
    let dominates = ratio(mean(&tcp.in_sender), mean(&tcp.end_to_end));
    let (p99, udp_median) = (percentile(&timeous.end_to_end, 99), percentile(&udp.end_to_end, 50));
    vec![
        Claim::new("Timeous's median delay over UDP's", "“very close to UDP's”", format!("{median:.2}"), median)
            .pass(Bound::AtMost(1.1)),
        Claim::new("Timeous's 90th percentile over UDP's", "“very close to UDP's”", format!("{p90:.2}"), p90)
            .pass(Bound::AtMost(1.25)),
        Claim::new("TCP's average delay over Timeous's", "2", format!("{average:.1}"), average)
            .pass(Bound::AtLeast(2.0)),
        Claim::new("packets of Timeous that beat every packet of UDP, %", "about 40", format!("{faster:.0}"), faster)
            .pass(Bound::AtLeast(40.0)),
        Claim::new("in-sender delay in TCP's whole delay", "“dominates”", format!("{dominates:.2}"), dominates)
            .pass(Bound::AtLeast(0.5)),
        Claim::new(
            "Timeous's 99th percentile over UDP's median",
            "–",
            format!("{p99:.0} ms over {udp_median:.0} ms"),
            ratio(p99, udp_median),
        )
        .aim(Bound::AtMost(1.0)),
    ]
}

/// Returns notes: the reason for the aim, and facts that the table does not show.
fn notes([udp, tcp, timeous]: &[Delays; 3]) -> Vec<String> {
    let (p99, full) = (percentile(&timeous.under_way, 99), percentile(&udp.end_to_end, 50));
    let share = |delays: &Delays| 100.0 * delays.end_to_end.len() as f64 / udp.sent.max(1) as f64;
    vec![
        format!(
            "The aim, Timeous's 99th percentile below UDP's median, is out of reach of any choice in the sender: from the link \
             on alone that percentile is {p99:.0} ms, beside {full:.0} ms for all of UDP's way. UDP's median is the full queue; \
             and the TCP flow beside Timeous fills the same queue until it overflows, as loss-based control does."
        ),
        format!(
            "Of all packets due, {:.0} % arrived over Timeous and {:.0} % over TCP, each beside one long TCP flow: half of them fit.",
            share(timeous),
            share(tcp)
        ),
        "UDP's 1488 bytes each 30 ms are 99 % of the link. When the TCP flow beside it waits for its retransmission timer, \
         backed off, the queue drains by 8 ms a second: the least of UDP's delays is the longest such wait, and how many \
         packets of Timeous beat it differs by as much from seed to seed."
            .to_owned(),
    ]
}

fn table(title: &str, all: &[Delays], of: impl Fn(&Delays) -> &Vec<f64>) -> Table {
    let mut table = Table::new(
        title,
        &["flow", "sent", "arrived", "least", "p50", "p90", "p99", "most", "mean", "lost in the link"],
    );
    for delays in all {
        let values = of(delays);
        let ms = |value: f64| format!("{value:.0}");
        let percentiles = [50, 90, 99, 100].map(|percent| ms(percentile(values, percent)));
        let cells = [delays.transport.name().to_owned(), delays.sent.to_string(), delays.end_to_end.len().to_string()]
            .into_iter()
            .chain([ms(values.first().copied().unwrap_or(f64::NAN))])
            .chain(percentiles)
            .chain([ms(mean(values)), format!("{:.1} %", delays.link.loss())]);
        table.row(cells);
    }
    table
}

fn in_sender(all: &[Delays]) -> Table {
    let mut table = Table::new("In the sender, ms", &["flow", "came to the link", "p50", "p90", "p99", "most", "mean"]);
    for delays in all {
        let values = &delays.in_sender;
        let ms = |value: f64| format!("{value:.1}");
        let percentiles = [50, 90, 99, 100].map(|percent| ms(percentile(values, percent)));
        let names = [delays.transport.name().to_owned(), values.len().to_string()];
        table.row(names.into_iter().chain(percentiles).chain([ms(mean(values))]));
    }
    table
}

fn figure(title: &str, all: &[Delays], of: impl Fn(&Delays) -> &Vec<f64>) -> Result<Figure, LabError> {
    // The plot ends at the 95th percentile: a long tail would compress the rest.
    let end = all.iter().map(|delays| percentile(of(delays), 95)).fold(0.0, f64::max);
    let line = |delays: &Delays| {
        // A drawing shows a few hundred of thousands of steps.
        let values = of(delays);
        let steps = cumulative(values);
        let every = 2 * (values.len() / 250).max(1);
        let shown = steps.iter().step_by(every).chain(steps.last()).copied().take_while(|(ms, _)| *ms <= end);
        Series::new(delays.transport.name(), [(0.0, 0.0)].into_iter().chain(shown).collect())
    };
    let lines = Lines { title, x: "ms", y: "share of packets", series: all.iter().map(line).collect() };
    Ok(Figure::new(lines.draw()?, "Cumulative; the last twentieth of the slowest flow is left out of the drawing."))
}

/// Returns every percentile, rounded to the microsecond.
fn data(delays: &Delays) -> serde_json::Value {
    let rounded = |values: &[f64]| {
        let percentiles = (0..=100).map(|percent| percentile(values, percent));
        percentiles.map(|ms| (ms * 1e3).round() / 1e3).collect::<Vec<_>>()
    };
    json!({
        "transport": delays.transport,
        "sent": delays.sent,
        "arrived": delays.end_to_end.len(),
        "end_to_end_ms_percentiles": rounded(&delays.end_to_end),
        "in_sender_ms_percentiles": rounded(&delays.in_sender),
        "link_packets": delays.link.packets,
        "link_dropped": delays.link.dropped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(transport: Transport, in_sender: u64, whole: impl Fn(u64) -> u64) -> Flow {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let journey = |n| {
            let sent = 30 * n;
            PacketTimestamps { sent: at(sent), on_wire: Some(at(sent + in_sender)), arrived: Some(at(sent + whole(n))) }
        };
        Flow {
            transport,
            journeys: (0..1_000).map(journey).collect(),
            link: LinkPackets { packets: 1_000, dropped: 7 },
        }
    }

    fn verdicts(flows: &[Flow]) -> Vec<Option<bool>> {
        findings(&[flows.to_vec()], Vec::new()).unwrap().claims.iter().map(Claim::passes).collect()
    }

    #[test]
    fn the_papers_picture_passes_and_a_slow_timeous_does_not() {
        let udp = flow(Transport::Udp, 0, |_| 500);
        let tcp = flow(Transport::Tcp, 1_500, |_| 2_000);
        let good = flow(Transport::Timeous, 20, |n| if n % 2 == 0 { 480 } else { 510 });
        assert_eq!(verdicts(&[udp.clone(), tcp.clone(), good]), [[Some(true)].repeat(5), vec![None]].concat());
        let slow = flow(Transport::Timeous, 20, |_| 1_900);
        assert_eq!(verdicts(&[udp, tcp, slow])[..4], [Some(false); 4]);
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let flow = flow(Transport::Udp, 0, |n| if n < 334 { 9_000 } else { 100 });
        let delays = Delays::new(Transport::Udp, &[flow]);
        assert_eq!((delays.sent, percentile(&delays.end_to_end, 100)), (666, 100.0));
    }
}

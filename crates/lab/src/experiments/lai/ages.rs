//! Data age (Lai & Kohler §4.2, figures 9 and 10): age of packets at departure and on arrival.

use serde_json::json;
use timeous::core::{Duration, Instant};
use timeous_testbed::report::plot::{Series, cumulative};

use super::setup::{self, Transport, WARM_UP, over_seeds};
use crate::experiment::{Bound, Chart, Choice, Claim, Figure, Findings, Rows, RunError, Sorted, Table, setup};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
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

    /// Returns the share of dropped packets, in percent; NaN without packets.
    pub(crate) fn loss(self) -> f64 {
        100.0 * self.dropped as f64 / self.packets as f64
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

/// Bandwidth that counts as roughly the same. Chosen by us: half of the paper's factor between the delays.
const SAME_BANDWIDTH: Bound = Bound::Within(0.75, 1.33);

/// Delays of a transport's packets in milliseconds.
struct Delays {
    transport: Transport,
    sent: usize,
    in_sender: Sorted,
    end_to_end: Sorted,
    /// Delay from arrival at the link to delivery.
    under_way: Sorted,
    link: LinkPackets,
}

impl Delays {
    /// Collects the delays of all flows of a transport.
    fn new(transport: Transport, flows: &[Flow]) -> Self {
        let flows = || flows.iter().filter(|flow| flow.transport == transport);
        let counted =
            || flows().flat_map(|flow| &flow.journeys).filter(|journey| journey.sent >= Instant::ZERO + WARM_UP);
        let milliseconds = |time: Duration| time.as_nanos() as f64 / 1e6;
        let sorted = |delay: &dyn Fn(&PacketTimestamps) -> Option<Duration>| {
            counted().filter_map(delay).map(milliseconds).collect::<Sorted>()
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

/// Compares the paper's figures 9 and 10 with the results of each seed. `choices` are those of the
/// form that was run.
///
/// # Errors
/// [`RunError::Plot`] if nothing arrived.
pub(crate) fn findings(seeds: &[Vec<Flow>], choices: Vec<Choice>) -> Result<Findings, RunError> {
    let claims = seeds.iter().map(|flows| Ok(claims(&delays(flows)?))).collect::<Result<_, RunError>>()?;
    let all = delays(&seeds.concat())?;
    let setup = [setup::choices(), setup_of_ages(), choices].concat();
    Ok(Findings {
        setup,
        tables: vec![end_to_end(&all), in_sender(&all)],
        figures: vec![
            figure("End-to-end delay (figure 9)", &all, |delays| &delays.end_to_end)?,
            figure("In-sender delay (figure 10)", &all, |delays| &delays.in_sender)?,
        ],
        claims: over_seeds(claims),
        notes: notes(&all),
        data: json!({ "flows": all.iter().map(data).collect::<Vec<_>>() }),
    })
}

/// Returns the delays over UDP, TCP and Timeous, with a policy and with the application's own choice.
fn delays(flows: &[Flow]) -> Result<[Delays; 5], RunError> {
    let all = Transport::ALL.map(|transport| Delays::new(transport, flows));
    match all.iter().all(|delays| delays.sent > 0) {
        true => Ok(all),
        false => Err(RunError::Machine("a flow is missing of which the experiment needs five".to_owned())),
    }
}

fn setup_of_ages() -> Vec<Choice> {
    setup! {
        paper "beside the flow": "one long TCP flow" => "§4.2";
        paper "a packet every": "30 ms" => "§4.2";
        paper "what is older is dead": "three intervals, 90 ms"
            => "§4.2: by user_dead, as with the own choice here; and by the policy `age` at the instant of the pull";
        ours "what is overwritten": "the oldest packet beyond 90 ms, with the application's next one"
            => "§3.1: a packet that waits may be changed. The next packet takes the place of the stale one in front";
    }
}

/// Returns the claims about Timeous, with a policy or with the application's own choice.
fn claims_of([udp, tcp]: [&Delays; 2], timeous: &Delays) -> Vec<Claim> {
    let close = |percent| timeous.end_to_end.percentile(percent) / udp.end_to_end.percentile(percent);
    let average = tcp.end_to_end.mean() / timeous.end_to_end.mean();
    let least = udp.end_to_end.percentile(0.0);
    let faster = timeous.end_to_end.values().iter().filter(|&&delay| delay < least).count();
    let faster = 100.0 * faster as f64 / timeous.end_to_end.values().len() as f64;
    let bandwidth = timeous.end_to_end.values().len() as f64 / tcp.end_to_end.values().len() as f64;
    let near = "“very close to UDP's”";
    let of = match timeous.transport {
        Transport::Own => "own choice: ",
        Transport::Overwritten => "overwritten: ",
        _ => "",
    };
    let claim = |what: &str, paper, digits, value| Claim::number(format!("{of}{what}"), paper, digits, value);
    vec![
        claim("Timeous's median delay over UDP's", near, 2, close(50.0)).pass(..=1.1),
        claim("Timeous's 90th percentile over UDP's", near, 2, close(90.0)).pass(..=1.25),
        claim("TCP's average delay over Timeous's", "2", 1, average).pass(2.0..),
        claim("packets of Timeous that beat every packet of UDP, %", "about 40", 0, faster).pass(40.0..),
        claim("packets that arrive over Timeous for one over TCP", "“roughly the same bandwidth”", 2, bandwidth)
            .pass(SAME_BANDWIDTH),
    ]
}

fn claims([udp, tcp, timeous, own, overwritten]: &[Delays; 5]) -> Vec<Claim> {
    let dominates = tcp.in_sender.mean() / tcp.end_to_end.mean();
    let (p99, median) = (timeous.end_to_end.percentile(99.0), udp.end_to_end.percentile(50.0));
    let said = format!("{p99:.0} ms over {median:.0} ms");
    let beside = [
        Claim::number("in-sender delay in TCP's whole delay", "“dominates”", 2, dominates).pass(0.5..),
        Claim::new("Timeous's 99th percentile over UDP's median", "–", said, p99 / median).aim(..=1.0),
    ];
    let chosen = [timeous, own, overwritten].map(|timeous| claims_of([udp, tcp], timeous)).concat();
    [chosen, beside.to_vec()].concat()
}

/// Returns notes: the reason for the aim, and facts that the table does not show.
fn notes([udp, tcp, timeous, ..]: &[Delays; 5]) -> Vec<String> {
    let (p99, full) = (timeous.under_way.percentile(99.0), udp.end_to_end.percentile(50.0));
    let share = |delays: &Delays| 100.0 * delays.end_to_end.values().len() as f64 / udp.sent.max(1) as f64;
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

/// Adds a column for each of these percentiles, and the mean.
fn percentiles(rows: Rows<&Delays>, digits: usize, of: fn(&Delays) -> &Sorted) -> Rows<&Delays> {
    let heads = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("most", 100.0)];
    let rows = heads
        .into_iter()
        .fold(rows, |rows, (head, percent)| rows.number(head, digits, |delays| of(delays).percentile(percent)));
    rows.number("mean", digits, |delays| of(delays).mean())
}

fn end_to_end(all: &[Delays]) -> Table {
    let rows = Rows::of(all)
        .column("flow", |delays| delays.transport.name())
        .column("sent", |delays| delays.sent)
        .column("arrived", |delays| delays.end_to_end.values().len())
        .number("least", 0, |delays| delays.end_to_end.percentile(0.0));
    percentiles(rows, 0, |delays| &delays.end_to_end)
        .column("lost in the link", |delays| format!("{:.1} %", delays.link.loss()))
        .table("From application to application, ms")
}

fn in_sender(all: &[Delays]) -> Table {
    let rows = Rows::of(all)
        .column("flow", |delays| delays.transport.name())
        .column("came to the link", |delays| delays.in_sender.values().len());
    percentiles(rows, 1, |delays| &delays.in_sender).table("In the sender, ms")
}

fn figure(title: &str, all: &[Delays], of: impl Fn(&Delays) -> &Sorted) -> Result<Figure, RunError> {
    // The plot ends at the 95th percentile: a long tail would compress the rest.
    let end = all.iter().map(|delays| of(delays).percentile(95.0)).fold(0.0, f64::max);
    let line = |delays: &Delays| {
        // A drawing shows a few hundred of thousands of steps.
        let values = of(delays).values();
        let steps = cumulative(values);
        let every = 2 * (values.len() / 250).max(1);
        let shown = steps.iter().step_by(every).chain(steps.last()).copied().take_while(|(ms, _)| *ms <= end);
        Series::new(delays.transport.name(), [(0.0, 0.0)].into_iter().chain(shown).collect())
    };
    let caption = "Cumulative; the last twentieth of the slowest flow is left out of the drawing.";
    Chart { title, x: "ms", y: "share of packets", caption }.draw(all.iter().map(line))
}

/// Returns every percentile, rounded to the microsecond.
fn data(delays: &Delays) -> serde_json::Value {
    let rounded = |values: &Sorted| {
        let percentiles = (0..=100).map(|percent| values.percentile(f64::from(percent)));
        percentiles.map(|ms| (ms * 1e3).round() / 1e3).collect::<Vec<_>>()
    };
    json!({
        "transport": delays.transport,
        "sent": delays.sent,
        "arrived": delays.end_to_end.values().len(),
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
        let [own, overwritten] =
            [Transport::Own, Transport::Overwritten].map(|transport| Flow { transport, ..good.clone() });
        let all = [udp.clone(), tcp.clone(), good.clone(), own, overwritten.clone()];
        assert_eq!(verdicts(&all), [[Some(true)].repeat(16), vec![None]].concat());
        let slow = flow(Transport::Own, 20, |_| 1_900);
        assert_eq!(verdicts(&[udp, tcp, good, slow, overwritten])[5..9], [Some(false); 4]);
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let flow = flow(Transport::Udp, 0, |n| if n < 334 { 9_000 } else { 100 });
        let delays = Delays::new(Transport::Udp, &[flow]);
        assert_eq!((delays.sent, delays.end_to_end.percentile(100.0)), (666, 100.0));
    }
}

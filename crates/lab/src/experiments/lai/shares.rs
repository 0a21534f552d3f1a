//! Late data choice (Lai & Kohler §4.3, table 1): share of I-frames among the frames that arrive.

use serde_json::json;
use timeous::core::Duration;

use super::ages::LinkPackets;
use super::setup::{self, FRAME_INTERVALS, I_FRAME_EVERY, OF_FRAMES, RATE, Transport, over_seeds};
use crate::experiment::{Chart, Choice, Claim, Figure, Findings, Rows, RunError, cross, setup};

/// Results of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Share {
    /// Transport of the flow.
    pub(crate) transport: Transport,
    /// Packet interval.
    #[serde(serialize_with = "as_millis")]
    pub(crate) interval: Duration,
    /// Frames that arrived after the warm-up.
    pub(crate) received: u64,
    /// I-frames among them.
    pub(crate) i_received: u64,
    /// Packets at the link.
    pub(crate) link: LinkPackets,
}

fn as_millis<S: serde::Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(time.as_millis())
}

impl Share {
    /// Returns the paper's share and loss, in percent.
    fn reported(&self) -> (f64, f64) {
        let column = REPORTED.iter().find(|column| column.transport == self.transport);
        let row = FRAME_INTERVALS.iter().position(|&interval| interval == self.interval);
        let found = column.zip(row).map(|(column, row)| (column.share[row], column.loss[row]));
        found.unwrap_or((f64::NAN, f64::NAN))
    }

    fn percent(&self) -> f64 {
        100.0 * self.i_received as f64 / self.received as f64
    }
}

/// Column of table 1: share of I-frames and loss, in percent, at each interval.
struct PaperColumn {
    transport: Transport,
    share: [f64; 3],
    loss: [f64; 3],
}

const REPORTED: [PaperColumn; 4] = [
    PaperColumn { transport: Transport::Udp, share: [10.1, 10.1, 10.1], loss: [62.0, 37.0, 11.0] },
    PaperColumn { transport: Transport::Tcp, share: [10.0, 10.0, 10.0], loss: [1.2, 0.5, 0.6] },
    PaperColumn { transport: Transport::Timeous, share: [23.8, 12.8, 10.1], loss: [0.7, 0.5, 0.6] },
    PaperColumn { transport: Transport::Own, share: [23.8, 12.8, 10.1], loss: [0.7, 0.5, 0.6] },
];

/// Bytes of a Timeous packet with its IP, UDP and DCCP headers.
const ON_THE_WIRE: u64 = setup::SIZE as u64 + 20 + 8 + 16;

/// Returns the share if every I-frame arrives and the link is full, in percent.
fn most(interval: Duration) -> f64 {
    let fit = RATE.bytes_in(Duration::from_secs(1_000)) as f64 / 1e3 / ON_THE_WIRE as f64;
    let offered = 1.0 / interval.as_secs_f64();
    (100.0 * offered / I_FRAME_EVERY as f64 / fit).min(100.0)
}

/// Compares the paper's table 1 with the results of each seed. `choices` are those of the form that
/// was run.
///
/// # Errors
/// [`RunError::Plot`] if the figure cannot be drawn.
pub(crate) fn findings(seeds: &[Vec<Share>], choices: Vec<Choice>) -> Result<Findings, RunError> {
    let all = pooled(seeds);
    let table = Rows::of(&all)
        .column("packet every", |share| format!("{} ms", share.interval.as_millis()))
        .column("flow", |share| share.transport.name())
        .column("received", |share| share.received)
        .number("I-frames", 1, |share| share.percent())
        .number("paper", 1, |share| share.reported().0)
        .number("dropped", 1, |share| share.link.loss())
        .number("paper ", 1, |share| share.reported().1)
        .table("I-frames among the frames received, and packets dropped at the link; %");
    let timeous = |shares: &Vec<Share>| {
        let of = |transport| shares.iter().filter(move |share| share.transport == transport);
        of(Transport::Timeous).chain(of(Transport::Own)).flat_map(claims_of).collect()
    };
    Ok(Findings {
        setup: [setup::choices(), setup_of_shares(), choices].concat(),
        tables: vec![table],
        figures: vec![figure(&all)?],
        claims: over_seeds(seeds.iter().map(timeous).collect()),
        notes: Vec::new(),
        data: json!({ "flows": all }),
    })
}

/// Returns the results summed over all seeds, in the order of the table.
fn pooled(seeds: &[Vec<Share>]) -> Vec<Share> {
    let flows =
        FRAME_INTERVALS.into_iter().flat_map(|interval| REPORTED.map(|reported| (reported.transport, interval)));
    let sum = |(transport, interval)| {
        let same = |share: &&Share| (share.transport, share.interval) == (transport, interval);
        let sum = |sum: Share, share: &Share| Share {
            received: sum.received + share.received,
            i_received: sum.i_received + share.i_received,
            link: sum.link.and(share.link),
            ..sum
        };
        seeds.iter().flatten().filter(same).copied().reduce(|so_far, share| sum(so_far, &share))
    };
    flows.filter_map(sum).collect()
}

fn figure(all: &[Share]) -> Result<Figure, RunError> {
    let milliseconds = |interval: Duration| interval.as_millis() as f64;
    let of = |name: &str, interval, percent| (name.to_owned(), milliseconds(interval), percent);
    let flows = cross(OF_FRAMES, all.iter().collect::<Vec<_>>()).filter(|(transport, one)| one.transport == *transport);
    let flows = flows.map(|(transport, one)| of(transport.name(), one.interval, one.percent()));
    let fit = FRAME_INTERVALS.map(|interval| of("most that fits", interval, most(interval)));
    let caption = "A tenth of what is sent are I-frames. The line on top is the share if all of them arrive and the link is full.";
    Chart { title: "I-frames among the frames received", x: "a packet every, ms", y: "%", caption }.of(
        flows.chain(fit),
        |(name, ..)| name.clone(),
        |&(_, x, y)| (x, y),
    )
}

fn claims_of(share: &Share) -> [Claim; 2] {
    let (paper, paper_loss) = share.reported();
    let (every, most) = (share.interval.as_millis(), most(share.interval));
    let aim = (0.95 * most * 10.0).round() / 10.0;
    let of = if share.transport == Transport::Own { "own choice, " } else { "" };
    let frames = format!("{of}every {every} ms: I-frames of Timeous, % (at most {most:.1} fit)");
    let dropped = format!("{of}every {every} ms: packets of Timeous dropped at the link, %");
    [
        Claim::number(frames, &paper.to_string(), 1, share.percent()).pass(paper..).aim(aim..),
        Claim::number(dropped, &paper_loss.to_string(), 2, share.link.loss()).pass(..=1.0),
    ]
}

fn setup_of_shares() -> Vec<Choice> {
    setup! {
        paper "a packet every": "10, 20 and 25 ms" => "§4.3";
        paper "I-frames": "each tenth packet" => "§4.3: 10 % of the packets; a frame is a packet";
        ours "beside the flow": "nothing" => "§4.3 names no other flow, and its losses are those of a flow alone";
        paper "what is given up": "B and P first, at three or more queued"
            => "§4.3: by the application, as with the own choice here, which pulls back; and by the policy `frames` at the instant of the pull";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_what_experiments_say() {
        let most = FRAME_INTERVALS.map(most);
        for (found, said) in most.iter().zip([30.0, 15.0, 12.0]) {
            assert!((found - said).abs() < 0.5, "{most:?}");
        }
    }

    #[test]
    fn a_share_is_judged_by_the_papers() {
        let share = |i_received| Share {
            transport: Transport::Timeous,
            interval: FRAME_INTERVALS[0],
            received: 1_000,
            i_received,
            link: LinkPackets { packets: 1_000, dropped: 20 },
        };
        let verdicts =
            |i| findings(&[vec![share(i)]], Vec::new()).unwrap().claims.iter().map(Claim::passes).collect::<Vec<_>>();
        assert_eq!(verdicts(238), [Some(true), Some(false)]);
        assert_eq!(verdicts(237), [Some(false), Some(false)]);
    }
}

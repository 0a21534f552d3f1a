//! cm-api: cost of a packet with each API of the Congestion Manager (Andersen et al. §4.2, figure 6
//! and table 1).

mod alf;
mod buffered;
pub(crate) mod client;
mod counted;
mod method;
mod trial;

use method::{ManagerPlacement, SendMethod};
use serde_json::json;
use trial::{Cost, TestNetwork};

use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Rows, Run, RunError, Sorted, Table, cross, setup,
};

/// Packet sizes in bytes.
const SIZES: [usize; 4] = [168, 400, 800, 1_400];
/// Rounds per packet size; each round runs every way once, in turn.
const ROUNDS: usize = 10;
/// Packets per way and round.
const PACKETS: u64 = 20_000;

/// Costs of one round, in the order of [`SendMethod::ALL`].
type Round = [Cost; SendMethod::ALL.len()];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-api",
    title: "What a packet costs by each way to use the Congestion Manager",
    source: "Andersen et al. §4.2, figure 6 and table 1",
    paper: "worst is ALF/noconnect with 168 bytes: 25 % less throughput than TCP/CM without delayed acknowledgements",
    forms: Forms::Real,
    seeds: 1,
    takes: "real 80 s, as root; TCP/CM if built with the feature bpf",
    sabotages: &[counted::RETURNED],
    run,
};

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let counted = counted::measure(run)?;
    let counts = Findings {
        tables: vec![counted::table(&counted)],
        claims: counted::claims(&counted),
        setup: counted::choices(),
        data: json!({ "counted": counted }),
        ..Findings::default()
    };
    if run.extent == Extent::Least {
        return Ok(counts);
    }
    let (network, without) = TestNetwork::make()?;
    let of_size = |size: usize| {
        let rounds =
            run.rounds(&format!("{size} bytes"), ROUNDS, SendMethod::ALL, |way| network.run(way, size, PACKETS));
        Ok(Measured { size, rounds: rounds? })
    };
    let measured = SIZES.into_iter().map(of_size).collect::<Result<Vec<_>, RunError>>()?;
    findings(&measured, without, counts)
}

/// All rounds of one packet size.
struct Measured {
    size: usize,
    rounds: Vec<Round>,
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        self.rounds.iter().map(of).collect::<Sorted>().median()
    }

    fn of(&self, way: SendMethod, cost: impl Fn(&Cost) -> f64) -> f64 {
        self.median(|round| cost(&round[way.index()]))
    }

    /// Returns the median over the rounds of one way's cost divided by another's.
    fn ratio(&self, way: SendMethod, over: SendMethod, cost: impl Fn(&Cost) -> f64) -> f64 {
        self.median(|round| cost(&round[way.index()]) / cost(&round[over.index()]))
    }

    /// Returns the throughput lost against TCP/CM nodelay, in percent.
    fn reduction(&self, way: SendMethod) -> f64 {
        100.0 * (1.0 - self.ratio(SendMethod::NODELAY, way, Cost::wall))
    }

    fn cheapest(&self) -> SendMethod {
        let least = |a: &SendMethod, b: &SendMethod| self.of(*a, Cost::cpu).total_cmp(&self.of(*b, Cost::cpu));
        SendMethod::ALL.into_iter().min_by(least).expect("there are some")
    }

    /// Returns the processor time beyond the cheapest way's, in percent.
    fn excess(&self, way: SendMethod) -> f64 {
        100.0 * (self.ratio(way, self.cheapest(), Cost::cpu) - 1.0)
    }

    fn table(&self) -> Table {
        Rows::of(SendMethod::ALL)
            .column("way", SendMethod::to_string)
            .number("packets/s", 0, |&way| 1e6 / self.of(way, Cost::wall))
            .number("µs", 2, |&way| self.of(way, Cost::wall))
            .number("CPU of the sender, µs", 2, |&way| self.of(way, |cost| cost.each(cost.sender)))
            .number("of the daemon, µs", 2, |&way| self.of(way, |cost| cost.each(cost.daemon)))
            .column("throughput", |&way| format!("{:+.1} %", -self.reduction(way)))
            .column("CPU", |&way| format!("{:+.1} %", self.excess(way)))
            .table(&format!("{} bytes: medians of the rounds; ratios are of one round", self.size))
    }

    fn data(&self) -> serde_json::Value {
        let cost =
            |cost: &Cost| json!([cost.each(cost.took), cost.each(cost.sender), cost.each(cost.daemon), cost.lost]);
        let rounds: Vec<_> = self.rounds.iter().map(|round| round.each_ref().map(cost)).collect();
        json!({ "size": self.size, "rounds": rounds })
    }
}

/// Returns the largest value over all ways at `place` and all sizes, and the name of that way and
/// size.
fn worst(measured: &[Measured], place: ManagerPlacement, of: fn(&Measured, SendMethod) -> f64) -> (f64, String) {
    let all = measured.iter().flat_map(|sized| SendMethod::of(place).map(move |way| (of(sized, way), way, sized.size)));
    let (value, way, size) = all.max_by(|a, b| a.0.total_cmp(&b.0)).expect("something was measured");
    (value, format!("{value:.1}: {way}, {size} bytes"))
}

fn findings(measured: &[Measured], without: Option<String>, counts: Findings) -> Result<Findings, RunError> {
    let lost: u64 = measured.iter().flat_map(|sized| sized.rounds.iter().flatten()).map(|cost| cost.lost).sum();
    let mut claims = Vec::new();
    for (place, name) in [(ManagerPlacement::InProcess, "in process"), (ManagerPlacement::Daemon, "through the daemon")]
    {
        let (reduction, at) = worst(measured, place, Measured::reduction);
        let what = format!("{name}: throughput lost at worst against TCP/CM nodelay, %");
        claims.push(Claim::new(what, "25 at 168 bytes", at, reduction).pass(..=25.0));
        let (excess, at) = worst(measured, place, Measured::excess);
        let what = format!("{name}: processor time at worst beyond the cheapest, %");
        claims.push(Claim::new(what, "", at, excess).aim(..=5.0));
    }
    claims.push(Claim::count("packets lost", "0", lost).pass(..=0.0));
    let figure = |title: &'static str, place: ManagerPlacement| {
        let ways = SendMethod::of(place).chain([SendMethod::NODELAY, SendMethod::Tcp { nodelay: false }]);
        let caption = "From packet to packet, acknowledgement included. Medians.";
        let points = cross(ways, measured.iter().collect::<Vec<_>>());
        Chart { title, x: "packet, bytes", y: "µs", caption }.of(
            points,
            |(way, _)| way.to_string(),
            |&(way, sized)| (sized.size as f64, sized.of(way, Cost::wall)),
        )
    };
    let notes = without.map(|why| format!("TCP is the kernel's plain Reno, not under the Congestion Manager: {why}"));
    Ok(Findings {
        tables: measured.iter().map(Measured::table).chain(counts.tables).collect(),
        claims: [claims, counts.claims].concat(),
        setup: [choices(), counts.setup].concat(),
        figures: vec![
            figure("Time of a packet, in process (figure 6)", ManagerPlacement::InProcess)?,
            figure("Time of a packet, through the daemon (figure 6)", ManagerPlacement::Daemon)?,
        ],
        notes: notes.into_iter().collect(),
        data: json!({
            "ways": SendMethod::ALL.map(|way| way.to_string()),
            "wall_sender_daemon_lost": measured.iter().map(Measured::data).collect::<Vec<_>>(),
            "counts": counts.data["counted"],
        }),
    })
}

fn choices() -> Vec<Choice> {
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    setup! {
        paper "packets": "{} of each size by each way", ROUNDS as u64 * PACKETS => "figure 6";
        paper "sizes": "{sizes} bytes" => "figure 6: from 168 to 1400; those between are ours";
        paper "TCP": "segments of the packets' size; after each write a look at the socket" => "§4.2";
        paper "acknowledgements": "for each packet; of TCP/CM, as TCP delays them" => "§4.2";
        ours "at once": "the receiver's route says quickack" => "so Linux turns delayed acknowledgements off";
        ours "look": "poll() of one descriptor"
            => "instead of select(): the same for one descriptor, and safe to call from Rust";
        ours "rounds": "{ROUNDS} of {PACKETS} packets"
            => "each of all ways, in turn; ratios are of one round, and their median counts";
        ours "path": "a veth pair between two namespaces, without segmentation offload; room for all packets of a \
            round" => "the paper's had 100 Mbit/s and no losses; here the processors are the limit. Each packet goes \
            by itself, so that counts are identical";
        ours "processors": "one for the sender, one for the receiver; the daemon and the engine's thread where there \
            is room" => "this process is the sender and the receiver, whose thread's time is not counted";
        ours "CPU": "of the sender's process and of the daemon's"
            => "with what the kernel does in their names: on a veth pair, that is also the way up to the receiver's \
            socket";
        ours "ALF": "up to 64 requests wait; one call for each request, notice, and update"
            => "the worst case of §4.2: nothing is done for several packets at once";
        ours "notices": "by ALF and by ALF/noconnect" => "the paper's kernel knows of what leaves by a connected \
            socket; ours does not, so that they differ by the address alone";
    }
}

//! Tests of both halves of TFRC over a path, in virtual time.

use std::collections::BTreeMap;

use timeous_cm::tfrc::{Arrival, Feedback, Receiver, Report, Sender, Settings, equation};
use timeous_core::{Duration, Instant, Rate};

const SEGMENT: u64 = 1_000;
const ONE_WAY: Duration = Duration::from_millis(40);

enum Event {
    Wake,
    Arrives { seq: u64, rtt: Option<Duration> },
    ReceiverWakes,
    Feedback(Feedback),
}

/// Bottleneck with a queue, with additional losses by a rule.
struct World {
    sender: Sender,
    receiver: Receiver,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    link: Rate,
    queue: u64,
    busy_until: Instant,
    lose: fn(u64) -> bool,
    sent_at: Vec<Instant>,
    /// Next wake-up of either half.
    wakes: [Option<Instant>; 2],
    /// X at each feedback.
    rates: Vec<(Instant, Rate)>,
    arrived: u64,
}

impl World {
    fn new(link: Rate, queue: u64, lose: fn(u64) -> bool) -> Self {
        let mut world = Self {
            sender: Sender::new(Settings::for_segment(SEGMENT)),
            receiver: Receiver::new(),
            events: BTreeMap::new(),
            count: 0,
            link,
            queue,
            busy_until: Instant::ZERO,
            lose,
            sent_at: Vec::new(),
            wakes: [None; 2],
            rates: Vec::new(),
            arrived: 0,
        };
        world.at(Instant::ZERO, Event::Wake);
        world
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.count += 1;
        self.events.insert((when, self.count), event);
    }

    fn run(&mut self, until: Instant) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > until {
                return;
            }
            let ((now, _), event) = entry.remove_entry();
            self.happens(now, event);
        }
    }

    fn happens(&mut self, now: Instant, event: Event) {
        match event {
            Event::Wake => {
                self.wakes[0] = self.wakes[0].filter(|&due| due > now);
                self.sender.on_timeout(now);
                self.send(now);
            }
            Event::Arrives { seq, rtt } => {
                self.arrived += 1;
                let told = self.receiver.on_packet(now, Arrival { seq, bytes: SEGMENT, marked: false, rtt });
                self.answer(now, told);
            }
            Event::ReceiverWakes => {
                self.wakes[1] = self.wakes[1].filter(|&due| due > now);
                let told = self.receiver.on_timeout(now);
                self.answer(now, told);
            }
            Event::Feedback(feedback) => {
                let report = Report::of(&feedback, self.sent_at[feedback.last as usize]);
                self.sender.on_feedback(now, report).unwrap();
                self.rates.push((now, self.sender.rate()));
                self.send(now);
            }
        }
    }

    fn answer(&mut self, now: Instant, told: Option<Feedback>) {
        if let Some(feedback) = told {
            self.at(now + ONE_WAY, Event::Feedback(feedback));
        }
        self.wake(1, self.receiver.poll_timeout());
    }

    /// Wakes one half at `due`, unless it is woken earlier.
    fn wake(&mut self, half: usize, due: Option<Instant>) {
        let Some(due) = due.filter(|&due| self.wakes[half].is_none_or(|sooner| due < sooner)) else { return };
        self.wakes[half] = Some(due);
        self.at(due, if half == 0 { Event::Wake } else { Event::ReceiverWakes });
    }

    fn send(&mut self, now: Instant) {
        while self.sender.may_send(now) {
            let seq = self.sent_at.len() as u64;
            self.sent_at.push(now);
            self.sender.on_sent(now, SEGMENT);
            let waiting = self.link.bytes_in(self.busy_until.saturating_since(now)) / SEGMENT;
            if waiting < self.queue && !(self.lose)(seq) {
                self.busy_until = self.busy_until.max(now) + self.link.time_for(SEGMENT);
                let rtt = self.sender.rtt();
                self.at(self.busy_until + ONE_WAY, Event::Arrives { seq, rtt });
            }
        }
        self.wake(0, self.sender.next().into_iter().chain(self.sender.poll_timeout()).min());
    }
}

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

#[test]
fn at_a_regular_loss_the_rate_is_the_equation_s() {
    for (every, lose) in [(50_u64, (|seq| seq % 50 == 49) as fn(u64) -> bool), (400, |seq| seq % 400 == 399)] {
        let mut world = World::new(Rate::from_bps(1 << 32), 1_000, lose);
        world.run(at(120));
        let wanted = equation::rate(SEGMENT, ONE_WAY * 2, 1.0 / every as f64).as_bps() as f64;
        let late = world.rates.iter().filter(|(now, _)| *now > at(30)).map(|(_, rate)| rate.as_bps() as f64);
        let rates: Vec<f64> = late.collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((mean / wanted - 1.0).abs() < 0.05, "1 in {every}: {mean}, not {wanted}");
    }
}

#[test]
fn a_bottleneck_is_used_and_the_rate_is_smooth() {
    let link = Rate::from_kbps(2_000);
    let mut world = World::new(link, 25, |_| false);
    world.run(at(20));
    let before = world.arrived;
    world.run(at(120));
    let used = (world.arrived - before) as f64 * SEGMENT as f64 / link.bytes_in(Duration::from_secs(100)) as f64;
    assert!(used > 0.85 && used < 1.01, "{used}");
    let rates: Vec<u64> = world.rates.iter().filter(|(now, _)| *now > at(20)).map(|(_, rate)| rate.as_bps()).collect();
    assert!(rates.windows(2).all(|pair| pair[1] * 2 > pair[0]), "never halved at once, as TCP's is");
    assert!(world.receiver.loss_event_rate() < 0.05);
}

#[test]
fn when_the_path_falls_silent_the_rate_goes_down_to_a_packet_in_64_seconds() {
    let mut world = World::new(Rate::from_kbps(2_000), 25, |_| false);
    world.run(at(20));
    world.lose = |_| true;
    world.run(at(2_000));
    assert_eq!(world.sender.rate(), Rate::from_bps(SEGMENT * 8 / 64));
    let silent = world.sent_at.iter().filter(|&&sent| sent > at(1_000)).count();
    assert!((14..=17).contains(&silent), "{silent} in a thousand seconds");
    // Packets that arrive now are acknowledged, and the rate recovers.
    world.lose = |_| false;
    world.run(at(2_200));
    assert!(world.sender.rate() > Rate::from_kbps(50), "{}", world.sender.rate());
}

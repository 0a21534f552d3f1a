//! A sender over an imagined path: each packet arrives, and its acknowledgement is there a round trip later.

use std::collections::VecDeque;

use timeous_cm::Update;
use timeous_core::{Duration, Instant};
use timeous_engine::clock;
use timeous_ipc::{Client, ClientError, Event, Flow};

/// The round trip of the path. It loses nothing, and is as wide as the bottleneck below.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Bytes that the path carries in a millisecond: 8 Mbit/s.
const BYTES_A_MILLISECOND: u64 = 1_000;
/// Bytes of a packet.
const PACKET: u64 = 1_000;

pub(crate) struct Sender<'a> {
    client: &'a mut Client,
    /// Packets on their way: whose, when they were sent, and when their acknowledgement is back.
    under_way: VecDeque<(Flow, Instant, Instant)>,
    /// When the bottleneck is free again.
    free: Instant,
    arrived: u64,
    /// When something arrived last, and the longest time in which nothing did.
    heard: Instant,
    longest: Duration,
    /// Claimed share of each packet that arrived, in thousandths.
    claim: u64,
    pub(crate) lost: bool,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(client: &'a mut Client, flows: &[Flow], claim: u64) -> Self {
        for &flow in flows {
            client.request_many(flow, 2).unwrap();
        }
        let now = clock::now();
        let (under_way, longest) = (VecDeque::new(), Duration::ZERO);
        Self { client, under_way, free: now, arrived: 0, heard: now, longest, claim, lost: false }
    }

    /// Bytes that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The longest time in which nothing arrived.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.longest
    }

    /// Sends until then, or until the daemon is lost.
    pub(crate) fn run(&mut self, until: Instant) {
        loop {
            while let Some(event) = self.client.poll_event() {
                match event {
                    Event::Granted(flow) => self.send(flow),
                    // It came too late for the grant: the next one is asked for.
                    Event::Refused { flow, .. } => self.submit(|client| client.request(flow)),
                    Event::Disconnected(_) => self.lost = true,
                    _ => {}
                }
            }
            self.hear();
            let now = clock::now();
            if self.lost || now >= until {
                return;
            }
            let next = self.under_way.front().map_or(until, |&(.., back)| back.min(until));
            self.client.wait(Some(next));
        }
    }

    fn send(&mut self, flow: Flow) {
        let now = clock::now();
        self.free = self.free.max(now) + Duration::from_micros(PACKET * 1_000 / BYTES_A_MILLISECOND);
        self.under_way.push_back((flow, now, self.free + ROUND_TRIP));
        self.submit(|client| client.notify(flow, PACKET));
        self.submit(|client| client.request(flow));
    }

    fn hear(&mut self) {
        let now = clock::now();
        while let Some(&(flow, sent, back)) = self.under_way.front()
            && back <= now
        {
            self.under_way.pop_front();
            self.arrived += PACKET;
            self.longest = self.longest.max(now.saturating_since(self.heard));
            self.heard = now;
            let update = Update {
                acked: PACKET * self.claim / 1_000,
                rtt: Some(now.saturating_since(sent)),
                ..Update::default()
            };
            self.submit(|client| client.update(flow, update));
        }
    }

    /// A queue that is full is waited for.
    fn submit(&mut self, mut submit: impl FnMut(&mut Client) -> Result<(), ClientError>) {
        let end = clock::now() + crate::support::PATIENCE;
        loop {
            match submit(self.client) {
                Ok(()) => return,
                Err(ClientError::Full) if clock::now() < end => {
                    self.client.wait(Some(clock::now() + Duration::from_millis(1)));
                }
                Err(ClientError::Disconnected | ClientError::Gone) => {
                    self.lost = true;
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

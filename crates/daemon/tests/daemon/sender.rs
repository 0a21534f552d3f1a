//! Test sender over a simulated path: each packet arrives, and is acknowledged an RTT later.

use std::collections::VecDeque;

use timeous_cm::Update;
use timeous_core::{Duration, Instant};
use timeous_engine::clock;
use timeous_ipc::{Client, ClientError, Event, Flow, Refusal};

/// RTT of the path, which has no loss and the bottleneck's rate below.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Rate of the path in bytes per millisecond: 8 Mbit/s.
const BYTES_A_MILLISECOND: u64 = 1_000;
/// Size of a packet in bytes.
const PACKET: u64 = 1_000;

pub(crate) struct Sender<'a> {
    client: &'a mut Client,
    /// Packets in flight: flow, send time, and time of the acknowledgement.
    under_way: VecDeque<(Flow, Instant, Instant)>,
    /// Time at which the bottleneck is idle again.
    free: Instant,
    arrived: u64,
    /// Time of the last arrival, and the longest time without one, both of the time in [`run`](Self::run) only.
    heard: Instant,
    longest: Duration,
    /// End of the last run.
    left: Instant,
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
        Self { client, under_way, free: now, arrived: 0, heard: now, longest, left: now, claim, lost: false }
    }

    /// Returns the number of bytes that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the longest time without an arrival.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.longest
    }

    /// Sends until `until`, or until the connection to the daemon is lost.
    pub(crate) fn run(&mut self, until: Instant) {
        self.heard += clock::now().saturating_since(self.left);
        loop {
            while let Some(event) = self.client.poll_event() {
                match event {
                    Event::Granted(flow) => self.send(flow),
                    // Too late for the grant, but the packet has left.
                    Event::Refused { flow, why: Refusal::NotGranted, value } => {
                        self.submit(|client| client.notify_unasked(flow, value));
                        self.submit(|client| client.request(flow));
                    }
                    Event::Refused { flow, .. } => self.submit(|client| client.request(flow)),
                    Event::Disconnected(_) => self.lost = true,
                    _ => {}
                }
            }
            self.hear();
            let now = clock::now();
            if self.lost || now >= until {
                self.left = now;
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

    /// Submits; waits while the queue is full.
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

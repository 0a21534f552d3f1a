//! Far end of all flows, which counts and acknowledges each packet, and the optional link before
//! it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use timeous::clock;
use timeous::cm::Acks;
use timeous::core::{Duration, Instant};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator, Relay, RelayConfig, Stop, Stopper};
use timeous_testbed::machine::machine;

use super::messages;
use crate::experiment::RunError;

/// Interval between checks of the stop flag.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Observations of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FlowStats {
    pub(crate) bytes: u64,
    /// Longest time between two packets.
    pub(crate) gap: Duration,
    last: Option<Instant>,
}

type Flows = Arc<Mutex<BTreeMap<u32, (Acks, FlowStats)>>>;

/// Far end, at one port of all loopback addresses.
pub(crate) struct FeedbackReceiver {
    port: u16,
    flows: Flows,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FeedbackReceiver {
    pub(crate) fn start() -> Result<Self, RunError> {
        let open = || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(LOOK))?;
            Ok((socket.local_addr()?.port(), socket))
        };
        let (port, socket) = open().map_err(RunError::system("open a UDP socket"))?;
        let (flows, over) = (Flows::default(), Arc::new(AtomicBool::new(false)));
        let (own, end) = (flows.clone(), over.clone());
        let thread = Some(std::thread::spawn(move || answer(&socket, &own, &end)));
        Ok(Self { port, flows, over, thread })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the observations of each flow since the last call.
    pub(crate) fn take(&self) -> BTreeMap<u32, FlowStats> {
        let mut flows = self.flows.lock().expect("nobody panics while holding it");
        let now = clock::now();
        let take = |seen: &mut FlowStats| {
            // The current silence counts as a gap, too.
            let open = seen.last.map_or(Duration::ZERO, |last| now.saturating_since(last));
            let taken = FlowStats { gap: seen.gap.max(open), ..*seen };
            *seen = FlowStats { last: seen.last.map(|_| now), ..FlowStats::default() };
            taken
        };
        flows.iter_mut().map(|(&flow, (_, seen))| (flow, take(seen))).collect()
    }
}

impl Drop for FeedbackReceiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics only while it holds data that is no longer needed.
            let _ = thread.join();
        }
    }
}

fn answer(socket: &UdpSocket, flows: &Flows, over: &AtomicBool) {
    let mut room = [0; 2_048];
    while !over.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut room) else { continue };
        let Some((flow, number)) = messages::read(&room[..len]) else { continue };
        let now = clock::now();
        let ack = {
            let mut flows = flows.lock().expect("nobody panics while holding it");
            let (acks, seen) =
                flows.entry(flow).or_insert_with(|| (Acks::every(1, Duration::ZERO), FlowStats::default()));
            seen.bytes += len as u64;
            seen.gap = seen.gap.max(seen.last.map_or(Duration::ZERO, |last| now.saturating_since(last)));
            seen.last = Some(now);
            acks.received(now, number);
            acks.poll_ack(now)
        };
        if let Some(ack) = ack {
            // A killed client receives no acknowledgement.
            let _ = socket.send_to(&messages::back(flow, &ack.encode()), from);
        }
    }
}

/// Link to a far end, in a thread of its own.
pub(crate) struct Wire {
    port: u16,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    pub(crate) fn start(
        far: &FeedbackReceiver,
        forward: LinkConfig,
        back: LinkConfig,
        seed: u64,
    ) -> Result<Self, RunError> {
        let (any, target) = (SocketAddr::from(([0, 0, 0, 0], 0)), SocketAddr::from(([127, 0, 0, 1], far.port)));
        let config = RelayConfig { forward, back, seed, max_clients: 1_024, ..RelayConfig::new(any, target) };
        let mut relay = Relay::bind(config).map_err(machine)?;
        let stop = Stop::new().map_err(RunError::system("start a link"))?;
        let stopper = stop.stopper().map_err(RunError::system("start a link"))?;
        let port = relay.local_addr().port();
        let carry = move || {
            let end = relay.now() + Duration::from_secs(3_600);
            // A failed link is a path without delivery: the measurements show it.
            let _: Result<_, _> = relay.run_until(end, &stop).map_err(|error| eprintln!("the link: {error}"));
        };
        Ok(Self { port, stopper, thread: Some(std::thread::spawn(carry)) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // It does not panic; otherwise it merely carries nothing.
            let _ = thread.join();
        }
    }
}

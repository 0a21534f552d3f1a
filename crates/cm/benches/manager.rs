//! Benchmarks of the manager: calls per second, the full path of a packet, grants with 1 000 flows in 100 macroflows
//! waiting, and memory per flow.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::time::{ClockId, clock_gettime};
use timeous_cm::{ClientEvent, FlowId, FlowSpec, Kind, Manager, Update};
use timeous_core::{Duration, Instant};

/// Allocator that counts held bytes and allocations.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MTU: u64 = 1_200;
const RTT: Duration = Duration::from_millis(20);
const FLOWS: usize = 1_000;
const MACROFLOWS: u32 = 100;
const CLIENTS: usize = 8;

fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Prints the best of five runs: nanoseconds per turn, and allocations per thousand turns.
fn measure(name: &str, turns: u32, mut turn: impl FnMut()) {
    (0..turns / 10).for_each(|_| turn());
    let mut best = f64::INFINITY;
    let calls = CALLS.load(Ordering::Relaxed);
    for _ in 0..5 {
        let began = computed();
        (0..turns).for_each(|_| turn());
        best = best.min((computed() - began) * 1e9 / f64::from(turns));
    }
    let calls = (CALLS.load(Ordering::Relaxed) - calls) as f64 / f64::from(5 * turns);
    println!("{name:<44}{best:>8.1} ns{:>9.2} M/s{:>8.3} allocations", 1e3 / best, calls);
}

fn destination(n: u32) -> timeous_cm::Destination {
    IpAddr::from((0x0a00_0000 + n).to_be_bytes()).into()
}

/// Measures all calls for one flow.
fn verbs() {
    let mut cm = Manager::new(Kind::NewReno.constructor());
    let flow = cm.open(destination(1), MTU);
    let mut now = Instant::ZERO;
    let update = Update { acked: MTU, rtt: Some(RTT), recovering: true, ..Update::default() };
    measure("a packet: ask, notify, update", 1_000_000, || {
        now += RTT;
        assert!(cm.ask(now, flow).is_ok_and(|path| path.is_some()));
        cm.notify(now, flow, MTU).expect("it was granted");
        cm.update(now, flow, update).expect("it was sent");
    });
    measure("a packet: request, poll, notify, update", 1_000_000, || {
        now += RTT;
        cm.request(now, flow).expect("it is open");
        assert_eq!(cm.poll_granted(), Some(flow));
        cm.notify(now, flow, MTU).expect("it was granted");
        cm.update(now, flow, update).expect("it was sent");
    });
    measure("query", 1_000_000, || {
        std::hint::black_box(cm.query(flow)).expect("it is open");
    });
    measure("request and notify(0)", 1_000_000, || {
        cm.request(now, flow).expect("it is open");
        cm.notify(now, flow, 0).expect("it was granted");
    });
    measure("update of a round trip", 1_000_000, || {
        cm.update(now, flow, Update { rtt: Some(RTT), ..Update::default() }).expect("it can be true");
    });
    measure("thresh", 1_000_000, || cm.thresh(flow, 0.5, 2.0).expect("it is open"));
    measure("open and close", 100_000, || {
        let flow = cm.open(destination(1), MTU);
        cm.close(now, flow).expect("it is open");
    });
}

/// Measures many flows of several clients, each with waiting requests all the time.
fn crowd(thresholds: bool) {
    let held = HELD.load(Ordering::Relaxed);
    let mut cm = Manager::new(Kind::NewReno.constructor());
    let clients: Vec<_> = (0..CLIENTS).map(|_| cm.join()).collect();
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let flows: Vec<FlowId> = (0..FLOWS)
        .map(|n| {
            let spec = FlowSpec::to(destination(n as u32 % MACROFLOWS), MTU);
            cm.open_for(now, clients[n % CLIENTS], spec).expect("a client that has joined")
        })
        .collect();
    for &flow in &flows {
        if thresholds {
            cm.thresh(flow, 0.5, 2.0).expect("it is open");
        }
        cm.request_many(now, flow, 8).expect("it is open");
    }
    let memory = (HELD.load(Ordering::Relaxed) - held) / FLOWS;
    let mut sent = std::collections::VecDeque::with_capacity(4 * FLOWS);
    let name = if thresholds { "a grant among 1000 flows with thresholds" } else { "a grant among 1000 flows" };
    measure(name, 500_000, || {
        loop {
            let granted = clients.iter().find_map(|&client| cm.poll_client(client));
            match granted {
                Some(ClientEvent::Granted(flow)) => {
                    cm.notify(now, flow, MTU).expect("it was granted");
                    cm.request(now, flow).expect("it is open");
                    sent.push_back(flow);
                    return;
                }
                Some(ClientEvent::Changed(..)) => {}
                None => {
                    now += Duration::from_micros(10);
                    if cm.poll_timeout().is_some_and(|due| due <= now) {
                        cm.handle_timeout(now);
                    }
                    let flow = sent.pop_front().expect("something is under way");
                    let update = Update { acked: MTU, rtt: Some(RTT), recovering: true, ..Update::default() };
                    cm.update(now, flow, update).expect("it was sent");
                }
            }
        }
    });
    println!("{:<44}{memory:>8} bytes", "a flow, its share of its macroflow included");
    println!("{:<44}{:>8} bytes", "a snapshot of them all, held while it is looked at", {
        let held = HELD.load(Ordering::Relaxed);
        let snapshot = cm.snapshot();
        let size = HELD.load(Ordering::Relaxed) - held;
        drop(snapshot);
        size
    });
}

fn main() {
    verbs();
    crowd(false);
    crowd(true);
}

//! Shared support of runs on this machine: time, processors, links, connections, captures.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpCongestion, TcpMaxSeg};
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::thread::{
    ClockId, CpuSet, Timespec, clock_nanosleep_absolute, nanosleep, sched_getaffinity, sched_setaffinity,
};
use timeous_core::{Duration, Instant};
use timeous_engine::{Status, Stream, clock};
use timeous_net::capture::Interface;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::{Counters, Direction};

use crate::error::RunError;

/// Socket timeout, after which a thread checks whether to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);
/// Bytes of one write or read of a greedy flow.
const CHUNK: usize = 16 << 10;

/// Converts an error whose text says what the machine lacks and how to fix it.
pub fn machine(error: impl std::fmt::Display) -> RunError {
    RunError::Machine(error.to_string())
}

/// Returns the error for a connection without an answer.
pub fn no_connection() -> RunError {
    machine("nobody answered at the other end of the link: is a firewall between the namespaces?")
}

/// Waits until a stream is open.
///
/// # Errors
/// It does not open in time.
pub fn opened(stream: &mut Stream, patience: Duration) -> Result<(), RunError> {
    let end = clock::now() + patience;
    while stream.status() == Status::Connecting && clock::now() < end {
        stream.sending().wait(Some(end));
    }
    if stream.status() == Status::Open { Ok(()) } else { Err(no_connection()) }
}

/// Returns a time as the kernel's.
pub fn timespec(time: Duration) -> Timespec {
    let nanos = time.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ }
}

/// Sleeps until `at` by the engine's clock. An interrupted sleep is harmless: the actual time of
/// what follows is recorded.
pub fn sleep_until(at: Instant) {
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at.saturating_since(Instant::ZERO)));
}

/// Sleeps for `time`. No signal interrupts it; a shorter time would be measured as such.
pub fn sleep(time: Duration) {
    let _ = nanosleep(&timespec(time));
}

/// Returns the processors of a sender and a receiver, where this process may use as many.
pub fn two_processors() -> [Option<usize>; 2] {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    [allowed.next(), allowed.next()]
}

/// Keeps this thread on a processor.
pub fn stay_on(processor: Option<usize>) {
    if let Some(processor) = processor {
        let mut set = CpuSet::new();
        set.set(processor);
        // Failure is harmless: pinning only makes results steadier.
        let _ = sched_setaffinity(None, &set);
    }
}

/// Emulated link between two namespaces, run by a thread of its own; dropping ends it.
pub struct RunningLink {
    stopper: Stopper,
    router: Option<JoinHandle<Result<Router, EmulatorError>>>,
}

impl RunningLink {
    /// Builds the link, and starts it.
    pub fn start(config: RouterConfig) -> Result<Self, RunError> {
        let mut router = Router::open(config).map_err(machine)?;
        let stop = Stop::new().map_err(RunError::system("make a socket pair"))?;
        let stopper = stop.stopper().map_err(RunError::system("copy a socket"))?;
        let router = thread::spawn(move || {
            router.run_until(Instant::FAR_FUTURE, &stop)?;
            router.flush()?;
            Ok(router)
        });
        Ok(Self { stopper, router: Some(router) })
    }

    /// Removes the link, and returns its counters in each direction.
    pub fn end(mut self) -> Result<[Counters; 2], RunError> {
        self.stopper.stop();
        let router = self.router.take().expect("it ends once").join().expect("the router does not panic");
        let router = router.map_err(machine)?;
        Ok(Direction::ALL.map(|direction| router.snapshot(direction).counters))
    }
}

impl Drop for RunningLink {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            // Dropped after another error, which is the one to report.
            let _ = router.join();
        }
    }
}

/// Returns two namespaces with a lossless veth pair between them, which has an address on either
/// side in each network. Without `offload`, TCP and UDP send equally many packets.
pub fn veth(name: &str, networks: &[[&str; 2]], offload: bool) -> Result<[Namespace; 2], RunError> {
    let name = |side: &str| format!("timeous-{name}-{}{side}", std::process::id());
    let open = |side: &str| Namespace::open_or_make(&name(side)).map_err(machine);
    let ends = [open("l")?, open("r")?];
    let peer = name("r");
    ends[0].ip(&["link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", &peer]).map_err(machine)?;
    for (side, (namespace, device)) in ends.iter().zip(["veth0", "veth1"]).enumerate() {
        let ip = |words: &[&str]| namespace.ip(words).map_err(machine);
        if !offload {
            ip(&["link", "set", device, "gso_max_segs", "1"])?;
        }
        for network in networks {
            ip(&["address", "add", &format!("{}/24", network[side]), "dev", device])?;
        }
        ip(&["link", "set", device, "up"])?;
        // Otherwise a connection would begin with the previous one's cached metrics.
        namespace.set_sysctl("net/ipv4/tcp_no_metrics_save", "1").map_err(machine)?;
    }
    Ok(ends)
}

/// Settings of the calling end of a TCP connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// Congestion control, as the kernel names it.
    pub congestion_control: &'a str,
    /// Maximum segment size as the kernel counts it, if not its own choice.
    pub segment: Option<u32>,
    /// Whether each write leaves at once.
    pub nodelay: bool,
}

impl Call<'_> {
    fn to(&self, address: &SocketAddr) -> io::Result<TcpStream> {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        setsockopt(&fd, TcpCongestion, &self.congestion_control.into())?;
        if let Some(segment) = self.segment {
            setsockopt(&fd, TcpMaxSeg, &segment)?;
        }
        connect(&fd, address)?;
        let stream = TcpStream::from(fd);
        if self.nodelay {
            stream.set_nodelay(true)?;
        }
        Ok(stream)
    }

    /// Opens a TCP connection between two namespaces; returns the calling and the called end.
    pub fn open(
        &self,
        from: &Namespace,
        to: &Namespace,
        address: SocketAddr,
    ) -> Result<(TcpStream, TcpStream), RunError> {
        let failed = RunError::system;
        let listener = to.within(|| TcpListener::bind(address)).map_err(machine)?;
        let listener = listener.map_err(failed("listen in a namespace"))?;
        let called = listener.local_addr().map_err(failed("look at a socket"))?;
        let calling = from.within(|| self.to(&called)).map_err(machine)?.map_err(failed("connect to a namespace"))?;
        let (answering, _) = listener.accept().map_err(failed("accept in a namespace"))?;
        Ok((calling, answering))
    }
}

/// Sends all that a connection takes until `stop`. Data still in flight then is not needed.
///
/// # Errors
/// Of the socket.
pub fn send_until(mut sending: &TcpStream, receiving: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let block = [0; CHUNK];
    sending.set_write_timeout(Some(LOOK))?;
    while !stop.load(Ordering::Relaxed) {
        match sending.write(&block) {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Err(error),
            _ => {}
        }
    }
    let _ = receiving.shutdown(Shutdown::Both);
    Ok(())
}

/// Receives all of a connection, and counts its bytes.
pub fn drain(mut receiving: &TcpStream, came: &AtomicU64) {
    let mut buffer = [0; CHUNK];
    while let Ok(len @ 1..) = receiving.read(&mut buffer) {
        came.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// Reads a link's capture whose clock is `ahead` of ours: calls `each` with the time, the bytes, and
/// whether the link dropped it, for each packet that came to the link.
///
/// # Errors
/// [`RunError::Machine`] if the file is no capture.
pub fn arrivals(path: &Path, ahead: Duration, mut each: impl FnMut(Instant, &[u8], bool)) -> Result<(), RunError> {
    let mut read = || -> Result<(), PcapError> {
        let mut reader = PcapNgReader::new(File::open(path).map_err(PcapError::IoError)?)?;
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(block) = block?
                && block.interface_id == Interface::Ingress as u32
            {
                let at = Instant::ZERO + Duration::from(block.timestamp).saturating_sub(ahead);
                each(at, &block.data, is_dropped(&block));
            }
        }
        Ok(())
    };
    read().map_err(|error| RunError::Machine(format!("the link's capture cannot be read: {error}")))
}

/// Whether the link dropped a packet: the emulator adds comments only to those.
pub fn is_dropped(block: &EnhancedPacketBlock<'_>) -> bool {
    block.options.iter().any(|option| matches!(option, EnhancedPacketOption::Comment(_)))
}

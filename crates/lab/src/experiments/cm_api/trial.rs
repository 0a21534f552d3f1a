//! Trial: packets of one size, sent in one way over a veth pair; its sockets, receivers, duration and
//! processor time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous::clock;
use timeous::cm::{Acks, CongestionManager, ManagerLocation};
use timeous::core::Duration;
use timeous_net::emulator::Namespace;
use timeous_testbed::machine::{Call, machine, stay_on, two_processors, veth};
use timeous_testbed::process::Clock;

use super::super::daemon::member::DaemonProcess;
use super::super::managed::Managed;
use super::alf::Alf;
use super::buffered;
use super::method::{Api, ManagerPlacement, SendMethod};
use crate::experiment::RunError;

/// Cost of one trial's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) packets: u64,
    /// Time from before the first packet until the last acknowledgement.
    pub(super) took: Duration,
    /// Processor time of the sender's process.
    pub(super) sender: Duration,
    /// Processor time of the daemon.
    pub(super) daemon: Duration,
    /// Lost packets.
    pub(super) lost: u64,
}

impl Cost {
    /// Returns the processor time of sender and daemon together, in microseconds per packet.
    pub(super) fn cpu(&self) -> f64 {
        self.each(self.sender + self.daemon)
    }

    /// Returns the elapsed time, in microseconds per packet.
    pub(super) fn wall(&self) -> f64 {
        self.each(self.took)
    }

    /// Returns `of` divided by the number of packets, in microseconds.
    pub(super) fn each(&self, of: Duration) -> f64 {
        of.as_secs_f64() * 1e6 / self.packets as f64
    }
}

/// Returns a UDP socket on the loopback device that holds all packets of a trial; without the privilege, as many as the
/// system lets it.
pub(super) fn loopback_socket() -> Result<UdpSocket, RunError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(RunError::system("open a socket"))?;
    let _ = setsockopt(&socket, RcvBufForce, &BUFFER);
    Ok(socket)
}

/// Test bed for all ways.
pub(super) struct TestNetwork {
    wire: Wire,
    in_process: CongestionManager,
    daemon: CongestionManager,
    /// Kernel module; none if the program was built without it or the machine cannot load it.
    managed: Option<Managed>,
    /// Processors of the sender and the receiver.
    processors: [Option<usize>; 2],
    // Dropped after its client.
    served: DaemonProcess,
    _directory: tempfile::TempDir,
}

impl TestNetwork {
    /// Builds the bed; also returns why TCP is not under the Congestion Manager, if it is not.
    pub(super) fn make() -> Result<(Self, Option<String>), RunError> {
        let directory = tempfile::tempdir().map_err(RunError::system("make a directory"))?;
        let path: PathBuf = directory.path().join("daemon.sock");
        let served = DaemonProcess::start(&path)?;
        let open = |place| CongestionManager::open(place).map_err(refused);
        let (managed, without) = match Managed::load() {
            Ok(managed) => (Some(managed), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let network = Self {
            wire: Wire::make()?,
            in_process: open(ManagerLocation::InProcess)?,
            daemon: open(ManagerLocation::Daemon(Some(path)))?,
            managed,
            processors: two_processors(),
            served,
            _directory: directory,
        };
        Ok((network, without))
    }

    /// Sends `packets` packets in one way.
    pub(super) fn run(&self, way: SendMethod, size: usize, packets: u64) -> Result<Cost, RunError> {
        let cost = match way {
            SendMethod::Tcp { nodelay } => self.by_tcp(nodelay, size, packets),
            SendMethod::Api(api, ManagerPlacement::InProcess) => self.by_api(api, &self.in_process, size, packets),
            SendMethod::Api(api, ManagerPlacement::Daemon) => self.by_api(api, &self.daemon, size, packets),
        };
        cost.map_err(|error| RunError::Machine(format!("{way}, {size} bytes: {error}")))
    }

    fn by_tcp(&self, nodelay: bool, size: usize, packets: u64) -> Result<Cost, RunError> {
        let control = self.managed.as_ref().map_or("reno", Managed::name);
        let (sending, receiving) = self.wire.tcp(control, size, nodelay)?;
        let receive = move || receive_stream(&receiving).map(|bytes| bytes / size as u64);
        let failed = RunError::system("send by TCP over a veth pair");
        self.measure(packets, receive, move || send_by_tcp(&sending, size, packets).map_err(failed))
    }

    fn by_api(&self, api: Api, cm: &CongestionManager, size: usize, packets: u64) -> Result<Cost, RunError> {
        let (sending, receiving) = self.wire.udp()?;
        let remote = receiving.local_addr().map_err(RunError::system("look at a socket"))?;
        let receive = move || receive_datagrams(&receiving, packets);
        let send = move || match api {
            Api::Buffered => buffered::send(cm, sending, remote, size, packets).map(drop).map_err(refused),
            Api::Alf | Api::NoConnect => {
                let connected = api == Api::Alf;
                let alf = Alf { cm, socket: &sending, remote, connected, size, packets, returns_grants: false };
                alf.send().map(drop).map_err(refused)
            }
        };
        self.measure(packets, receive, send)
    }

    fn measure(
        &self,
        packets: u64,
        receive: impl FnOnce() -> std::io::Result<u64> + Send,
        send: impl FnOnce() -> Result<(), RunError> + Send,
    ) -> Result<Cost, RunError> {
        let daemon = Clock::of(self.served.id())?;
        let [at_sender, at_receiver] = self.processors;
        // Both threads are running before the clock starts.
        let ready = Barrier::new(2);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                stay_on(at_receiver);
                ready.wait();
                let before = Clock::THREAD.read();
                receive().map(|came| (came, Clock::THREAD.read().saturating_sub(before)))
            });
            let sender = scope.spawn(|| {
                stay_on(at_sender);
                ready.wait();
                let before = (clock::now(), Clock::PROCESS.read(), daemon.read());
                send()?;
                let (took, own) = (clock::now().saturating_since(before.0), Clock::PROCESS.read());
                Ok::<_, RunError>((took, own.saturating_sub(before.1), daemon.read().saturating_sub(before.2)))
            });
            let sent = sender.join().expect("a sender does not panic");
            let received = receiver.join().expect("a receiver does not panic");
            let (took, process, daemon) = sent?;
            let (came, of_receiver) = received.map_err(RunError::system("receive over a veth pair"))?;
            // The receiver's thread is in this process, too, but would be on another host: its time
            // does not count.
            let sender = process.saturating_sub(of_receiver);
            Ok(Cost { packets, took, sender, daemon, lost: packets.saturating_sub(came) })
        })
    }
}

#[allow(clippy::needless_pass_by_value)]
fn refused(error: timeous::cm::Error) -> RunError {
    RunError::Machine(format!("the Congestion Manager: {error}"))
}

/// Addresses of both sides in two networks: one with delayed acknowledgements, one with an
/// acknowledgement per packet.
const DELAYED: [&str; 2] = ["10.81.1.1", "10.81.1.2"];
const AT_ONCE: [&str; 2] = ["10.81.2.1", "10.81.2.2"];
/// Socket buffer, in bytes: holds all packets of a round, so that none is lost.
const BUFFER: usize = 64 << 20;
/// Bytes of the timestamps option in each segment (RFC 7323 §3.2).
const TIMESTAMPS: usize = 12;

pub(super) struct Wire {
    left: Namespace,
    right: Namespace,
}

impl Wire {
    /// Builds namespaces and links.
    pub(super) fn make() -> Result<Self, RunError> {
        let [left, right] = veth("api", &[DELAYED, AT_ONCE], false)?;
        let route = ["route", "replace", "10.81.2.0/24", "dev", "veth1", "proto", "kernel", "scope", "link"];
        right.ip(&[&route[..], &["src", AT_ONCE[1], "quickack", "1"]].concat()).map_err(machine)?;
        Ok(Self { left, right })
    }

    /// Returns a sending and a receiving socket.
    pub(super) fn udp(&self) -> Result<(UdpSocket, UdpSocket), RunError> {
        let bind = |namespace: &Namespace, address: &str| {
            let opened = || -> io::Result<UdpSocket> {
                let socket = UdpSocket::bind((address, 0))?;
                setsockopt(&socket, RcvBufForce, &BUFFER)?;
                Ok(socket)
            };
            namespace.within(opened).map_err(machine)?.map_err(RunError::system("open a UDP socket in a namespace"))
        };
        Ok((bind(&self.left, AT_ONCE[0])?, bind(&self.right, AT_ONCE[1])?))
    }

    /// Opens a connection whose segments hold `size` bytes.
    pub(super) fn tcp(
        &self,
        congestion_control: &str,
        size: usize,
        nodelay: bool,
    ) -> Result<(TcpStream, TcpStream), RunError> {
        let address = if nodelay { AT_ONCE[1] } else { DELAYED[1] };
        let address = format!("{address}:0").parse().expect("an address and a port");
        let segment = Some((size + TIMESTAMPS) as u32);
        Call { congestion_control, segment, nodelay: true }.open(&self.left, &self.right, address)
    }
}

/// Silence after which missing packets count as lost.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Buffer for one read from a connection, in bytes.
const CHUNK: usize = 64 << 10;

/// Receives up to `packets` packets, acknowledges each by a datagram, and returns the number
/// received.
pub(super) fn receive_datagrams(socket: &UdpSocket, packets: u64) -> io::Result<u64> {
    socket.set_read_timeout(Some(SILENCE))?;
    let (mut acks, mut buffer, mut came) = (Acks::every(1, Duration::ZERO), [0; 2_048], 0);
    while came < packets {
        let (len, from) = match socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        let Some(number) = buffer[..len].first_chunk() else { continue };
        let now = clock::now();
        came += u64::from(acks.received(now, u64::from_be_bytes(*number)));
        if let Some(ack) = acks.poll_ack(now) {
            socket.send_to(&ack.encode(), from)?;
        }
    }
    Ok(came)
}

/// Receives all of a connection, and returns the number of bytes.
pub(super) fn receive_stream(mut stream: &TcpStream) -> io::Result<u64> {
    let (mut buffer, mut came) = (vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(came),
            Ok(len) => came += len as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends all packets; returns when the last one is acknowledged and the other end has closed the
/// connection.
pub(super) fn send_by_tcp(mut stream: &TcpStream, size: usize, packets: u64) -> io::Result<()> {
    let payload = vec![0; size];
    let (now, mut answer) = (Timespec::default(), [0; 1_024]);
    for _ in 0..packets {
        stream.write_all(&payload)?;
        // The paper calls select() on one descriptor; poll() is the safe equivalent.
        if poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now))? > 0 {
            let _ = stream.read(&mut answer)?;
        }
    }
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut answer)? > 0 {}
    Ok(())
}

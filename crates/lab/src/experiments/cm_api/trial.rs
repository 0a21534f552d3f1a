//! Trial: packets of one size, sent in one way; its duration and processor time.

use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use timeous::clock;
use timeous::cm::{CongestionManager, ManagerLocation};
use timeous::core::Duration;

use super::super::managed::Managed;
use super::alf::Alf;
use super::clocks::Clock;
use super::daemon::DaemonProcess;
use super::method::{Api, ManagerPlacement, SendMethod};
use super::wire::Wire;
use super::{buffered, receiver, tcp};
use crate::experiment::LabError;
use crate::machine::{stay_on, two_processors};

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
    pub(super) fn make() -> Result<(Self, Option<String>), LabError> {
        let directory = tempfile::tempdir().map_err(LabError::system("make a directory"))?;
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
    pub(super) fn run(&self, way: SendMethod, size: usize, packets: u64) -> Result<Cost, LabError> {
        let cost = match way {
            SendMethod::Tcp { nodelay } => self.by_tcp(nodelay, size, packets),
            SendMethod::Api(api, ManagerPlacement::InProcess) => self.by_api(api, &self.in_process, size, packets),
            SendMethod::Api(api, ManagerPlacement::Daemon) => self.by_api(api, &self.daemon, size, packets),
        };
        cost.map_err(|error| LabError::Machine(format!("{way}, {size} bytes: {error}")))
    }

    fn by_tcp(&self, nodelay: bool, size: usize, packets: u64) -> Result<Cost, LabError> {
        let control = self.managed.as_ref().map_or("reno", Managed::name);
        let (sending, receiving) = self.wire.tcp(control, size, nodelay)?;
        let receive = move || receiver::stream(&receiving).map(|bytes| bytes / size as u64);
        let failed = LabError::system("send by TCP over a veth pair");
        self.measure(packets, receive, move || tcp::send(&sending, size, packets).map_err(failed))
    }

    fn by_api(&self, api: Api, cm: &CongestionManager, size: usize, packets: u64) -> Result<Cost, LabError> {
        let (sending, receiving) = self.wire.udp()?;
        let remote = receiving.local_addr().map_err(LabError::system("look at a socket"))?;
        let receive = move || receiver::datagrams(&receiving, packets);
        let send = move || match api {
            Api::Buffered => buffered::send(cm, sending, remote, size, packets).map_err(refused),
            Api::Alf | Api::NoConnect => {
                let connected = api == Api::Alf;
                Alf { cm, socket: &sending, remote, connected, size, packets }.send().map_err(refused)
            }
        };
        self.measure(packets, receive, send)
    }

    fn measure(
        &self,
        packets: u64,
        receive: impl FnOnce() -> std::io::Result<u64> + Send,
        send: impl FnOnce() -> Result<(), LabError> + Send,
    ) -> Result<Cost, LabError> {
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
                Ok::<_, LabError>((took, own.saturating_sub(before.1), daemon.read().saturating_sub(before.2)))
            });
            let sent = sender.join().expect("a sender does not panic");
            let received = receiver.join().expect("a receiver does not panic");
            let (took, process, daemon) = sent?;
            let (came, of_receiver) = received.map_err(LabError::system("receive over a veth pair"))?;
            // The receiver's thread is in this process, too, but would be on another host: its time
            // does not count.
            let sender = process.saturating_sub(of_receiver);
            Ok(Cost { packets, took, sender, daemon, lost: packets.saturating_sub(came) })
        })
    }
}

#[allow(clippy::needless_pass_by_value)]
fn refused(error: timeous::cm::Error) -> LabError {
    LabError::Machine(format!("the Congestion Manager: {error}"))
}

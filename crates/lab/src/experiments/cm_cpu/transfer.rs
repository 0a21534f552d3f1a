//! One TCP connection over a veth pair: its duration and processor time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::thread;

use rustix::time::{ClockId, clock_gettime};
use timeous::core::{Duration, Instant};
use timeous_engine::clock;
use timeous_net::emulator::Namespace;

use crate::experiment::LabError;
use crate::machine::{Call, stay_on, two_processors, veth};

/// The receiver's address.
const RIGHT: &str = "10.79.0.2";
/// Buffer for one write or read, in bytes.
const CHUNK: usize = 256 << 10;

/// Cost of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Time from the first byte written to the last one received.
    pub(super) took: Duration,
    /// Processor time over all processors.
    pub(super) cpu: Duration,
}

/// Two network namespaces and a veth pair between them.
pub(super) struct TestLink {
    left: Namespace,
    right: Namespace,
    /// Processors of the sender and the receiver.
    processors: [Option<usize>; 2],
}

impl TestLink {
    /// Builds namespaces and links.
    pub(super) fn make() -> Result<Self, LabError> {
        let [left, right] = veth("cpu", &[["10.79.0.1", RIGHT]], true)?;
        Ok(Self { left, right, processors: two_processors() })
    }

    /// Sends `bytes` over one connection with this congestion control.
    pub(super) fn transfer(&self, congestion_control: &str, bytes: usize) -> Result<Cost, LabError> {
        let address = format!("{RIGHT}:0").parse().expect("an address and a port");
        let call = Call { congestion_control, ..Call::default() };
        let (sending, receiving) = call.open(&self.left, &self.right, address)?;
        let [at_sender, at_receiver] = self.processors;
        // Both threads are running before the clock starts.
        let ready = Barrier::new(2);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                stay_on(at_receiver);
                ready.wait();
                receive(&receiving)
            });
            let sender = scope.spawn(|| {
                stay_on(at_sender);
                ready.wait();
                let begin = (clock::now(), cpu());
                send(&sending, bytes).map(|()| begin)
            });
            let begun = sender.join().expect("a sender does not panic");
            let (received, ended, used) = receiver.join().expect("a receiver does not panic")?;
            let (began, before) = begun?;
            if received != bytes {
                return Err(LabError::Machine(format!("{received} of {bytes} bytes arrived over a veth pair")));
            }
            Ok(Cost { took: ended.saturating_since(began), cpu: used.saturating_sub(before) })
        })
    }
}

/// Returns the processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

fn send(mut stream: &TcpStream, bytes: usize) -> Result<(), LabError> {
    let chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK);
        stream.write_all(&chunk[..len]).map_err(LabError::system("send over a veth pair"))?;
        left -= len;
    }
    stream.shutdown(Shutdown::Write).map_err(LabError::system("end a connection"))
}

fn receive(mut stream: &TcpStream) -> Result<(usize, Instant, Duration), LabError> {
    let (mut buffer, mut received) = (vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut buffer).map_err(LabError::system("receive over a veth pair"))? {
            0 => return Ok((received, clock::now(), cpu())),
            len => received += len,
        }
    }
}

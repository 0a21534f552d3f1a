//! Threads of an engine: each runs transports with a Congestion Manager of its own, and owns the hosts that are placed
//! on it.

use std::net::IpAddr;
use std::thread::JoinHandle;

use crate::command::{Command, Commands};
use crate::congestion::Congestion;
use crate::error::EngineError;
use crate::waker::Waker;
use crate::worker::Worker;

/// Place of a host's streams among `count` workers. All of them share one macroflow, so they stay together.
///
/// UDP ports that several workers share are steered by the same rule ([`crate::udp::Socket::bind_shared`]).
pub(crate) fn place(host: IpAddr, count: usize) -> usize {
    let low = match host.to_canonical() {
        IpAddr::V4(addr) => u32::from(addr),
        IpAddr::V6(addr) => u128::from(addr) as u32,
    };
    low as usize % count
}

/// A running thread. When it is dropped, its connections end.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    pub(crate) commands: Commands,
    pub(crate) congestion: Congestion,
    thread: Option<JoinHandle<()>>,
}

impl WorkerThread {
    /// Starts a thread with this Congestion Manager.
    pub(crate) fn start(congestion: Congestion) -> Result<Self, EngineError> {
        let waker = Waker::new()?;
        let (commands, asked) = Commands::new(waker.clone());
        if !congestion.attach(waker.clone()) {
            return Err(EngineError::CongestionTaken);
        }
        let worker = Worker::new(asked, waker, congestion.clone());
        let thread = std::thread::Builder::new().name("timeous-engine".to_owned()).spawn(move || worker.run());
        match thread {
            Ok(thread) => Ok(Self { commands, congestion, thread: Some(thread) }),
            Err(error) => {
                congestion.detach();
                Err(error.into())
            }
        }
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread's panic has been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_host_has_one_place_however_its_address_is_written() {
        let four = Ipv4Addr::new(192, 0, 2, 7);
        assert_eq!(place(four.into(), 4), place(four.to_ipv6_mapped().into(), 4));
        let hosts = (0..256u32).map(|host| place(Ipv6Addr::from(u128::from(host)).into(), 4));
        assert_eq!(hosts.filter(|&place| place == 3).count(), 64);
    }
}

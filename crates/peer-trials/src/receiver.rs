//! Record of received datagrams at the far end, the same for all peers.

use std::io::{self, Read};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration as StdDuration;

use timeous_engine::clock;

use crate::datagram::{Header, PROBE};
use crate::judge::ReceivedDatagram;

/// Socket timeout, after which the end of the run is checked.
const LOOK: StdDuration = StdDuration::from_millis(100);
/// Requested size of the receive buffer: room for a burst over loopback.
const ROOM: usize = 4 << 20;

/// Datagrams received so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatagramReceiver {
    came: Arc<Mutex<Vec<ReceivedDatagram>>>,
    open: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl DatagramReceiver {
    /// Whether any datagram has arrived.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Ends the recording.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// All received datagrams.
    pub(crate) fn came(&self) -> Vec<ReceivedDatagram> {
        self.came.lock().expect("nobody panics while he writes down").clone()
    }

    fn note(&self, datagram: &[u8]) {
        let at = clock::now();
        self.open.store(true, Ordering::Relaxed);
        let Some(header) = Header::read(datagram).filter(|_| !datagram.starts_with(PROBE)) else { return };
        self.came.lock().expect("nobody panics while he writes down").push(ReceivedDatagram { header, at });
    }

    /// Records datagrams at a UDP socket until the end.
    pub(crate) fn hear_udp(&self, socket: &UdpSocket) -> io::Result<()> {
        socket.set_read_timeout(Some(LOOK))?;
        // The system may grant less.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, ROOM);
        let mut datagram = vec![0; 1 << 16];
        while !self.over.load(Ordering::Relaxed) {
            if let Ok(len) = socket.recv(&mut datagram) {
                self.note(&datagram[..len]);
            }
        }
        Ok(())
    }

    /// Records length-prefixed datagrams over TCP until the connection ends.
    pub(crate) fn hear_tcp(&self, mut stream: TcpStream) {
        let (mut len, mut datagram) = ([0; 2], Vec::new());
        while stream.read_exact(&mut len).is_ok() {
            datagram.resize(usize::from(u16::from_be_bytes(len)), 0);
            if stream.read_exact(&mut datagram).is_err() {
                return;
            }
            self.note(&datagram);
        }
    }
}

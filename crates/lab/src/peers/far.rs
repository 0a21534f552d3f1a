//! What comes at the far end, written down by one hand for all peers.

use std::io::{self, Read};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration as StdDuration;

use timeous_engine::clock;

use super::datagram::{Header, PROBE};
use super::judge::Came;

/// How long a socket may be blocked before somebody asks whether it is still wanted.
const LOOK: StdDuration = StdDuration::from_millis(100);
/// The receive buffer that is asked for: what a burst over loopback needs.
const ROOM: usize = 4 << 20;

/// What came so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Far {
    came: Arc<Mutex<Vec<Came>>>,
    open: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Far {
    /// Whether anything has come.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Nothing more is wanted.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// All that came.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.came.lock().expect("nobody panics while he writes down").clone()
    }

    fn note(&self, datagram: &[u8]) {
        let at = clock::now();
        self.open.store(true, Ordering::Relaxed);
        let Some(header) = Header::read(datagram).filter(|_| !datagram.starts_with(PROBE)) else { return };
        self.came.lock().expect("nobody panics while he writes down").push(Came { header, at });
    }

    /// Writes down what comes at a UDP socket, until the end.
    pub(crate) fn hear_udp(&self, socket: &UdpSocket) -> io::Result<()> {
        socket.set_read_timeout(Some(LOOK))?;
        // The system may give less.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, ROOM);
        let mut datagram = vec![0; 1 << 16];
        while !self.over.load(Ordering::Relaxed) {
            if let Ok(len) = socket.recv(&mut datagram) {
                self.note(&datagram[..len]);
            }
        }
        Ok(())
    }

    /// Writes down what comes over TCP, each datagram behind its length, until the connection ends.
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

//! Applications: the client requests the file, the server sends it.

use timeous::core::{AduMeta, Instant};
use timeous_host::{Application, Outlet};

/// Bytes of a request.
const REQUEST: usize = 200;

/// Client that sends its request as soon as it can.
#[derive(Debug, Default)]
pub(super) struct RequestClient {
    asked: bool,
}

impl Application for RequestClient {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if !self.asked {
            let meta = AduMeta { enqueued: now, ..AduMeta::default() };
            outlet.send(meta, &[b'?'; REQUEST]).expect("an empty buffer takes a request");
            self.asked = true;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Server that sends the file after a request.
#[derive(Debug)]
pub(super) struct FileServer {
    left: usize,
    asked: bool,
}

impl FileServer {
    pub(super) fn new(len: usize) -> Self {
        Self { left: len, asked: false }
    }
}

impl Application for FileServer {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while self.asked && self.left > 0 {
            let len = self.left.min(8 << 10);
            let meta = AduMeta { enqueued: now, ..AduMeta::default() };
            if outlet.send(meta, &vec![0; len]).is_err() {
                return;
            }
            self.left -= len;
            if self.left == 0 {
                outlet.finish();
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_received(&mut self, _: Instant, _: &[u8]) {
        self.asked = true;
    }
}

//! Application side of a remote stream: a thread that receives the engine's notices, in place of the engine's thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use timeous_dccp::CloseReason;

use super::message::News;
use super::socket::receive;
use crate::shared::{Shared, Status};

pub(crate) struct Reader {
    socket: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Reader {
    /// Starts the thread. It ends with the socket.
    pub(crate) fn start(socket: Arc<OwnedFd>, shared: Arc<Shared>) -> std::io::Result<()> {
        let reader = Self { socket, shared };
        std::thread::Builder::new().name("timeous-stream".to_owned()).spawn(move || reader.run()).map(drop)
    }

    fn run(self) {
        let mut buffer = vec![0; News::LONGEST];
        // An error ends the stream as well.
        while let Ok(Some(length)) = receive(&*self.socket, &mut buffer, true) {
            match buffer.get(..length).and_then(News::read) {
                Some(news) => self.hear(news),
                None => break,
            }
        }
        if !matches!(self.shared.status(), Status::Closed(_)) {
            self.shared.set_status(Status::Closed(CloseReason::Abandoned));
        }
    }

    fn hear(&self, news: News) {
        match news {
            News::Received(received) => {
                self.shared.inbox.push(received);
                self.shared.readable.wake();
            }
            News::Peer(peer) => self.shared.set_peer(peer),
            News::StreamId(stream_id) => self.shared.set_stream_id(&stream_id),
            News::Intent(intent) => self.shared.set_intent(intent),
            News::SealError(error) => self.shared.set_seal_error(error),
            News::Status(status) => self.shared.set_status(status),
            News::Zone(attached) => self.shared.answer_zone(attached),
            News::Writable => self.shared.writable.wake(),
            News::Advice(advice) => {
                self.shared.set_advice(advice);
                self.shared.writable.wake();
            }
            News::Snapshot(snapshot) => {
                self.shared.set_snapshot(*snapshot);
                // Allows the next request.
                self.shared.begin_snapshot();
            }
        }
    }
}

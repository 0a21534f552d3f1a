//! A pending TCP connection attempt, for a stream that another transport may still carry.

use std::io;
use std::net::IpAddr;

use timeous_seal::{CallerCredential, Session};

use crate::handshake::{Agreed, Handshake, HandshakeFailure, unanswered};
use crate::route::Route;
use crate::socket::Socket;

/// A connection attempt, with the agreement on keys if there is a credential: the stream moves only to its listener.
#[derive(Debug)]
pub struct Call {
    socket: Socket,
    /// Source address of another uplink than the route's own.
    pub(crate) uplink: Option<IpAddr>,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// No answer yet. Credential of an encrypted stream.
    Calling(Option<CallerCredential>),
    Handshaking(Box<Handshake>),
    /// Result of the handshake, if there was one, and the number of bytes that it has sent.
    Answered(Option<(Agreed, u64)>),
}

impl Call {
    /// Starts to connect; with a `credential`, the stream is encrypted.
    ///
    /// # Errors
    /// The system's: no socket, no route.
    pub fn start(route: Route, credential: Option<&CallerCredential>) -> io::Result<Self> {
        let socket = Socket::call(route.local, route.remote)?;
        Ok(Self { socket, uplink: route.uplink, progress: Progress::Calling(credential.cloned()) })
    }

    /// Goes on with the attempt; returns whether it was answered, by an authenticated listener if the stream is encrypted.
    ///
    /// # Errors
    /// The reason why the attempt has failed.
    pub fn advance(&mut self) -> Result<bool, HandshakeFailure> {
        if let Progress::Calling(credential) = &mut self.progress {
            self.socket.take_error().map_err(|error| match credential {
                Some(_) => unanswered(error),
                None => HandshakeFailure::Socket(error),
            })?;
            if self.socket.peer().is_err() {
                return Ok(false);
            }
            self.progress = match credential.take() {
                None => Progress::Answered(None),
                Some(credential) => {
                    let session = Session::call(&credential).map_err(HandshakeFailure::Seal)?;
                    Progress::Handshaking(Box::new(Handshake::new(session)))
                }
            };
        }
        if let Progress::Handshaking(handshake) = &mut self.progress
            && let Some(agreed) = handshake.advance(&mut self.socket)?
        {
            self.progress = Progress::Answered(Some((agreed, handshake.sent())));
        }
        Ok(matches!(self.progress, Progress::Answered(_)))
    }

    /// Returns the socket of an answered attempt, the result of the handshake and the number of bytes that it has sent.
    pub(crate) fn into_parts(self) -> (Socket, Option<(Agreed, u64)>) {
        match self.progress {
            Progress::Answered(agreed) => (self.socket, agreed),
            Progress::Calling(_) | Progress::Handshaking(_) => (self.socket, None),
        }
    }
}

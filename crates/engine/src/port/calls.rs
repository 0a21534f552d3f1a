//! Calls with encryption from a UDP port: each connection begins when there are keys.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_cm::Manager;
use timeous_core::Instant;
use timeous_dccp::{CloseReason, ResetCode, Route};
use timeous_kernel_tcp::TcpSession as _;
use timeous_seal::{AssociationId, CallerCredential};
use timeous_stream::StreamId;

use super::Port;
use crate::command::{Made, PortLife, User};
use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::sealed::{Call, News, Sealed};
use crate::streams::Streams;

impl Port {
    /// Calls with encryption: the connection begins when there are keys.
    pub(super) fn call(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        config: &StreamConfig,
        credential: &CallerCredential,
        streams: &mut Streams,
    ) -> Result<(StreamId, Made), EngineError> {
        let Some(sealed) = &mut self.sealed else { return Err(EngineError::WrongSealing) };
        let life = Arc::new(());
        let (session, stream) = streams.make(user, config, PortLife::of(&life))?;
        session.set_peer(remote);
        let id = session.id;
        if !sealed.is_calling() {
            self.socket.report_refusals(true)?;
        }
        streams.place(id, self.number);
        let call = Call { remote, session, config: config.clone(), life, refusal: None, tcp_error: None };
        if let Err((error, mut call)) = sealed.call(now, credential, call) {
            call.session.unsealed(error);
        }
        Ok((id, stream))
    }

    /// Processes what has become of calls and keys.
    pub(super) fn hear_of_keys(&mut self, now: Instant, cm: &Manager, streams: &mut Streams) -> bool {
        let mut progress = false;
        while let Some(news) = self.sealed.as_mut().and_then(Sealed::poll_news) {
            progress = true;
            match news {
                News::CanSeal(association, call) => self.begin(now, association, *call, streams),
                News::Failed(mut call, error) => call.session.unsealed(error),
                News::Doubted(connection) => {
                    // Fails only for an ended connection.
                    let _asked = self.driver.endpoint.probe(now, cm, connection);
                }
                News::Lost(connection, error) => {
                    let id = self.driver.sessions.get(connection).map(|session| session.id);
                    if let Some(mut session) = id.and_then(|id| self.remove(now, id, Some(ResetCode::Aborted))) {
                        session.unsealed(error);
                    }
                }
            }
            self.stop_hearing_refusals();
        }
        progress
    }

    /// Begins the connection of a call that has keys.
    fn begin(&mut self, now: Instant, association: AssociationId, call: Call, streams: &mut Streams) {
        let Call { remote, mut session, config, life, .. } = call;
        let route = Route::sealed(remote, association.value());
        match self.driver.endpoint.connect_with(now, route, config.dccp_port, config.service, config.dccp()) {
            Ok(connection) => {
                if let Some(sealed) = &mut self.sealed {
                    sealed.begin(association, connection);
                }
                self.associations.insert(connection, association);
                self.add(connection, session, streams);
                self.lives.insert(connection, life);
            }
            Err(error) => {
                tracing::warn!(%error, "a call with encryption");
                session.close(CloseReason::Local);
            }
        }
    }

    /// Stops reading ICMP messages when no call with encryption waits for an answer.
    pub(super) fn stop_hearing_refusals(&mut self) {
        if self.sealed.as_ref().is_some_and(|sealed| !sealed.is_calling())
            && let Err(error) = self.socket.report_refusals(false)
        {
            tracing::debug!(%error, "ICMP messages go on being told");
        }
    }
}

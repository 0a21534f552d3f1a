//! Streams that move from a UDP port to TCP: the signs that UDP is blocked, the proof of identity, and the removal.

use timeous_core::Instant;
use timeous_kernel_tcp::{Identity, SequenceNumbers};
use timeous_seal::SealError;
use timeous_stream::{StreamId, in_order};

use super::Port;
use crate::session::Session;

impl Port {
    /// Returns how much was received for a stream, in packets or, before its connection, in bytes, and whether it is open; `None`: unknown
    /// stream.
    pub(crate) fn heard(&self, id: StreamId) -> Option<(u64, bool)> {
        let Some(connection) = self.connection(id) else {
            // The agreement on keys comes before the connection.
            return self.sealed.as_ref()?.handshake_bytes(id).map(|bytes| (bytes, false));
        };
        let connection = self.driver.endpoint.connection(connection)?;
        Some((connection.statistics().packets_received, connection.flow().is_some()))
    }

    /// Returns the identity of a stream's connection, which only its two ends know.
    pub(crate) fn identity(&self, id: StreamId) -> Option<Identity> {
        let connection = self.connection(id)?;
        if let Some(sealed) = &self.sealed {
            let association = *self.associations.get(connection)?;
            return sealed.endpoint.migration(association).cloned().map(Identity::Secret);
        }
        let connection = self.driver.endpoint.connection(connection)?;
        let (sent, received) = connection.initial_sequence_numbers();
        let numbers = SequenceNumbers { caller: sent.value(), listener: received?.value() };
        Some(Identity::Numbers(numbers))
    }

    /// Returns the incoming stream whose connection has this identity; if it is encrypted, its caller has named this stream ID, too.
    pub(crate) fn identified(&self, identity: &Identity, stream_id: &str) -> Option<StreamId> {
        let mut sessions = self.driver.sessions.iter();
        match (identity, &self.sealed) {
            (Identity::Numbers(numbers), None) => sessions.find_map(|(id, session)| {
                let (sent, received) = self.driver.endpoint.connection(id)?.initial_sequence_numbers();
                let own = SequenceNumbers { caller: received?.value(), listener: sent.value() };
                own.are_seen_as(*numbers).then_some(session.id)
            }),
            (Identity::Secret(secret), Some(sealed)) => sessions.find_map(|(id, session)| {
                let association = *self.associations.get(id)?;
                let is_same = sealed.endpoint.migration(association)? == secret
                    && sealed.endpoint.stream_id(association).unwrap_or_default() == stream_id;
                is_same.then_some(session.id)
            }),
            // Neither may continue the other.
            (Identity::Numbers(_), Some(_)) | (Identity::Secret(_), None) => None,
        }
    }

    /// Removes a stream that moves to another transport: its connection ends, and data in flight is lost.
    pub(crate) fn take(&mut self, now: Instant, id: StreamId) -> Option<Session> {
        let mut session = if self.connection(id).is_some() {
            self.remove(now, id, None)?
        } else {
            let call = self.sealed.as_mut()?.take_call(id)?;
            self.stop_hearing_refusals();
            call.session
        };
        session.sending.carrier_gone();
        Some(session)
    }

    /// Returns whether the host that a stream calls has no such UDP port.
    pub(crate) fn is_refused(&self, id: StreamId) -> bool {
        self.connection(id).is_some_and(|connection| self.callers.is_refused(connection))
            || self.sealed.as_ref().is_some_and(|sealed| sealed.is_refused(id))
    }

    /// Ends a refused connection attempt: TCP is no alternative.
    pub(crate) fn give_in(&mut self, now: Instant, id: StreamId) {
        if let Some(sealed) = &mut self.sealed {
            sealed.give_in(now, id);
            return;
        }
        let refusal = self.connection(id).and_then(|connection| self.callers.give_in(connection));
        if let Some((remote, quoted)) = refusal {
            in_order(self.driver.endpoint.port_unreachable(now, remote, &quoted));
        }
    }

    /// Notes that the agreement on keys over TCP has failed: a call that has none over UDP either ends at once if the listener has
    /// refused it, or for this reason when its time is over.
    pub(crate) fn note_tcp_failure(&mut self, id: StreamId, error: SealError) {
        let Some(sealed) = &mut self.sealed else { return };
        if let Some((mut call, error)) = sealed.note_tcp_failure(id, error) {
            call.session.unsealed(error);
            self.stop_hearing_refusals();
        }
    }
}

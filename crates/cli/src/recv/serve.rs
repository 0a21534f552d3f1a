//! Receive loop of one stream, from its first packet to its end.

use timeous::core::{Duration, Priority};
use timeous::{Arrival, Hints, Receiver, Sender, clock};

use super::screen::{Screen, SenderEnd};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::meter::{Fields, Meter, record};
use crate::notice::tell;

/// Longest single wait for a caller.
pub(super) const WAIT: Duration = Duration::from_millis(200);

/// Longest wait for the sender's close after the user's interrupt.
const PARTING: Duration = Duration::from_secs(1);

/// Reason for the end of a stream.
pub(super) enum End {
    /// The stream failed.
    Stream(Failure),
    /// The sink failed.
    Sink(Failure),
    /// The caller has sent nothing that can be received, and is let go.
    Stranger,
}

/// Time within which a caller must have sent something that can be received. To a TCP port strangers connect, too; a caller by DCCP, or
/// with a credential, has shaken hands, and its source may begin late.
pub(super) fn limit_of_caller(sender: &Sender) -> Option<Duration> {
    let options = sender.options();
    (sender.stats().transport == "tcp" && !options.security.has_credential()).then_some(options.timeout)
}

/// Serves one stream until its end; with a limit, until nothing that can be received has come within it.
pub(super) fn serve(
    (mut sender, mut receiver): (Sender, Receiver),
    limit: Option<Duration>,
    screen: &mut Screen,
    meter: &mut Meter,
    interrupt: &Interrupt,
    last: &mut Fields,
) -> Result<(), End> {
    let peer = receiver.peer().map_or_else(|| "the sender".to_owned(), |peer| peer.to_string());
    match receiver.stream_id() {
        // Escaped, since the caller chose it.
        Some(stream_id) => tell(format_args!("connected: {peer}, stream {stream_id:?}")),
        None => tell(format_args!("connected: {peer}")),
    }
    screen.begin_stream();
    let mut closing = None;
    let until = limit.map(|limit| clock::now() + limit);
    let ended = loop {
        if until.is_some_and(|until| clock::now() > until && !screen.has_begun()) {
            receiver.close();
            break Err(End::Stranger);
        }
        if interrupt.is_set() {
            let since = *closing.get_or_insert_with(|| {
                receiver.close();
                clock::now()
            });
            // A sender that is gone does not close.
            if clock::now().saturating_since(since) > PARTING {
                break Ok(());
            }
        }
        let shown = match receiver.receive(Some(screen.due())) {
            Ok(Arrival::Data(received)) => screen.take(received.at, &received.bytes),
            Ok(Arrival::Nothing) => screen.pass_time(),
            Ok(Arrival::End) => break Ok(()),
            // After the user's interrupt, errors of closing do not matter.
            Err(_) if closing.is_some() => break Ok(()),
            Err(error) => break Err(End::Stream(Failure::from(error))),
        };
        if let Err(failure) = shown {
            receiver.close();
            break Err(End::Sink(failure));
        }
        for message in screen.control() {
            let hints = Hints { priority: Priority::HIGHEST, ..Hints::default() };
            // The ring may be full, or the stream has ended, which is reported next.
            let _ = sender.send(&message.write(), hints);
        }
        while sender.poll_delivery().is_some() {}
        if meter.is_due() {
            let mut stream = record(&[&receiver.stats()]);
            stream.insert("peer".to_owned(), peer.clone().into());
            let (fields, line) = screen.record(&stream);
            meter.write(&fields, &line);
        }
    };
    let is_over_tcp = receiver.stats().transport == "tcp";
    let ended = match (ended, screen.take_end()) {
        // The kernel closes the connection of a process that was killed as it closes others. DCCP's close is the sender's own.
        (Ok(()), SenderEnd::Awaited) if is_over_tcp && closing.is_none() => {
            let why = "the connection ended before the stream did: the sender was killed or has crashed";
            Err(End::Stream(Failure::Peer(why.to_owned())))
        }
        (ended, _) => ended,
    };
    *last = record(&[&receiver.stats()]);
    last.insert("peer".to_owned(), peer.into());
    ended
}

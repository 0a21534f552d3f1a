//! Opening of a stream that this process runs.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use timeous_core::Duration;
use timeous_engine::{
    Carrier, CloseReason, DccpConfig, Engine, EngineError, Listener, Sealing, ServiceCode, Stream, StreamConfig, clock,
};
use timeous_seal::Intent;

use super::attempts::{Cancel, call};
use super::handshake::{REPAIRED, TIMEWAIT, handshake, local};
use super::purpose::Purpose;
use super::sealing;
use crate::error::Error;
use crate::options::contradictions::{CREDENTIALS, Contradiction};
use crate::options::{Encapsulation, Options, Role, TransportName};
use crate::uri::Uri;

/// Calls, or waits for a caller, until the stream is open; a listening end also returns the listener, which tells other
/// callers that it is busy.
pub(super) fn open(
    engine: &Engine,
    uri: &Uri,
    purpose: Purpose,
    cancel: Option<Cancel<'_>>,
) -> Result<Option<(Stream, Option<Listener>)>, Error> {
    match &uri.role {
        Role::Caller { host, port } => {
            let sealing = sealing::of_caller(&uri.options, host, purpose.intent())?;
            let connect = |remote| {
                sealing::check_call(&uri.options, remote)?;
                Ok(engine.connect(remote, config(&uri.options, sealing.clone()))?)
            };
            Ok(call((host, *port), &uri.options, cancel, connect)?.map(|stream| (stream, None)))
        }
        Role::Listener { address, port } => {
            let listener = listen(engine, local(*address, *port), &uri.options, Some(1), purpose.callers())?;
            let (stream, listener) = be_called(listener, &uri.options)?;
            Ok(Some((stream, Some(listener))))
        }
    }
}

/// Runs a stream over a connected TCP socket.
pub(super) fn adopt(engine: &Engine, socket: TcpStream, options: &Options) -> Result<Stream, Error> {
    if options.security.has_credential() {
        return Err(Contradiction::new(
            CREDENTIALS,
            "an adopted connection is not encrypted by Timeous: leave out the credential",
        )
        .into());
    }
    sealing::check_call(options, socket.peer_addr().map_err(EngineError::from)?)?;
    Ok(engine.adopt(socket, config(options, Sealing::Off))?)
}

/// Listens for up to `room` callers; `None`: any number. `callers`: see [`Security::callers`](crate::Security::callers).
pub(super) fn listen(
    engine: &Engine,
    local: SocketAddr,
    options: &Options,
    room: Option<usize>,
    callers: Option<Intent>,
) -> Result<Listener, Error> {
    let sealing = sealing::of_listener(options, callers)?;
    Ok(engine.listen_with_room(local, config(options, sealing), room)?)
}

/// Silence after which the peer is probed, with `transport=auto`: less than half of the engine's second (`follow.rs`).
/// A higher value tries TCP needlessly.
const ALIVE: Duration = Duration::from_millis(400);

/// Waits for a caller; one that does not finish its handshake is ignored.
fn be_called(mut listener: Listener, options: &Options) -> Result<(Stream, Listener), Error> {
    loop {
        let Some(mut stream) = listener.accept(None) else { return Err(EngineError::Stopped.into()) };
        let patience = match options.transport {
            // A caller that does not get our answers will come back over TCP.
            TransportName::Auto => options.timeout.min(ALIVE * 2),
            TransportName::Dccp | TransportName::Tcp => options.timeout,
        };
        match handshake(&mut stream, Some(clock::now() + patience)) {
            // A caller that has already closed may have sent data.
            Ok(()) | Err(Some(CloseReason::Peer)) => return Ok((stream, listener)),
            Err(_) => listener.set_room(Some(1)),
        }
    }
}

fn config(options: &Options, sealing: Sealing) -> StreamConfig {
    let choice = options.clone();
    let dccp = DccpConfig {
        mps: options.mtu.unwrap_or(Options::BASE_MTU).min(Options::BASE_MTU),
        largest: Some(options.mtu.unwrap_or(Options::MOST_MTU)),
        fragments: true,
        connect_timeout: options.timeout,
        // A silent peer is probed early enough for either end to migrate.
        keep_alive: match options.transport {
            // A path that blocks UDP must be detected soon.
            TransportName::Auto if options.keep_alive.is_none() => Some(ALIVE),
            _ => options.asks_after(),
        },
        silence: options.timeout / 2,
        // An ending listener may be gone before its caller could answer a CloseReq; a Close needs no answer.
        server_holds_timewait: true,
        msl: TIMEWAIT / 2,
        parity: options.parity(),
        reports: if options.has_deadlines() { DccpConfig::REPORTS_FOR_DEADLINES } else { 1 },
        controller: options.deciding(),
        ..DccpConfig::default().with_ccids(&[options.ccid])
    };
    let tcp = timeous_engine::TcpConfig {
        framing: options.framing,
        unordered: options.unordered,
        longest: options.record_payload(),
        connect_timeout: options.timeout,
        silence: options.timeout,
        // ADUs without deadlines are never withdrawn.
        into_retransmissions: options.has_deadlines(),
        controller: options.deciding(),
        awaits_data: options.security.callers == Some(Intent::Publish),
        half_close: true,
    };
    StreamConfig {
        carrier: match (options.transport, options.encapsulation) {
            (TransportName::Tcp, _) => Carrier::Tcp,
            (TransportName::Auto, _) => Carrier::Auto,
            (TransportName::Dccp, Encapsulation::Udp) => Carrier::Udp,
            (TransportName::Dccp, Encapsulation::None) => Carrier::Ip,
        },
        local: options.local,
        dccp,
        tcp,
        service: ServiceCode::from_bytes(options.service),
        dccp_port: options.dccp_port,
        slots: options.slots.next_power_of_two(),
        choice: Arc::new(move || choice.choice()),
        // TCP retransmits by itself.
        repair: (options.repairs() && options.transport != TransportName::Tcp).then_some(REPAIRED),
        sealing,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener};

    use timeous_core::{AduMeta, Instant};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// The controllers of the macroflows to `host`, when one datagram has arrived there over TCP.
    fn controllers(host: &str, query: &str) -> Vec<&'static str> {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let engine = Engine::start().unwrap();
        let uri = format!("timeous://{host}:{port}?transport=tcp{query}").parse().unwrap();
        let (mut stream, _) = open(&engine, &uri, Purpose::Send, None).unwrap().expect("nobody cancels");
        let _peer = listener.accept().unwrap();
        let end = clock::now() + PATIENCE;
        let meta = AduMeta { deadline: Some(Instant::FAR_FUTURE), ..AduMeta::default() };
        stream.sending().enqueue(&meta, b"one").unwrap();
        while stream.sending().poll_completion().is_none() {
            assert!(clock::now() < end, "{:?}", stream.sending().snapshot());
            stream.sending().wait(Some(end));
        }
        let host: IpAddr = host.parse().unwrap();
        let view = engine.congestion().lock().snapshot();
        let there = view.macroflows.iter().filter(|one| one.destination.addr == host && !one.flows.is_empty());
        there.map(|one| one.controller).collect()
    }

    #[test]
    fn a_live_stream_or_the_controller_that_a_uri_names_holds_back_the_kernels_tcp() {
        assert_eq!(controllers("127.0.78.1", "&controller=copa"), ["copa"]);
        assert_eq!(controllers("127.0.78.2", ""), ["live"]);
        assert_eq!(controllers("127.0.78.3", "&policy=fifo").len(), 0);
    }

    /// Source addresses of the macroflows to `host` of streams `from` these addresses, when each has delivered a datagram.
    fn sources(host: &str, query: &str, from: &[Option<IpAddr>]) -> Vec<Option<IpAddr>> {
        let engine = Engine::start().unwrap();
        let mut listeners = Vec::new();
        let mut streams = Vec::new();
        for &local in from {
            let at = SocketAddr::new(host.parse().unwrap(), 0);
            let uri: Uri = format!("timeous://:1?{query}").parse().unwrap();
            let mut listener = listen(&engine, at, &uri.options, None, None).unwrap();
            let mut uri: Uri = format!("timeous://{}?{query}", listener.local_addr()).parse().unwrap();
            uri.options.local = local;
            let (mut stream, _) = open(&engine, &uri, Purpose::Send, None).unwrap().expect("nobody cancels");
            stream.sending().enqueue(&AduMeta::default(), b"one").unwrap();
            let end = clock::now() + PATIENCE;
            let far = listener.accept(Some(end)).expect("the caller");
            assert!(local.is_none() || local == far.peer().map(|peer| peer.ip()), "{local:?} {:?}", far.peer());
            while stream.sending().poll_completion().is_none() {
                assert!(clock::now() < end, "{:?}", stream.sending().snapshot());
                stream.sending().wait(Some(end));
            }
            listeners.push((listener, far));
            streams.push(stream);
        }
        let host: IpAddr = host.parse().unwrap();
        let view = engine.congestion().lock().snapshot();
        let there = view.macroflows.iter().filter(|one| one.destination.addr == host && !one.flows.is_empty());
        there.map(|one| one.destination.source).collect()
    }

    #[test]
    fn another_uplink_shares_nothing_and_the_routes_own_address_is_the_same_as_none() {
        let second: IpAddr = "127.0.79.9".parse().unwrap();
        for (host, query) in [
            ("127.0.79.1", ""),
            ("127.0.79.2", "passphrase=between+us+two"),
            ("127.0.79.3", "transport=auto"),
            ("127.0.79.4", "transport=tcp&controller=copa"),
        ] {
            let own = timeous_engine::udp::local_for(host.parse().unwrap()).unwrap();
            let mut seen = sources(host, query, &[None, Some(own), Some(second)]);
            seen.sort();
            assert_eq!(seen, [None, Some(second)], "{host} {query}");
        }
    }

    #[test]
    fn an_address_that_this_host_does_not_have_or_of_the_other_family_is_refused() {
        let engine = Engine::start().unwrap();
        for (local, word) in [("192.0.2.1", "192.0.2.1"), ("::1", "other family")] {
            for transport in ["dccp", "tcp", "auto"] {
                let uri =
                    format!("timeous://127.0.0.1:9?local={local}&transport={transport}&timeout=1s").parse().unwrap();
                let error = open(&engine, &uri, Purpose::Send, None).unwrap_err().to_string();
                assert!(error.contains(word), "{transport}: {error}");
            }
        }
    }
}

//! Attacks on the handshake and on associations, off the path and on it.

use std::net::{Ipv4Addr, SocketAddr};

use timeous_core::Duration;
use timeous_seal::{AssociationId, Endpoint, EndpointConfig, Event, SEALED_HEADER_LEN};

use crate::support::{DELAY, Fate, Pair, caller_with, listener_with, verdict};
use crate::{SECRET, agreed};

/// Kinds of datagrams, as docs/design/security.md has them.
const HANDSHAKE: u8 = 0x10;
const RETRY: u8 = 0x11;
const FORGOTTEN: u8 = 0x13;

fn be(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A handshake datagram with an offset, and bytes that are not TLS.
fn garbage(to: u32, from: u32, offset: u16, bytes: &[u8]) -> Vec<u8> {
    let lengths = [&offset.to_be_bytes()[..], &[0; 2], &(bytes.len() as u16).to_be_bytes(), &[0]].concat();
    let mut datagram = [&[HANDSHAKE, 1][..], &be(to), &be(from), &lengths, bytes].concat();
    if to == 0 {
        datagram.resize(1200, 0);
    }
    datagram
}

/// Identifiers in a handshake datagram: the receiver's and the sender's.
fn identifiers(datagram: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(datagram[at..at + 4].try_into().unwrap());
    (number(2), number(6))
}

fn first_datagram(pair: &mut Pair) -> Vec<u8> {
    let mut hello = Vec::new();
    pair.caller.poll_transmit(pair.now, &mut hello).unwrap();
    hello
}

#[test]
fn garbage_from_forged_addresses_takes_no_callers_place() {
    let config = EndpointConfig::default();
    let mut pair = Pair::with(config.clone(), listener_with(SECRET));
    let mut hosts = 0..;
    let mut flood = |pair: &mut Pair| {
        for host in hosts.by_ref().take(100) {
            let forged = (Ipv4Addr::from(0x0a00_0000 + host), 9).into();
            pair.listener.handle_datagram(pair.now, forged, &garbage(0, 7, 0, b"no TLS"), &mut Vec::new());
        }
        pair.run(DELAY);
    };
    (0..100).for_each(|_| flood(&mut pair));
    assert!(pair.listener.len() <= config.calls_without_token, "{} calls are kept", pair.listener.len());
    pair.call(&caller_with(SECRET));
    (0..100).for_each(|_| flood(&mut pair));
    agreed(&verdict(&mut pair.caller));
}

/// Begins a call from a true address with these bytes of TLS, by a token if the listener asks for one.
fn call_from(pair: &mut Pair, from: SocketAddr, id: u32, tls: &[u8]) {
    pair.listener.handle_datagram(pair.now, from, &garbage(0, id, 0, tls), &mut Vec::new());
    let mut answer = Vec::new();
    while let Some(to) = pair.listener.poll_transmit(pair.now, &mut answer) {
        if to == from && answer[0] == RETRY {
            let mut again = garbage(0, id, 0, b"");
            again[16] = 16;
            again[14..16].copy_from_slice(&(tls.len() as u16).to_be_bytes());
            again[17..33].copy_from_slice(&answer[5..]);
            again[33..33 + tls.len()].copy_from_slice(tls);
            pair.listener.handle_datagram(pair.now, from, &again, &mut Vec::new());
        }
        answer.clear();
    }
}

#[test]
fn calls_that_have_failed_give_way_to_others_when_all_places_are_taken() {
    let config = EndpointConfig::default();
    let mut pair = Pair::with(config.clone(), listener_with(SECRET));
    for host in 0..config.max_half_open as u32 {
        call_from(&mut pair, (Ipv4Addr::from(0x0a00_0000 + host), 9).into(), 7, b"no TLS");
        pair.now += Duration::from_millis(3);
    }
    assert_eq!(pair.listener.half_open(), config.max_half_open);
    pair.call(&caller_with(SECRET));
    pair.run(Duration::from_secs(1));
    agreed(&verdict(&mut pair.caller));
}

#[test]
fn one_host_does_not_take_the_calls_of_all_others() {
    let mut pair = Pair::new(listener_with(SECRET));
    let mut other = Endpoint::new(EndpointConfig::default(), &[7; 32]);
    other.connect(pair.now, pair.listener_address, &caller_with(SECRET), Duration::from_secs(10)).unwrap();
    let mut hello = Vec::new();
    other.poll_transmit(pair.now, &mut hello).unwrap();
    let tls = hello[17..17 + usize::from(u16::from_be_bytes([hello[14], hello[15]]))].to_vec();
    let (host, mut ids, mut datagram) = ("198.51.100.7:9".parse().unwrap(), 1.., Vec::new());
    for step in 0..300 {
        if step == 150 {
            pair.call(&caller_with(SECRET));
        }
        // The host is always the first.
        for id in ids.by_ref().take(20) {
            call_from(&mut pair, host, id, &tls);
        }
        while pair.caller.poll_transmit(pair.now, &mut datagram).is_some() {
            pair.listener.handle_datagram(pair.now, pair.caller_address, &datagram, &mut Vec::new());
            datagram.clear();
        }
        while let Some(to) = pair.listener.poll_transmit(pair.now, &mut datagram) {
            if to == pair.caller_address {
                pair.caller.handle_datagram(pair.now, pair.listener_address, &datagram, &mut Vec::new());
            }
            datagram.clear();
        }
        pair.now += DELAY;
        pair.caller.handle_timeout(pair.now);
        pair.listener.handle_timeout(pair.now);
    }
    agreed(&verdict(&mut pair.caller));
}

#[test]
fn an_address_that_a_caller_claims_during_its_handshake_gets_three_bytes_for_one() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    let hello = first_datagram(&mut pair);
    let own = pair.caller_address;
    pair.listener.handle_datagram(pair.now, own, &hello, &mut Vec::new());
    let mut answer = Vec::new();
    assert_eq!(pair.listener.poll_transmit(pair.now, &mut answer), Some(own));
    // The caller has a true address and knows the listener's identifier. Its next datagram has a forged sender.
    let (caller, listener) = identifiers(&answer);
    let victim: SocketAddr = "198.51.100.7:9".parse().unwrap();
    let forged = garbage(listener, caller, 1, b"x");
    pair.listener.handle_datagram(pair.now, victim, &forged, &mut Vec::new());
    let mut sent = 0;
    for _ in 0..600 {
        answer.clear();
        while let Some(to) = pair.listener.poll_transmit(pair.now, &mut answer) {
            sent += if to == victim { answer.len() } else { 0 };
            answer.clear();
        }
        pair.now += DELAY;
        pair.listener.handle_timeout(pair.now);
    }
    assert!(sent <= 3 * forged.len(), "{sent} bytes for {}", forged.len());
}

#[test]
fn a_caller_whose_address_changes_during_its_handshake_is_served() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY * 2);
    pair.caller_address = "192.0.2.2:6000".parse().unwrap();
    pair.run(DELAY * 4);
    agreed(&verdict(&mut pair.caller));
    agreed(&verdict(&mut pair.listener));
}

#[test]
fn an_answer_from_elsewhere_does_not_lead_a_call_away() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY);
    pair.transmit();
    // A copy of the listener's answer overtakes it.
    let answer = pair.captured.last().unwrap().1.clone();
    let elsewhere = "198.51.100.7:9".parse().unwrap();
    pair.caller.handle_datagram(pair.now, elsewhere, &answer, &mut Vec::new());
    let mut datagram = Vec::new();
    while let Some(to) = pair.caller.poll_transmit(pair.now, &mut datagram) {
        assert_eq!(to, pair.listener_address);
        datagram.clear();
    }
}

#[test]
fn a_forged_handshake_ends_no_agreement() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY * 3);
    let (caller, listener) = (agreed(&verdict(&mut pair.listener)).value(), identifiers(&pair.captured[1].1));
    assert_eq!(caller, listener.1);
    // The listener's answer is not acknowledged yet, so that its end of the handshake goes on.
    let forged = garbage(listener.1, listener.0, 0, &vec![0; 65_000]);
    let from = pair.caller_address;
    for offset in [0, 1_000] {
        let mut forged = forged.clone();
        forged[10..12].copy_from_slice(&u16::to_be_bytes(offset));
        pair.listener.handle_datagram(pair.now, from, &forged, &mut Vec::new());
    }
    pair.run(Duration::from_secs(1));
    let caller = agreed(&verdict(&mut pair.caller));
    let acknowledged = pair.captured.iter().rev().find(|(from_caller, _)| !from_caller).unwrap().1[12..14].to_vec();
    assert!(u16::from_be_bytes(acknowledged.try_into().unwrap()) < 2_000, "forged bytes are not counted");
    let there = AssociationId::new(listener.1);
    assert!(pair.seal(false, there, b"still here") && pair.seal(true, caller, b"still here"));
    pair.run(DELAY);
    assert_eq!(pair.packets.len(), 2);
}

#[test]
fn an_acknowledgement_after_the_handshake_is_heard() {
    let mut pair = Pair::new(listener_with(SECRET));
    let mut is_lost = false;
    pair.call(&caller_with(SECRET));
    pair.run(DELAY * 4);
    // The caller's acknowledgement of the answer is lost.
    pair.path = Box::new(move |_| if std::mem::replace(&mut is_lost, true) { Fate::Arrives } else { Fate::Lost });
    let (caller, listener) = (agreed(&verdict(&mut pair.caller)), agreed(&verdict(&mut pair.listener)));
    pair.caller.set_used(caller, true);
    pair.listener.set_used(listener, true);
    let before = pair.captured.len();
    pair.run(Duration::from_secs(20));
    let answers = pair.captured[before..].iter().filter(|(from_caller, _)| !from_caller).count();
    assert_eq!(answers, 1, "one repetition is acknowledged");
}

#[test]
fn a_packet_right_behind_the_answer_takes_away_no_acknowledgement() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY * 3);
    let listener = agreed(&verdict(&mut pair.listener));
    pair.listener.set_used(listener, true);
    pair.transmit();
    let before = pair.captured.len();
    assert!(pair.seal(false, listener, b"at once"));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.packets.len(), 1);
    let from_listener = pair.captured[before..].iter().filter(|(from_caller, _)| !from_caller).count();
    assert_eq!(from_listener, 1, "the answer is not repeated");
}

#[test]
fn a_forged_or_stale_token_does_not_keep_a_caller_out() {
    let config = EndpointConfig::default();
    let mut pair = Pair::with(config.clone(), listener_with(SECRET));
    // Others have the places without a token.
    let mut others = Endpoint::new(EndpointConfig::default(), &[7; 32]);
    others.connect(pair.now, pair.listener_address, &caller_with(SECRET), Duration::from_secs(10)).unwrap();
    let mut hello = Vec::new();
    others.poll_transmit(pair.now, &mut hello).unwrap();
    for host in 0..config.calls_without_token as u32 {
        let other = (Ipv4Addr::from(0x0a00_0000 + host), 9).into();
        pair.listener.handle_datagram(pair.now, other, &hello, &mut Vec::new());
    }
    pair.call(&caller_with(SECRET));
    let (_, caller) = identifiers(&first_datagram(&mut pair));
    let retry = [&[RETRY][..], &be(caller), &[0x55; 16]].concat();
    pair.caller.handle_datagram(pair.now, pair.listener_address, &retry, &mut Vec::new());
    pair.run(Duration::from_secs(4));
    agreed(&verdict(&mut pair.caller));
}

#[test]
fn a_peer_that_begins_no_connection_does_not_keep_its_association() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (caller, _) = (agreed(&caller), agreed(&listener));
    pair.caller.set_used(caller, true);
    for _ in 0..15 {
        pair.seal(true, caller, b"nothing for a connection");
        pair.run(Duration::from_secs(1));
    }
    assert!(pair.listener.is_empty());
}

#[test]
fn a_forged_notice_is_told_once_so_that_the_peer_is_asked() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (caller, listener) = (agreed(&caller), agreed(&listener));
    pair.caller.set_used(caller, true);
    pair.listener.set_used(listener, true);
    let notice = [&[FORGOTTEN][..], &be(listener.value())].concat();
    for _ in 0..3 {
        pair.caller.handle_datagram(pair.now, pair.listener_address, &notice, &mut Vec::new());
    }
    assert_eq!(pair.caller.poll_event(), Some(Event::Doubted { id: caller }));
    assert_eq!(pair.caller.poll_event(), None);
    // The answer of the peer, and another notice right behind it.
    assert!(pair.seal(false, listener, b"here"));
    pair.run(DELAY);
    pair.caller.handle_datagram(pair.now, pair.listener_address, &notice, &mut Vec::new());
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.caller.poll_event(), None);
    pair.caller.handle_datagram(pair.now, pair.listener_address, &notice, &mut Vec::new());
    assert_eq!(pair.caller.poll_event(), Some(Event::Doubted { id: caller }));
    assert!(pair.caller.seal(caller, &mut vec![0; SEALED_HEADER_LEN + 1]));
}

#[test]
fn a_caller_that_claims_the_name_of_another_does_not_take_it() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (_, listener) = (agreed(&caller), agreed(&listener));
    pair.listener.set_used(listener, true);
    let hello = pair.captured[0].1.clone();
    let (_, victim) = identifiers(&hello);
    // An attacker that has seen the victim's identifier begins a call under it, and then forges the victim's address.
    let own = "198.51.100.7:9".parse().unwrap();
    pair.listener.handle_datagram(pair.now, own, &hello, &mut Vec::new());
    let mut answer = Vec::new();
    assert_eq!(pair.listener.poll_transmit(pair.now, &mut answer), Some(own));
    let to = identifiers(&answer).1;
    pair.listener.handle_datagram(pair.now, pair.caller_address, &garbage(to, victim, 1, b"x"), &mut Vec::new());
    pair.listener.handle_datagram(pair.now, pair.caller_address, &garbage(to, victim, 0, &[0; 9]), &mut Vec::new());
    pair.run(Duration::from_secs(30));
    assert_eq!(pair.listener.len(), 1);
    // A late repetition of the victim's first datagram is still its own.
    pair.listener.handle_datagram(pair.now, pair.caller_address, &hello, &mut Vec::new());
    assert_eq!(pair.listener.len(), 1);
}

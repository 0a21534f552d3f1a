//! Calls between two endpoints in virtual time: agreements, refusals, bad paths, hostile datagrams.

mod attacks;
mod support;

use std::sync::Arc;

use support::{DELAY, Fate, Pair, bad_path, caller_with, identity, listener, listener_with, passphrase, verdict};
use timeous_core::{Duration, Instant};
use timeous_seal::{
    Access, Admission, Call, CallerCredential, CertificateFault, Endpoint, EndpointConfig, Event, Intent,
    ListenerCredential, OVERHEAD, Received, Refusal, SealError, SharedPassphrase, Trust, read_certificates,
    write_plain_notice,
};

const SECRET: &str = "a secret of ours";

fn failed(event: Option<Event>) -> SealError {
    match event {
        Some(Event::Failed { error, .. }) => error,
        other => panic!("no failure: {other:?}"),
    }
}

fn agreed(event: &Option<Event>) -> timeous_seal::AssociationId {
    match event {
        Some(Event::Agreed { id, .. }) => *id,
        other => panic!("no agreement: {other:?}"),
    }
}

#[test]
fn a_packet_of_the_caller_leaves_after_one_round_trip_behind_its_proof() {
    let mut pair = Pair::new(listener_with(SECRET));
    let id = pair.call(&caller_with(SECRET));
    assert!(!pair.seal(true, id, b"too early"));
    // Hello and its answer.
    pair.run(DELAY * 2);
    assert_eq!(pair.caller.poll_event(), Some(Event::CanSeal { id }));
    pair.transmit();
    assert!(pair.seal(true, id, b"hello") && pair.packets.is_empty());
    pair.run(DELAY);
    assert_eq!(pair.packets[0].2, b"hello");
    let there = agreed(&pair.listener.poll_event());
    // The listener's packets come behind its own proof.
    pair.transmit();
    assert!(pair.seal(false, there, b"welcome") && pair.caller.poll_event().is_none());
    pair.run(DELAY);
    assert_eq!((agreed(&pair.caller.poll_event()), &*pair.packets[1].2), (id, &b"welcome"[..]));
    let sealed = pair.captured.iter().find(|(_, datagram)| datagram[0] == 0x40).unwrap();
    assert_eq!(sealed.1.len(), 5 + OVERHEAD);
}

#[test]
fn before_the_answer_a_caller_opens_nothing_and_a_listener_that_does_not_admit_it_neither() {
    let mut pair = Pair::new(listener_with("not our secret"));
    let id = pair.call(&caller_with(SECRET));
    pair.run(DELAY * 2);
    assert_eq!(pair.caller.poll_event(), Some(Event::CanSeal { id }));
    pair.transmit();
    assert!(pair.seal(true, id, b"hello"));
    pair.run(Duration::from_secs(1));
    assert!(pair.packets.is_empty() && pair.listener.poll_event().is_none());
    assert_eq!(failed(pair.caller.poll_event()), SealError::WrongPassphrase);
    assert!(!pair.seal(true, id, b"hello"));

    // The answer is lost: what the listener sends behind it is not believed before the answer comes again.
    let mut pair = Pair::new(listener_with(SECRET));
    let id = pair.call(&caller_with(SECRET));
    pair.run(DELAY * 3);
    pair.path = Box::new(|_| Fate::Lost);
    pair.transmit();
    pair.path = Box::new(|_| Fate::Arrives);
    let there = agreed(&pair.listener.poll_event());
    assert!(pair.seal(false, there, b"early"));
    pair.run(DELAY);
    assert!(pair.packets.is_empty());
    pair.run(Duration::from_secs(1));
    assert_eq!(agreed(&verdict(&mut pair.caller)), id);
}

#[test]
fn packets_go_both_ways_and_show_nothing_of_themselves() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (caller, listener) = (agreed(&caller), agreed(&listener));
    let before = pair.captured.len();
    for round in 0..20 {
        assert!(pair.seal(true, caller, b"the same words") && pair.seal(false, listener, b"the same words"));
        pair.run(DELAY);
        assert_eq!(pair.packets.len(), 2 * round + 2);
    }
    let sealed: Vec<_> = pair.captured[before..].iter().map(|(_, datagram)| datagram[9..].to_vec()).collect();
    for (at, one) in sealed.iter().enumerate() {
        assert!(sealed[..at].iter().all(|other| other.iter().zip(one).filter(|(a, b)| a == b).count() < one.len() / 2));
    }
}

#[test]
fn a_wrong_passphrase_is_told_and_the_right_one_is_served_beside_it() {
    let mut pair = Pair::new(listener_with(SECRET));
    for _ in 0..200 {
        pair.call(&caller_with("not our secret"));
    }
    let right = pair.call(&caller_with(SECRET));
    pair.run(Duration::from_secs(1));
    let events: Vec<_> = std::iter::from_fn(|| verdict(&mut pair.caller)).collect();
    assert_eq!(events.len(), 201);
    for event in events {
        match event {
            Event::Agreed { id, .. } => assert_eq!(id, right),
            Event::Failed { error, .. } => assert_eq!(error, SealError::WrongPassphrase),
            Event::CanSeal { .. } | Event::Doubted { .. } => unreachable!(),
        }
    }
    assert!(matches!(pair.listener.poll_event(), Some(Event::Agreed { .. })));
    assert_eq!(pair.listener.poll_event(), None, "refused callers are nobody's business");
    pair.run(Duration::from_secs(30));
    assert_eq!((pair.listener.half_open(), pair.caller.len(), pair.listener.len()), (0, 0, 0));
}

#[test]
fn who_answers_in_the_listeners_place_learns_no_secret_and_is_found_out() {
    /// Takes every proof for right, and proves with another passphrase.
    #[derive(Debug)]
    struct Impostor;
    impl Access for Impostor {
        fn admit(&self, _: &Call<'_>) -> Admission {
            Admission::Open
        }
    }
    let mut pair = Pair::new(listener(Arc::new(Impostor)));
    let (caller, _) = pair.outcome(&caller_with(SECRET));
    assert_eq!(failed(caller), SealError::NoPassphraseThere);
}

#[test]
fn missing_passphrases_are_told_apart() {
    let mut pair = Pair::new(listener_with(SECRET));
    let without = CallerCredential::new("192.0.2.1", &Trust::Passphrase, None, None, Intent::Publish).unwrap();
    assert_eq!(failed(pair.outcome(&without).0), SealError::PassphraseWanted);
    let mut pair = Pair::new(listener(Arc::new(SharedPassphrase(None))));
    assert_eq!(failed(pair.outcome(&caller_with(SECRET)).0), SealError::NoPassphraseThere);
}

#[derive(Debug)]
struct Cameras;

impl Access for Cameras {
    fn admit(&self, call: &Call<'_>) -> Admission {
        match (call.stream_id, call.intent) {
            ("front door", _) => Admission::With(passphrase("front")),
            ("garden", Intent::Publish) => Admission::With(passphrase("garden")),
            ("garden", Intent::Play) => Admission::Refused(Refusal::NotAllowed("the garden may only send".into())),
            _ => Admission::Refused(Refusal::UnknownStream),
        }
    }
}

#[test]
fn stream_ids_have_passphrases_and_rights_of_their_own() {
    let call = |id: &str, secret: &str, intent| {
        let mut pair = Pair::new(listener(Arc::new(Cameras)));
        let credential =
            CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase(secret)), None, intent).unwrap();
        pair.outcome(&credential.with_stream_id(id).unwrap())
    };
    let (caller, listener) = call("garden", "garden", Intent::Publish);
    assert!(matches!(caller, Some(Event::Agreed { .. })));
    assert!(matches!(listener, Some(Event::Agreed { stream_id, .. }) if stream_id == "garden"));
    assert_eq!(failed(call("garden", "front", Intent::Publish).0), SealError::WrongPassphrase);
    assert_eq!(
        failed(call("garden", "garden", Intent::Play).0),
        SealError::NotAllowed("the garden may only send".into())
    );
    assert_eq!(failed(call("cellar", "garden", Intent::Publish).0), SealError::UnknownStream("cellar".into()));
}

#[test]
fn certificates_are_checked_by_fingerprint_name_and_authority() {
    let (own, other) = (identity("camera.example"), identity("other.example"));
    let access = || Arc::new(SharedPassphrase(None));
    let call = |host: &str, trust: &Trust| {
        let mut pair = Pair::new(ListenerCredential::new(Some(&own), None, access()).unwrap());
        let credential = CallerCredential::new(host, trust, None, None, Intent::Publish).unwrap();
        pair.outcome(&credential).0
    };
    assert!(matches!(call("anything", &Trust::Fingerprint(own.fingerprint())), Some(Event::Agreed { .. })));
    assert_eq!(
        failed(call("anything", &Trust::Fingerprint(other.fingerprint()))),
        SealError::Certificate(CertificateFault::Fingerprint(own.fingerprint().to_string()))
    );
    assert!(matches!(failed(call("camera.example", &Trust::System)), SealError::Certificate(_)));
}

#[test]
fn an_authority_vouches_for_both_ends() {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "our authority");
    let authority_pem = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let signed = |name: &str, from: i32, to: i32| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let pem = params.signed_by(&key, &issuer).unwrap().pem();
        timeous_seal::Identity::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    };
    let authorities = read_certificates(authority_pem.as_bytes()).unwrap();
    let trust = Trust::Authorities(authorities.clone());
    let call =
        |listener: &timeous_seal::Identity, mutual: bool, host: &str, caller: Option<&timeous_seal::Identity>| {
            let wanted = mutual.then_some(&authorities[..]);
            let access = Arc::new(SharedPassphrase(None));
            let mut pair = Pair::new(ListenerCredential::new(Some(listener), wanted, access).unwrap());
            pair.outcome(&CallerCredential::new(host, &trust, None, caller, Intent::Play).unwrap()).0
        };
    let (server, client) = (signed("a.example", 2020, 4000), signed("b.example", 2020, 4000));
    assert!(matches!(call(&server, false, "a.example", None), Some(Event::Agreed { .. })));
    assert!(matches!(call(&server, true, "a.example", Some(&client)), Some(Event::Agreed { .. })));
    assert!(matches!(
        failed(call(&server, false, "c.example", None)),
        SealError::Certificate(CertificateFault::Name(_))
    ));
    let old = signed("a.example", 2020, 2021);
    assert_eq!(
        failed(call(&old, false, "a.example", None)),
        SealError::Certificate(CertificateFault::Clock("expired"))
    );
    let early = signed("a.example", 3000, 4000);
    assert_eq!(
        failed(call(&early, false, "a.example", None)),
        SealError::Certificate(CertificateFault::Clock("not valid yet"))
    );
    assert!(matches!(failed(call(&server, true, "a.example", None)), SealError::OurCertificate(_)));
    let stranger = identity("b.example");
    assert!(matches!(failed(call(&server, true, "a.example", Some(&stranger))), SealError::OurCertificate(_)));
    assert_eq!(failed(call(&stranger, false, "b.example", None)), SealError::Certificate(CertificateFault::Untrusted));
}

#[test]
fn a_path_that_loses_repeats_and_reorders_only_takes_longer() {
    let mut agreements = 0;
    for seed in 0..40 {
        let mut pair = Pair::new(listener_with(SECRET));
        pair.path = bad_path(seed);
        let (caller, listener) = pair.outcome(&caller_with(SECRET));
        let both = matches!(caller, Some(Event::Agreed { .. })) && matches!(listener, Some(Event::Agreed { .. }));
        agreements += u32::from(both);
    }
    // Each attempt needs four datagrams, of which the path loses three in ten, within ten seconds.
    assert!(agreements >= 38, "{agreements} of 40");
}

#[test]
fn nobody_there_is_told_after_ten_seconds() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.path = Box::new(|_| Fate::Lost);
    assert_eq!(failed(pair.outcome(&caller_with(SECRET)).0), SealError::NoAnswer);
    assert!(pair.captured.len() < 12, "{} datagrams", pair.captured.len());
}

#[test]
fn a_port_without_a_program_is_told_at_once_and_only_about_a_call_without_an_answer() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.path = Box::new(|_| Fate::Lost);
    pair.call(&caller_with(SECRET));
    pair.run(DELAY);
    let quoted = pair.captured[0].1[..28].to_vec();
    pair.caller.port_unreachable(pair.now, pair.caller_address, &quoted);
    assert_eq!(verdict(&mut pair.caller), None, "from another host");
    pair.caller.port_unreachable(pair.now, pair.listener_address, &quoted);
    assert_eq!(failed(verdict(&mut pair.caller)), SealError::Unreachable);
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY * 2);
    pair.caller.port_unreachable(pair.now, pair.listener_address, &quoted);
    pair.run(DELAY * 2);
    assert!(matches!(verdict(&mut pair.caller), Some(Event::Agreed { .. })), "after an answer it is not believed");
}

#[test]
fn a_plain_peer_is_told_and_a_forged_notice_is_not_believed() {
    // The plain port's answer, and silence.
    let mut pair = Pair::new(listener_with(SECRET));
    pair.path = Box::new(|_| Fate::Lost);
    pair.call(&caller_with(SECRET));
    pair.run(DELAY);
    let mut notice = Vec::new();
    write_plain_notice(&pair.captured[0].1, &mut notice);
    pair.caller.handle_datagram(pair.now, pair.listener_address, &notice, &mut Vec::new());
    pair.run(Duration::from_secs(2));
    assert_eq!(failed(verdict(&mut pair.caller)), SealError::PeerIsPlain);
    // The same notice from an attacker, beside a listener that answers.
    let mut pair = Pair::new(listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    pair.run(DELAY);
    pair.caller.handle_datagram(pair.now, pair.listener_address, &notice, &mut Vec::new());
    pair.run(Duration::from_secs(2));
    assert!(matches!(verdict(&mut pair.caller), Some(Event::Agreed { .. })));
}

#[test]
fn a_restarted_peer_is_noticed_and_a_forged_notice_ends_nothing() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (caller, listener) = (agreed(&caller), agreed(&listener));
    pair.caller.set_used(caller, true);
    pair.listener.set_used(listener, true);
    // Forged, while the peer goes on to send.
    let forged = [&[0x13][..], &pair.captured.last().unwrap().1[2..6]].concat();
    assert!(pair.seal(true, caller, b"x"));
    let to = pair.captured.last().unwrap().1[1..5].to_vec();
    pair.caller.handle_datagram(pair.now, pair.listener_address, &[&[0x13][..], &to].concat(), &mut Vec::new());
    pair.caller.handle_datagram(pair.now, pair.listener_address, &forged, &mut Vec::new());
    for _ in 0..100 {
        pair.seal(false, listener, b"y");
        pair.run(DELAY);
    }
    assert_eq!(verdict(&mut pair.caller), None);
    // Another process at the same address.
    pair.listener = Endpoint::new(EndpointConfig::default(), &[9; 32]);
    for _ in 0..100 {
        pair.seal(true, caller, b"z");
        pair.run(DELAY);
    }
    assert_eq!(failed(verdict(&mut pair.caller)), SealError::Forgotten);
}

#[test]
fn an_address_that_is_not_validated_gets_three_bytes_for_one() {
    let mut pair = Pair::new(listener_with(SECRET));
    // The listener's answers are lost, as if the caller's address was forged.
    pair.path = Box::new(|_| Fate::Arrives);
    pair.call(&caller_with(SECRET));
    let mut hello = Vec::new();
    pair.caller.poll_transmit(pair.now, &mut hello).unwrap();
    let forged = "198.51.100.7:9".parse().unwrap();
    let (mut received, mut sent) = (0, 0);
    for _ in 0..2_000 {
        if received == 0 {
            pair.listener.handle_datagram(pair.now, forged, &hello, &mut Vec::new());
            received += hello.len();
        }
        let mut answer = Vec::new();
        while pair.listener.poll_transmit(pair.now, &mut answer).is_some() {
            sent += std::mem::take(&mut answer).len();
        }
        pair.now += DELAY;
        pair.listener.handle_timeout(pair.now);
    }
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
    assert!(pair.listener.is_empty());
}

#[test]
fn a_flood_of_first_datagrams_leaves_room_for_callers() {
    let config = EndpointConfig::default();
    let mut pair = Pair::with(config.clone(), listener_with(SECRET));
    pair.call(&caller_with(SECRET));
    let mut hello = Vec::new();
    pair.caller.poll_transmit(pair.now, &mut hello).unwrap();
    for host in 0..5_000u32 {
        let forged = (std::net::Ipv4Addr::from(0x0a00_0000 + host), 9).into();
        pair.listener.handle_datagram(pair.now, forged, &hello, &mut Vec::new());
    }
    assert_eq!(pair.listener.half_open(), config.calls_without_token);
    assert_eq!(pair.listener.statistics().retries, 5_000 - config.calls_without_token as u64);
    let mut answer = Vec::new();
    while pair.listener.poll_transmit(pair.now, &mut answer).is_some() {
        assert!(answer.len() <= 3 * hello.len());
        answer.clear();
    }
    // A true caller proves its address with one round trip more.
    let mut late = Pair::with(config, listener_with(SECRET));
    std::mem::swap(&mut late.listener, &mut pair.listener);
    late.call(&caller_with(SECRET));
    late.run(Duration::from_secs(1));
    assert!(matches!(verdict(&mut late.caller), Some(Event::Agreed { .. })));
}

#[test]
fn calls_from_many_true_addresses_have_a_rate() {
    let mut config = EndpointConfig::default();
    // Here they have one address.
    config.calls_per_group = config.calls_per_second;
    let most = config.calls_per_second as u64;
    let mut pair = Pair::with(config, listener_with(SECRET));
    for _ in 0..most + 300 {
        pair.call(&caller_with(SECRET));
    }
    pair.run(Duration::from_millis(200));
    assert!(pair.listener.statistics().agreed <= most, "{:?}", pair.listener.statistics());
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.listener.statistics().agreed, most + 300, "the others repeat their calls");
}

#[test]
fn hostile_datagrams_end_nothing() {
    let mut pair = Pair::new(listener_with(SECRET));
    let (caller, listener) = pair.outcome(&caller_with(SECRET));
    let (caller, listener) = (agreed(&caller), agreed(&listener));
    pair.listener.set_used(listener, true);
    pair.caller.set_used(caller, true);
    assert!(pair.seal(true, caller, b"one"));
    pair.run(DELAY);
    let captured = pair.captured.clone();
    let (address, forged) = (pair.caller_address, "198.51.100.7:9".parse().unwrap());
    for (_, datagram) in &captured {
        for from in [address, forged] {
            for len in 0..datagram.len() {
                pair.listener.handle_datagram(pair.now, from, &datagram[..len], &mut Vec::new());
            }
            for at in 0..datagram.len().min(60) {
                let mut changed = datagram.clone();
                changed[at] ^= 0x55;
                let received = pair.listener.handle_datagram(pair.now, from, &changed, &mut Vec::new());
                assert!(!matches!(received, Received::Packet(_)));
            }
            // A repetition of a true packet, from anywhere.
            let received = pair.listener.handle_datagram(pair.now, from, datagram, &mut Vec::new());
            assert!(!matches!(received, Received::Packet(_)));
        }
    }
    for _ in 0..60 {
        assert!(pair.seal(true, caller, b"two") && pair.seal(false, listener, b"three"));
        pair.run(DELAY);
    }
    assert_eq!(pair.packets.iter().filter(|(_, _, packet)| packet == b"two").count(), 60);
    assert_eq!(pair.packets.iter().filter(|(_, _, packet)| packet == b"three").count(), 60);
}

#[test]
fn an_association_that_no_connection_uses_is_dropped() {
    let mut pair = Pair::new(listener_with(SECRET));
    pair.outcome(&caller_with(SECRET));
    pair.run(Duration::from_secs(15));
    assert!(pair.caller.is_empty() && pair.listener.is_empty());
    assert_eq!(pair.listener.poll_timeout(), None);
}

#[test]
fn secrets_can_be_injected() {
    use timeous_seal::{Cipher, Secret, Secrets};
    let (one, two) = (Secret::new([1; 32]), Secret::new([2; 32]));
    let cipher = Cipher::ChaCha20Poly1305;
    let ours = Secrets { cipher, sealing: one.clone(), opening: two.clone() };
    let theirs = Secrets { cipher, sealing: two, opening: one };
    let mut pair = Pair::new(listener_with(SECRET));
    let caller = pair.caller.inject(Instant::ZERO, pair.listener_address, &ours, 11, 22);
    pair.listener.inject(Instant::ZERO, pair.caller_address, &theirs, 22, 11);
    assert!(pair.seal(true, caller, b"simulated"));
    pair.run(DELAY);
    assert_eq!(pair.packets[0].2, b"simulated");
}

//! Test of what the daemon keeps of a credential in its memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use timeous_engine::{Status, Stream};
use timeous_ipc::Event;
use timeous_ipc::messages::{
    Access, CallerCredential, Credential, Grant, Identity, ListenerCredential, PassphraseKey, Protection, Secret, Trust,
};

use crate::streams::{local, spec};
use crate::support::{Host, next};

/// Number of places of a process's private writable memory that hold these bytes.
fn places(pid: u32, bytes: &[u8]) -> usize {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        // Page by page: a mapping may go away, or have pages that cannot be read.
        let mut region = vec![0; (to - from) as usize];
        for (page, room) in region.chunks_mut(4_096).enumerate() {
            let _unreadable = memory.read_at(room, from + 4_096 * page as u64);
        }
        count += region.windows(bytes.len()).filter(|part| *part == bytes).count();
    }
    count
}

#[test]
fn a_credential_is_gone_with_its_stream() {
    let host = Host::start();
    let mut client = host.client();
    let key: [u8; 32] = std::array::from_fn(|at| (at as u8).wrapping_mul(37) ^ 0x5b);
    let own = timeous_seal::Identity::self_signed(&["127.0.0.1".to_owned()]).unwrap();
    let chain = own.certificates().iter().map(|certificate| certificate.to_vec()).collect();
    let grant = Grant { stream_id: "camera".to_owned(), publish: true, passphrase: PassphraseKey(key) };
    let listening = Credential::Listener(ListenerCredential {
        identity: Some(Identity { chain, key: Secret::new(own.secret_der()) }),
        authorities: None,
        access: Access::Streams { grants: vec![grant], only_publish: None },
    });
    let calling = Credential::Caller(CallerCredential {
        host: "127.0.0.1".to_owned(),
        trust: Trust::Passphrase,
        passphrase: Some(PassphraseKey(key)),
        identity: None,
        publishes: true,
        stream_id: "camera".to_owned(),
    });
    let kept = || [places(host.pid(), &key), places(host.pid(), own.secret_der())];
    client.give_credential(&listening).unwrap();
    assert!(kept().iter().all(|&places| places > 0), "it waits for its stream, and is found");
    let (listener, at) = client.listen_with(local(), spec(), None, Protection::Sealed).unwrap();
    client.give_credential(&calling).unwrap();
    let [ring, socket] = client.connect_stream_with(at, spec(), Protection::Sealed).unwrap();
    let here = Stream::remote(ring, socket).unwrap();
    let Event::Incoming { ring, socket, .. } = next(&mut client) else { panic!("nobody has called") };
    let there = Stream::remote(ring, socket).unwrap();
    host.until("the stream is open", || here.status() == Status::Open);
    assert!(kept()[0] > 0, "the listener compares with it");
    drop((here, there));
    client.stop_listening(listener).unwrap();
    // Keys of a stream are kept for ten seconds without a packet.
    host.until("the daemon has forgotten it", || kept() == [0, 0]);
}

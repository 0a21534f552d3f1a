//! A client in another process: this test binary, started again with the socket's path in its environment.

use std::process::{Child, Command, Stdio};

use timeous_ipc::{Client, Event};

use crate::standin::Standin;
use crate::{flow, next, options, place};

const PATH: &str = "TIMEOUS_IPC_TEST_SOCKET";
const GRANTS: u64 = 100_000;

fn start(path: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_other_process", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Body of the other process, not a test: it does nothing without a path.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let mut client = Client::connect(options(path.as_ref())).unwrap();
    let flow = client.open(flow()).unwrap();
    let (mut asked, mut granted) = (0, 0);
    while granted < GRANTS {
        while asked < GRANTS && asked < granted + 32 {
            client.request(flow).unwrap();
            asked += 1;
        }
        match next(&mut client) {
            Event::Granted(of) => assert_eq!(of, flow),
            other => panic!("{other:?}"),
        }
        client.notify(flow, 1_000).unwrap();
        granted += 1;
    }
    client.close(flow).unwrap();
}

#[test]
fn two_processes_get_what_they_ask_for() {
    let (_dir, path) = place();
    let daemon = Standin::start(&path);
    let mut children = [start(&path), start(&path)];
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(daemon.stop(), []);
}

/// A client killed by `kill -9` at any time: the daemon sees an end, not a violation, and serves the next client.
#[test]
fn a_client_that_is_killed_is_gone_and_nothing_else() {
    let (_dir, path) = place();
    let daemon = Standin::start(&path);
    let mut witness = Client::connect(options(&path)).unwrap();
    let flow = witness.open(flow()).unwrap();
    for _ in 0..10 {
        let mut child = start(&path);
        for _ in 0..200 {
            witness.request(flow).unwrap();
            assert!(matches!(next(&mut witness), Event::Granted(_)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(daemon.stop(), []);
}

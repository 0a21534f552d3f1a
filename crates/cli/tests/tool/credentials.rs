//! Commands that make credentials, and what the tool says about those that it is given.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Files, free_port, timeous};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeous")).args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(words.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
}

fn mode(path: &str) -> u32 {
    Path::new(path).metadata().unwrap().mode() & 0o777
}

#[test]
fn a_passphrase_is_printed_or_written_to_a_new_file() {
    let printed = stdout(&["passphrase"]);
    assert!(printed.len() == 32 && printed.ends_with('\n') && printed != stdout(&["passphrase"]), "{printed}");
    let files = Files::new();
    let path = files.path("pass");
    assert_eq!(stdout(&["passphrase", "--out", &path]), "");
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!((written.len(), mode(&path)), (32, 0o600));
    fails(&["passphrase", "--out", &path], 4, &[&path, "is not overwritten"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    fails(&["passphrase", "--out", &files.path("no/such/directory")], 4, &["there is no directory"]);
}

#[test]
fn a_certificate_has_a_key_and_a_fingerprint() {
    let files = Files::new();
    let directory = files.path("");
    let made = stdout(&["cert", "--name", "camera.example", "--name", "192.0.2.1", "--out", &directory]);
    assert!(made.starts_with("sha256:") && made.len() == 72, "{made}");
    let [pem, key] = ["timeous.pem", "timeous.key"].map(|name| files.path(name));
    assert_eq!((mode(&pem), mode(&key)), (0o644, 0o600));
    assert_eq!(stdout(&["cert", "--show", &pem]), made);
    fails(&["cert", "--out", &directory], 4, &[&key, "is not overwritten"]);
    // An existing certificate stays, and no key without one is left.
    fs::remove_file(&key).unwrap();
    fails(&["cert", "--out", &directory], 4, &[&pem, "is not overwritten"]);
    assert!(!Path::new(&key).exists());
    let other = stdout(&["cert", "--out", &files.path("camera")]);
    assert_ne!(other, made);
    assert_eq!(stdout(&["cert", "--show", &files.path("camera.pem")]), other);
    fails(&["cert", "--show", &files.path("camera.key")], 3, &["camera.key", "no certificate"]);
    fails(&["cert", "--show", &files.path("none")], 4, &["none"]);
    fails(&["cert", "--name", "kämera", "--out", &files.path("x")], 2, &["kämera"]);
    fails(&["cert"], 2, &["--out"]);
}

#[test]
fn a_call_of_another_host_needs_a_credential() {
    let files = Files::new();
    let source = files.write("clip.h264", &crate::support::clip(2));
    let words = ["timeous passphrase", "encryption=off"];
    fails(&["send", &source, "timeous://192.0.2.1:7000"], 2, &words);
    fails(&["recv", "timeous://192.0.2.1:7000", "-"], 2, &words);
    fails(&["send", &source, "timeous://192.0.2.1:7000?encap=none"], 2, &["encap=none carries no encryption"]);
}

#[test]
fn secrets_that_others_see_are_told_and_not_repeated() {
    let files = Files::new();
    let list = files.write("list", b"camera1 both correct-horse-1\n");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o644)).unwrap();
    let port = free_port();
    let uri = format!("timeous://127.0.0.1:{port}?mode=listener&access={list}");
    let mut receiver = timeous(&["recv", &uri, "-"]);
    receiver.until_it_says(&format!("all users of this host can read the secrets in {list}"));
    let uri = format!("timeous://127.0.0.1:{port}?passphrase=correct-horse-1");
    let mut receiver = timeous(&["recv", &uri, "-"]);
    receiver.until_it_says("(ps)");
    assert!(!receiver.errors().contains("horse"), "{}", receiver.errors());
}

#[test]
fn a_listener_without_credential_says_that_it_is_for_this_host() {
    let files = Files::new();
    let port = free_port();
    for (n, (uri, tells)) in [
        (format!("timeous://:{port}"), true),
        (format!("timeous://:{port}?encryption=off"), false),
        (format!("timeous://127.0.0.1:{port}?mode=listener"), false),
    ]
    .iter()
    .enumerate()
    {
        let mut receiver = timeous(&["recv", uri, &files.path(&format!("{n}.h264"))]);
        receiver.until_it_says("listening at");
        assert_eq!(receiver.errors().contains("callers of this host only"), *tells, "{}", receiver.errors());
        receiver.stop();
    }
}

#[test]
fn a_first_call_that_is_refused_ends_with_the_reason() {
    let files = Files::new();
    let source = files.write("clip.h264", &crate::support::clip(2));
    let (port, plain) = (free_port(), free_port());
    let list = files.write("list", b"camera1 publish correct-horse-1\ncamera2 play correct-horse-2\n");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
    let listen = |uri: String, sink: &str| {
        let mut receiver = timeous(&["recv", &uri, &files.path(sink)]);
        receiver.until_it_says("listening at");
        receiver
    };
    let _sealed = listen(format!("timeous://127.0.0.1:{port}?mode=listener&access={list}"), "out.h264");
    let _plain = listen(format!("timeous://127.0.0.1:{plain}?mode=listener"), "plain.h264");
    let call = |port: u16, query: &str, words: &[&str]| {
        fails(&["send", &source, &format!("timeous://127.0.0.1:{port}?{query}")], 6, words);
    };
    call(port, "passphrase=correct-horse-3&streamid=camera1", &["wrong passphrase"]);
    call(port, "passphrase=correct-horse-1&streamid=camera3", &["no stream", "camera3"]);
    call(port, "passphrase=correct-horse-2&streamid=camera2", &["refuses"]);
    call(port, "encryption=off", &["takes no stream without encryption"]);
    // Over TCP it is told once the kernel of the receiver has acknowledged the first packets.
    let (over_tcp, plain_tcp) = (free_port(), free_port());
    let sealed_tcp = format!("timeous://127.0.0.1:{over_tcp}?mode=listener&transport=tcp&passphrase=correct-horse-1");
    let _over_tcp = listen(sealed_tcp, "tcp.h264");
    for query in ["transport=tcp", "transport=tcp&reconnect=off"] {
        call(over_tcp, query, &["takes no stream without encryption", " packets: 0 arrived"]);
    }
    let _plain_tcp = listen(format!("timeous://127.0.0.1:{plain_tcp}?mode=listener&transport=tcp"), "plain-tcp.h264");
    call(plain_tcp, "transport=tcp&passphrase=correct-horse-1", &["does not encrypt"]);
    call(plain, "passphrase=correct-horse-1", &["does not encrypt"]);
    let other = format!("fingerprint=sha256:{}", "0a".repeat(32));
    call(port, &other, &["certificate is not trusted", "fingerprint is another"]);
}

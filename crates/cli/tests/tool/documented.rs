//! The commands of README and guide, run as they stand. Hosts and cameras that a test does not have are replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{side_by_side, skip};

/// Block of a page by its number, with the commands to run together: `@0` is the block's first command, others help.
/// The run ends with the command of the number `ends`, or after six seconds.
struct Run {
    page: &'static str,
    block: usize,
    commands: &'static [&'static str],
    ends: Option<usize>,
    /// File that must hold what came.
    result: Option<&'static str>,
}

const RECEIVE: &str = "timeous recv 'timeous://:7000?passphrase=file:pass' helper.mp4";
const SEND: &str = "timeous send assets/clip.h264 'timeous://127.0.0.1:7000?passphrase=file:pass'";
const TEST_PICTURES: &str = "ffmpeg -v error -re -f lavfi -i testsrc2=s=320x180:r=25 -c:v libx264 -preset ultrafast \
    -tune zerolatency -g 25";

/// Blocks that are not run here.
const ELSEWHERE: [(&str, usize, &str); 5] = [
    ("README.md", 0, "they run this test"),
    ("docs/guide/install.md", 0, "the tests have built it"),
    ("docs/guide/programs.md", 0, "the tests of the preloaded library run iperf3 and ffmpeg"),
    ("docs/guide/c.md", 0, "the tests of the bindings build the examples"),
    ("docs/guide/kernel-tcp.md", 0, "it needs BPF: the tests `native` run it"),
];

fn runs() -> Vec<Run> {
    let run = |page, block, commands, ends, result| Run { page, block, commands, ends, result };
    let files = |page, block, commands, ends| run(page, block, commands, Some(ends), Some("out.mp4"));
    vec![
        files("README.md", 1, &["@0", "@1", "@2"], 2),
        files("docs/guide/security.md", 0, &["@0", "@1", "@2"], 2),
        files("docs/guide/security.md", 1, &["@0", "@1", "@2"], 2),
        run("docs/guide/security.md", 2, &["@0", "@1", "@2"], Some(2), Some("call-1.mp4")),
        files("docs/guide/bad-link.md", 0, &["@0", "@1", "@2"], 2),
        run("docs/guide/transport-stream.md", 0, &["@0", "@1"], None, Some("player.txt")),
        files("docs/guide/tcp.md", 0, &["@0", "@1"], 1),
        run("docs/guide/tcp.md", 1, &["@0", "@1"], None, Some("player.txt")),
        run("docs/guide/probe.md", 0, &["@0", "@1"], Some(1), None),
        run("docs/guide/daemon.md", 0, &[RECEIVE, "@0", "@1"], Some(2), Some("helper.mp4")),
        run("docs/guide/daemon.md", 0, &["@0", "@2 --once", "@3"], None, None),
        run("docs/guide/encoder.md", 0, &[RECEIVE, "@0"], None, Some("helper.mp4")),
        run("docs/guide/encoder.md", 1, &[RECEIVE, "@0"], None, Some("helper.mp4")),
        run("docs/guide/encoder.md", 1, &[RECEIVE, "@1"], None, Some("helper.mp4")),
        run("docs/guide/ffmpeg.md", 0, &["@0", "@1"], None, Some("player.txt")),
        run("docs/guide/many.md", 0, &["@0", SEND], Some(1), Some("out.mp4")),
        run("docs/guide/many.md", 0, &["@1", SEND, SEND], Some(2), Some("call-2.mp4")),
        run("docs/guide/many.md", 0, &["PICTURES -f h264 - | @2", "@3"], None, Some("in.mp4")),
        run("docs/guide/rtp.md", 0, &[RECEIVE, "@0", "RTP"], None, Some("helper.mp4")),
        run("docs/guide/rtp.md", 0, &[RECEIVE, "RTP -sdp_file camera.sdp", "@1"], None, Some("helper.mp4")),
        run("docs/guide/rtp.md", 0, &["@2", SEND, "@3"], None, Some("player.txt")),
        run(
            "docs/guide/rtp.md",
            1,
            &[RECEIVE, "@0", "timeous send camera.sdp 'timeous://127.0.0.1:7000?passphrase=file:pass'"],
            None,
            Some("helper.mp4"),
        ),
        run(
            "docs/guide/rtp.md",
            2,
            &["@0", "@1", "@2", "ffplay -protocol_whitelist file,udp,rtp -i live.sdp"],
            None,
            Some("player.txt"),
        ),
        run(
            "docs/guide/rtp.md",
            3,
            &[RECEIVE, "@0", "PICTURES -f mpegts udp://127.0.0.1:9000?pkt_size=1316"],
            None,
            Some("helper.mp4"),
        ),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Shell blocks of a page, each as its commands.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    blocks.map(commands).collect()
}

/// Commands of a block: a line goes on after a backslash, and within quotes.
fn commands(block: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for line in block.lines() {
        let command = commands.last_mut().unwrap();
        command.push_str(line);
        let is_open = command.matches('\'').count() % 2 == 1;
        if is_open || line.ends_with('\\') {
            command.push('\n');
        } else {
            commands.push(String::new());
        }
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

/// Replaces what a test does not have: other hosts, a camera, a screen.
fn here(command: &str) -> String {
    let player = "ffmpeg -nostdin -v error -stats_period 1 -progress player.txt";
    command
        .replace("receiver.example", "127.0.0.1")
        .replace("sender.example", "127.0.0.1")
        .replace("-f v4l2 -i /dev/video0", "-re -f lavfi -i testsrc2=s=320x180:r=25")
        .replace("/dev/video0", "test")
        .replace("film.mp4", "clip.mp4")
        .replace(
            "ffplay -fflags nobuffer http://127.0.0.1:8080",
            &format!("{player} -i http://127.0.0.1:8080 -f null -"),
        )
        .replace("ffplay -f mpegts -", &format!("{player} -f mpegts -i - -f null -"))
        .replace("ffplay -f h264 -probesize 32 -flags low_delay -", &format!("{player} -f h264 -i - -f null -"))
        .replace(
            "ffplay -protocol_whitelist file,udp,rtp -i live.sdp",
            &format!("{player} -protocol_whitelist file,udp,rtp -i live.sdp -f null -"),
        )
        .replace("PICTURES", TEST_PICTURES)
        .replace("RTP", &format!("{TEST_PICTURES} -f rtp 'rtp://127.0.0.1:5004?pkt_size=1200'"))
}

/// Each run has a network and processes of its own, so that the documented ports are free, and what is left is killed.
fn script(run: &Run) -> String {
    let blocks = blocks(run.page);
    let documented = blocks.get(run.block).unwrap_or_else(|| panic!("{} has no block {}", run.page, run.block));
    let mut script = "set -m\nip link set lo up\n".to_owned();
    if !documented.iter().any(|command| command.contains("passphrase --out")) {
        script += "timeous passphrase --out pass\n";
    }
    for (number, command) in run.commands.iter().enumerate() {
        let mut command = (*command).to_owned();
        for (at, text) in documented.iter().enumerate() {
            let text = text.split(" # ").next().unwrap_or_default().trim().trim_end_matches('&');
            command = command.replace(&format!("@{at}"), text);
        }
        // A player starts when its description is there.
        if command.contains("-i live.sdp") {
            script += "for _ in $(seq 200); do [ -e live.sdp ] && break; sleep 0.1; done\n";
        }
        script += &format!("( {} ) > {number}.log 2>&1 &\njob{number}=$!\nsleep 1\n", here(&command));
    }
    script += &match run.ends {
        Some(number) => format!("( sleep 45; kill -- -$job{number} ) & \nwait $job{number}\necho $? > code\n"),
        None => "sleep 6\necho 0 > code\n".to_owned(),
    };
    let jobs = 0..run.commands.len();
    script + &jobs.map(|number| format!("kill -INT -- -$job{number} 2> /dev/null\n")).collect::<String>() + "sleep 2\n"
}

fn check(run: &Run) {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::create_dir(at.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_timeous"), at.join("bin/timeous")).unwrap();
    symlink(root().join("assets"), at.join("assets")).unwrap();
    let pack = ["-v", "error", "-i", "assets/clip.h264", "-c", "copy", "clip.mp4"];
    assert!(Command::new("ffmpeg").args(pack).current_dir(at).status().unwrap().success());
    let path = format!("{}:{}", at.join("bin").display(), std::env::var("PATH").unwrap());
    let status = Command::new("unshare")
        .args(["-rnpf", "--kill-child", "--mount-proc", "bash", "-c", &script(run)])
        .current_dir(at)
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", at)
        .env("XDG_STATE_HOME", at)
        .status()
        .unwrap();
    let log = |number: usize| fs::read_to_string(at.join(format!("{number}.log"))).unwrap_or_default();
    let logs: String = (0..run.commands.len()).map(|number| format!("--- {number}\n{}", log(number))).collect();
    let name = format!("{} block {} {:?}", run.page, run.block, run.commands);
    assert!(status.success() || status.code() == Some(130), "{name}: {status}\n{logs}");
    let code = fs::read_to_string(at.join("code")).unwrap_or_default();
    assert_eq!(code.trim(), "0", "{name}\n{logs}");
    if let Some(result) = run.result {
        let (size, least) = (
            fs::metadata(at.join(result)).map_or(0, |file| file.len()),
            if result == "player.txt" { 50 } else { 5_000 },
        );
        assert!(size > least, "{name}: {result} has {size} bytes\n{logs}");
    }
}

#[test]
fn the_commands_of_readme_and_guide_work_as_they_stand() {
    let probe = Command::new("unshare").args(["-rnpf", "--mount-proc", "ip", "link", "set", "lo", "up"]).output();
    let has_ffmpeg = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !has_ffmpeg || !probe.is_ok_and(|probe| probe.status.success()) {
        return skip("the_commands_of_readme_and_guide", "ffmpeg, iproute2, and user namespaces");
    }
    side_by_side(&[("1", || turn_of(0)), ("2", || turn_of(1)), ("3", || turn_of(2)), ("4", || turn_of(3))]);
}

fn turn_of(part: usize) {
    runs().iter().skip(part).step_by(4).for_each(check);
}

#[test]
fn every_shell_block_of_readme_and_guide_is_run_or_has_a_reason() {
    let guide = fs::read_dir(root().join("docs/guide")).unwrap().map(|page| page.unwrap().file_name());
    let pages = guide.map(|name| format!("docs/guide/{}", name.to_string_lossy())).chain(["README.md".to_owned()]);
    let runs = runs();
    for page in pages {
        for (block, commands) in blocks(&page).iter().enumerate() {
            if ELSEWHERE.iter().any(|&(elsewhere, at, _)| elsewhere == page && at == block) {
                continue;
            }
            for (at, command) in commands.iter().enumerate() {
                let name = format!("@{at}");
                let is_run = runs.iter().filter(|run| run.page == page && run.block == block);
                assert!(is_run.flat_map(|run| run.commands).any(|text| text.contains(&name)), "{page}: {command}");
            }
        }
    }
}

#[test]
fn the_reference_is_what_the_tool_prints() {
    let printed = Command::new(env!("CARGO_BIN_EXE_timeous")).arg("reference").output().unwrap();
    let page = fs::read_to_string(root().join("docs/reference.md")).unwrap();
    assert!(
        String::from_utf8(printed.stdout).unwrap() == page,
        "docs/reference.md is old: `cargo run -p timeous-cli -- reference > docs/reference.md`"
    );
}

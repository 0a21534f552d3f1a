//! Test of the record format by an independent reader: the Python program in `timeous_tcp::record`'s documentation.

use std::io::Write as _;
use std::process::{Command, Stdio};

use timeous_core::Rng;
use timeous_tcp::record::{WIDE, numbered, pad};

/// Returns the lines of the program in the module's documentation.
fn documented_program() -> String {
    let source = include_str!("../../src/record.rs");
    let lines = source.lines().skip_while(|line| !line.contains("```python")).skip(1);
    let program = lines.take_while(|line| !line.contains("```"));
    program.map(|line| line.strip_prefix("//! ").unwrap_or_default().to_owned() + "\n").collect()
}

const AROUND: &str = "
import sys, zlib
class Connection:
    def recv(self, most):
        return sys.stdin.buffer.read(997)
";

const PRINT: &str = "
for substream, data in datagrams(Connection()):
    print(substream, data.hex())
";

#[test]
fn the_documented_program_reads_what_we_send() {
    let (mut wire, mut expected, mut rng) = (Vec::new(), String::new(), Rng::from_seed(7));
    for number in 0..300 {
        let len = rng.next_u64() % 1_400;
        let fill = rng.next_u64();
        let mut payload: Vec<u8> = (0..len).map(|_| if fill % 2 == 0 { 0 } else { rng.next_u64() as u8 }).collect();
        let substream = 2 + (fill >> 32) as u8 % 126;
        // That mark stands before a sub-stream of a byte of its own.
        if substream == WIDE {
            payload.insert(0, (fill >> 16) as u8);
        }
        for _ in 0..1 + fill % 3 {
            numbered(substream, number, &payload, &mut wire);
        }
        pad((rng.next_u64() % 50) as usize, &mut wire);
        let (told, data) = if substream == WIDE { (payload[0], &payload[1..]) } else { (substream, &payload[..]) };
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        expected += &format!("{told} {hex}\n");
    }
    let program = format!("{AROUND}{}{PRINT}", documented_program());
    assert!(documented_program().lines().count() <= 30);
    let child = Command::new("python3").args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "needs python3");
            return eprintln!("SKIPPED the_documented_program_reads_what_we_send: needs python3");
        }
        child => child.unwrap(),
    };
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&wire).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap() == expected, "the program read something else");
}

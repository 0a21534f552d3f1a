//! Support of the benchmarks: the receiving process, and the processor time of this one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::time::{ClockId, clock_gettime};
use timeous::core::Duration;

/// The receiving process: this program again, which answers each line with numbers.
pub(crate) struct Far {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Far {
    /// Starts it with these arguments; returns the numbers that it begins with, too.
    pub(crate) fn start(arguments: &[&str]) -> (Self, Vec<u64>) {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        let mut process = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("itself");
        let (input, output) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        let mut far = Self { process, input, output: BufReader::new(output) };
        let numbers = far.numbers();
        (far, numbers)
    }

    /// Asks for numbers.
    pub(crate) fn ask(&mut self) -> Vec<u64> {
        self.input.write_all(b"mark\n").expect("the receiving process listens");
        self.numbers()
    }

    fn numbers(&mut self) -> Vec<u64> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the receiving process speaks");
        line.split_whitespace().map(|number| number.parse().expect("a number")).collect()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Answers questions of the process that measures, on a thread of its own, until that ends.
pub(crate) fn answer(numbers: impl Fn() -> String + Send + 'static) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.is_err() {
                break;
            }
            println!("{}", numbers());
        }
        std::process::exit(0);
    });
}

/// Processor time of this process.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits for its next tick")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time.into());
}

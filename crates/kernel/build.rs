//! Compiles the BPF programs, if the feature `bpf` is on.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const PROGRAMS: [&str; 2] = ["timeous", "datagrams"];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_some() {
        PROGRAMS.iter().for_each(|program| compile(program));
    }
}

fn compile(program: &str) {
    let source = format!("bpf/{program}.bpf.c");
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the directory"));
    let object = directory.join(format!("{program}.bpf.o"));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    let status = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf", "-Wall", "-Werror", target, "-I", "bpf", "-c", &source, "-o"])
        .arg(object)
        .status();
    let advice = "the feature `bpf` needs clang and libbpf's headers: \
                  run scripts/tools.sh as root (Debian: apt-get install clang libbpf-dev libelf-dev zlib1g-dev)";
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} ended with {status} over {source}; {advice}", clang.display()),
        Err(error) => panic!("{} cannot be run: {error}; {advice}", clang.display()),
    }
}

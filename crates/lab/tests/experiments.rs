//! Integration tests of the experiments' commands: output and exit codes.

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap()
}

#[test]
fn an_experiment_tells_programs_what_it_tells_people() {
    let (text, json) = (lab(&["lai-notify", "--seed", "7"]), lab(&["lai-notify", "--seed", "7", "--json"]));
    assert_eq!((text.status.code(), json.status.code()), (Some(0), Some(0)));
    let text = String::from_utf8(text.stdout).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&found["name"], &found["seed"], &found["form"]), (&"lai-notify".into(), &7.into(), &"virtual".into()));
    assert_eq!(found["command"], "timeous-lab lai-notify --seed 7");
    assert_eq!(found["passes"], true);
    let claims = found["claims"].as_array().unwrap();
    assert!(!claims.is_empty());
    for part in claims.iter().flat_map(|claim| [&claim["what"], &claim["measured"]]) {
        assert!(text.contains(part.as_str().unwrap()), "{part} in {text}");
    }
    for choice in found["setup"].as_array().unwrap() {
        assert!(!choice["why"].as_str().unwrap().is_empty(), "a choice without a reason: {choice}");
    }
}

#[test]
fn a_form_that_is_not_there_and_words_that_are_none_are_usage() {
    let list = String::from_utf8(lab(&["list"]).stdout).unwrap();
    let named = |forms: &str| {
        let of = |line: &&str| line.split_whitespace().nth(1) == Some(forms);
        list.lines().find(of).map(|line| line.split(' ').next().unwrap().to_owned())
    };
    if let Some(name) = named("virtual") {
        let output = lab(&[&name, "--real"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("leave --real out"), "{name}: {said}");
    }
    if let Some(name) = named("real") {
        let output = lab(&[&name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("add --real"), "{name}: {said}");
    }
    for wrong in [&["nothing-of-the-kind"][..], &["lai-age", "--seeds", "0"], &["all"], &["lai-age", "--sed", "1"], &[]]
    {
        assert_eq!(lab(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

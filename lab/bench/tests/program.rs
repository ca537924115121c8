//! The program `kiln-bench` as its users call it.
//!
//! It is also why `cargo test` builds the program, which tests in Python ask for
//! (`.ci/built.py`).

use std::fs;
use std::process::{Command, Output};

fn bench(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kiln-bench")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_unknown_case_names_the_known_ones() {
    let done = bench(&["nonsense"]);
    assert!(!done.status.success());
    let said = text(&done.stderr);
    assert!(said.contains("nonsense") && said.contains("mix") && said.contains("core"), "{said}");
    let listed = bench(&["--list"]);
    assert!(listed.status.success());
    assert!(text(&listed.stdout).contains("replay"));
}

/// A mix on a folder: its line of JSON counts the requests that its log has.
#[test]
fn a_mix_reports_the_requests_that_it_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (log, plan) = (folder.path().join("mix.log"), folder.path().join("plan.json"));
    let told = serde_json::json!({
        "seconds": 0.2, "seed": 7, "log": log, "processes": [
            {"name": "a", "count": 2, "names": 0.3, "read": 0.5, "random": 0.5, "bytes": 4096,
             "files": 3, "file_bytes": 65536, "every_us": 1000}],
    });
    fs::write(&plan, told.to_string()).unwrap();
    let files = folder.path().join("files");
    let done = bench(&["mix", files.to_str().unwrap(), plan.to_str().unwrap()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let logged = fs::read_to_string(&log).unwrap().lines().count();
    assert!(logged > 0);
    assert_eq!(found["ops"], logged);
}

#[test]
fn what_is_no_plan_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    fs::write(&plan, r#"{"seconds": -1, "seed": 1, "log": null, "processes": []}"#).unwrap();
    let done = bench(&["mix", folder.path().to_str().unwrap(), plan.to_str().unwrap()]);
    assert!(!done.status.success());
    let said = text(&done.stderr);
    assert!(said.contains("seconds") && said.trim().lines().count() == 1, "{said}");
}

//! Every target over what it begins with, what is kept, and mutations of both from fixed seeds.
//! `KILN_FUZZ_ROUNDS` says how many; `make fuzz` looks further.

use kiln_fuzz::{TARGETS, Target, mutate::mutated};
use kiln_testkit::Random;
use std::panic::catch_unwind;

const ROUNDS: u64 = 3000;

fn rounds() -> u64 {
    let text = std::env::var("KILN_FUZZ_ROUNDS");
    text.map_or(ROUNDS, |text| text.parse().expect("KILN_FUZZ_ROUNDS is a number"))
}

fn run(target: &Target, what: &str, input: &[u8]) {
    if catch_unwind(|| (target.run)(input)).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{}, {what}: keep this input as corpus/{}/...: {hex}", target.name, target.name);
    }
}

fn play(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let inputs = target.inputs().unwrap();
    assert!(!inputs.is_empty(), "{name} has nothing to begin with");
    for (what, input) in &inputs {
        run(target, what, input);
    }
    run(target, "nothing", &[]);
    let all: Vec<&[u8]> = inputs.iter().map(|(_, input)| &input[..]).collect();
    for seed in 0..rounds() {
        let input = mutated(&all, &mut Random(seed));
        run(target, &format!("mutation {seed}"), &input);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        #[test]
        fn every_target_is_played() {
            let played = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(played));
        }
    };
}

targets!(assignment changes device gate interface link nbd pack pool set shard spec volume wire);

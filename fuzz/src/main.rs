//! The fuzzer, for the target that `KILN_FUZZ_TARGET` names.
#![no_main]
#![forbid(unsafe_code)]

use kiln_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn chosen() -> &'static Target {
    let name = std::env::var("KILN_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("KILN_FUZZ_TARGET is {name:?}; it must be one of {}", known.join(", "));
        std::process::exit(2)
    })
}

fuzz_target!(|input: &[u8]| {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    (CHOSEN.get_or_init(chosen).run)(input);
});

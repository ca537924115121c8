//! Code specs and Ceph profiles: any text is a spec that prints back, or an error of one line.
#![no_main]
#![forbid(unsafe_code)]

use kiln_code::CodeSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match text.parse::<CodeSpec>() {
    Ok(spec) => {
        assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
        assert_eq!(spec.explicit().parse(), Ok(spec));
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});

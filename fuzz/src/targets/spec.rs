//! Code specs and Ceph profiles: any text is a spec that prints back, or an error of one line.

use kiln_code::CodeSpec;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<CodeSpec>() {
        Ok(spec) => {
            assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
            assert_eq!(spec.explicit().parse(), Ok(spec));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The rows of the table of codes, and a few with parameters.
pub fn seeds() -> Vec<Vec<u8>> {
    let families = kiln_code::CODES.iter().map(|family| format!("{}:4+2", family.name));
    let more = ["rs:10+4,matrix=cauchy", "clay:10+4,d=13", "lrc:12+2+2", "rep:3", "xor:2+1"];
    families.chain(more.map(str::to_owned)).map(String::into_bytes).collect()
}

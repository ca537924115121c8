//! What the simulator and the sweep of faults said, from their logs.
//!
//! A log counts where its tests passed. It says how many seeds it played in the simulator's own
//! words (`400 seeds: ...`), or anything in lines of JSON with the members of [`Proof`], of which
//! there may be several.

use crate::BenchError;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// What was tried, where logs say so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Seeds of the simulator, all of which passed.
    pub seeds: Option<u64>,
    /// Faults that were injected, one at a time.
    pub faults_tried: Option<u64>,
    /// Faults after which something was wrong.
    pub faults_wrong: Option<u64>,
    /// Rare branches that the simulator never took.
    pub sometimes_missed: Vec<String>,
}

/// Adds up what logs say.
///
/// # Errors
/// A log that cannot be read, or is of tests that failed.
pub fn read(logs: &[PathBuf]) -> Result<Proof, BenchError> {
    let mut proof = Proof::default();
    for path in logs {
        let broken = |source| BenchError::Report { path: path.clone(), source };
        let text = std::fs::read_to_string(path).map_err(broken)?;
        if text.contains("test result: FAILED") || !text.contains("test result: ok") {
            let why = "its tests did not pass, so it proves nothing";
            return Err(broken(std::io::Error::other(why)));
        }
        text.lines().for_each(|line| proof.add(line));
    }
    Ok(proof)
}

impl Proof {
    fn add(&mut self, line: &str) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        };
        // With one thread the name of the test stands before what it says.
        if let Some((before, _)) = line.split_once(" seeds: ") {
            add(&mut self.seeds, before.split(' ').next_back().and_then(|word| word.parse().ok()));
        }
        let json = line.find('{').map_or("", |at| &line[at..]);
        let Ok(said) = serde_json::from_str::<Value>(json) else { return };
        add(&mut self.seeds, said["seeds"].as_u64());
        add(&mut self.faults_tried, said["faults_tried"].as_u64());
        add(&mut self.faults_wrong, said["faults_wrong"].as_u64());
        let missed = said["sometimes_missed"].as_array().into_iter().flatten();
        self.sometimes_missed.extend(missed.filter_map(|name| Some(name.as_str()?.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let read_text = |text: &str| {
            let path = folder.path().join("log");
            std::fs::write(&path, text).unwrap();
            read(&[path])
        };
        let passed = "test it ... 20 seeds: {\n}\ntest result: ok.\ntest x ... {\"seeds\": 3}\n\
                      {\"sometimes_missed\":[\"copied\"]}\n";
        let sometimes_missed = vec!["copied".to_owned()];
        let proof = Proof { seeds: Some(23), sometimes_missed, ..Proof::default() };
        assert_eq!(read_text(passed).unwrap(), proof);
        for text in ["20 seeds: {}\ntest result: FAILED.\n", "20 seeds: {}\nerror: no such test\n"]
        {
            assert!(read_text(text).is_err(), "{text}");
        }
        assert_eq!(read(&[]).unwrap(), Proof::default());
        assert!(read(&["nowhere".into()]).is_err());
    }
}

//! The device model of a folder (`.kiln-device`): any text is a model that plans reads, or an
//! error. Plans have all that is wanted, and end.

use kiln_store::device::{Combine, DeviceModel, ReadPlan};

/// Runs as a repair wants them: of several widths, with several gaps.
const WANTED: [std::ops::Range<u64>; 6] = [
    4096..8192,
    8192..8200,
    12_000..70_000,
    1 << 20..1 << 21,
    (1 << 21) + 1..5 << 20,
    1 << 40..(1 << 40) + 9,
];

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(model) = serde_json::from_str::<DeviceModel>(text) else { return };
    if model.check().is_err() {
        return;
    }
    for model in model.plausible() {
        let plan = ReadPlan::best(&WANTED, 4096, &model);
        let covered = |run: &std::ops::Range<u64>| {
            plan.reads.iter().any(|read| read.start <= run.start && run.end <= read.end)
        };
        assert!(WANTED.iter().all(covered), "{plan:?}");
        assert!(plan.seconds >= 0.0 && !model.seconds(3, 1 << 30).is_nan());
    }
    // What is kept can be read again; the last digit of a number may be another.
    if let Ok(text) = serde_json::to_string(&model) {
        // What is written must be readable: that is the finding.
        let again: DeviceModel = serde_json::from_str(&text).expect("a model that was written");
        assert!(again.plausible().len() == model.plausible().len(), "{text}");
    }
    let _ = (model.gap_bytes(), model.is_doubtful());
}

pub fn seeds() -> Vec<Vec<u8>> {
    let disk = DeviceModel::new(8e-3, 1.0 / 150e6, Combine::Sum);
    let cut =
        DeviceModel { piece_bytes: Some(512 << 10), combine: Combine::Larger, ..disk.clone() };
    let mut seeds: Vec<Vec<u8>> =
        [disk, cut].iter().filter_map(|model| serde_json::to_vec(model).ok()).collect();
    let doubt = r#","uncertainty":{"error":0.3,"spread":0.2,"alternatives":[{"read_seconds":1e-5,
        "byte_seconds":1e-9,"combine":"sum","piece_bytes":4096}]}}"#;
    let mut doubtful = seeds[1].clone();
    doubtful.pop();
    doubtful.extend_from_slice(doubt.as_bytes());
    seeds.push(doubtful);
    seeds
}

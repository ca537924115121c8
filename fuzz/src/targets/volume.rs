//! Parts of a volume: batches of its log, headers of segments, maps, descriptions.

pub use kiln_volume::hostile::{read as run, seeds};

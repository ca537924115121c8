//! Parts of a volume: batches of its log, headers of segments, maps, descriptions.

use crate::Target;

pub const TARGET: Target =
    Target { name: "volume", run: kiln_volume::hostile::read, seeds: kiln_volume::hostile::seeds };

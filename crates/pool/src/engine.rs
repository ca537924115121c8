//! What shards in folders, bare chunks and objects of pools share: stripes through a pipeline.
//!
//! | file | holds |
//! |---|---|
//! | `node`, `settings`, `source`, `names` | what the caller hands in: places, resources, input |
//! | `geometry` | default sizes of sub-chunks, limits of stripes |
//! | `frame`, `pipeline`, `sinks` | buffers of stripes; source, workers, sink; files written |
//! | `rounds`, `sequence` | reads at the same time; everything on one thread, for simulations |
//! | `chunks` | where chunks are read: shards, or bare chunk files |
//! | `stripe` | reading one stripe with verification and planning again |
//! | `windows`, `choice`, `read_ahead`, `advice` | reads as planned for devices |
//! | `encode`, `decode`, `scan`, `rebuild`, `estimate` | the loops over all stripes |
//! | `stripe_statistics`, `repair_statistics`, `report` | what these cost and found |

pub(crate) mod advice;
pub(crate) mod blame;
pub(crate) mod buffers;
pub(crate) mod choice;
pub(crate) mod chunks;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod estimate;
pub(crate) mod frame;
pub(crate) mod geometry;
pub mod names;
pub(crate) mod node;
pub(crate) mod pipeline;
pub(crate) mod read_ahead;
pub(crate) mod rebuild;
pub(crate) mod repair_statistics;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod scan;
pub(crate) mod sequence;
pub(crate) mod settings;
pub(crate) mod sinks;
pub(crate) mod source;
pub(crate) mod stripe;
pub(crate) mod stripe_statistics;
pub(crate) mod windows;

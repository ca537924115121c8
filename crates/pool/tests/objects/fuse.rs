//! Disks of a world that fail at one moment of all that is done with them.

use crate::world::World;
use kiln_store::{Backend, MemoryBackend};
pub use kiln_testkit::{Failing, Fuse};
use std::sync::Arc;

/// Failures that leave the objects whole, whatever moment they strike at.
pub const ALL: [Failing; 3] = [Failing::Kill, Failing::Error, Failing::Full];

/// Puts a fuse to a disk of a world, which is reached through `inner`.
pub fn fused(
    world: &World,
    disk: usize,
    inner: Arc<dyn Backend>,
    fuse: &Arc<Fuse>,
) -> Arc<dyn Backend> {
    let memory = MemoryBackend::clone(&world.disks[disk].memory);
    fuse.wrap_together(&format!("disk {disk}"), inner, memory)
}

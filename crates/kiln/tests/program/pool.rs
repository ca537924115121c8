//! Pools of folders.

use crate::rig::Rig;

/// A pool of so many folders `d00`, `d01`, ... described by pool.toml.
pub fn create(rig: &Rig, code: &str, nodes: usize) {
    let nodes: Vec<String> = (0..nodes).map(|at| format!("--node d{at:02}")).collect();
    rig.kiln(&format!("pool create -c {code} {}", nodes.join(" "))).ok();
}

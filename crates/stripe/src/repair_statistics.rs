//! Sums over the passes of a repair, and the report made of them.

use crate::stripe_statistics::{Findings, StripeStatistics, indices};
use crate::{Moved, NodeLoad, ReadsReport, RepairReport, chunks::Chunks, rebuild::received};

/// Sums over passes.
#[derive(Debug, Default)]
pub struct RepairStatistics {
    loads: Vec<NodeLoad>,
    rebuilt: Vec<bool>,
    helped: Vec<bool>,
    repaired: bool,
    decoded: bool,
    /// Damage found.
    pub findings: Findings,
    /// Files renamed.
    pub moved: Vec<Moved>,
    /// Bytes of metadata read.
    pub metadata_bytes: u64,
    /// Chunk bytes read only to look.
    pub scan_bytes: u64,
    /// Chunk bytes kept from an interrupted repair.
    pub resumed_bytes: u64,
    /// Chunk bytes written.
    pub written: u64,
    /// Chunk bytes that helpers sent.
    pub sent: u64,
    /// No digest was recorded to check a rebuilt shard against.
    pub unverified: bool,
    /// Decision of the read planner first.
    pub reads: Option<ReadsReport>,
}

/// Report of one pass.
pub struct PassStatistics<'a> {
    /// Indices rebuilt, the node that computes first.
    pub targets: &'a [usize],
    /// Names of their nodes.
    pub target_nodes: Vec<String>,
    /// Sums over stripes.
    pub statistics: &'a StripeStatistics,
    /// Chunk bytes written for each target.
    pub written_each: u64,
}

impl RepairStatistics {
    /// For nodes of these names, one for each index.
    pub fn for_nodes(names: impl Iterator<Item = String>) -> RepairStatistics {
        let loads: Vec<NodeLoad> = names
            .enumerate()
            .map(|(index, node)| NodeLoad { node, index, ..NodeLoad::default() })
            .collect();
        let n = loads.len();
        RepairStatistics {
            loads,
            rebuilt: vec![false; n],
            helped: vec![false; n],
            ..RepairStatistics::default()
        }
    }

    /// Adds one pass.
    pub fn add(&mut self, pass: &PassStatistics<'_>) {
        let sent: u64 = pass.statistics.costs.iter().map(|c| c.sent).sum();
        for (load, cost) in self.loads.iter_mut().zip(&pass.statistics.costs) {
            load.bytes_read += cost.bytes;
            load.read_runs += cost.runs;
            load.device_bytes_read += cost.device_bytes;
            load.device_reads += cost.device_reads;
            load.bytes_sent += cost.sent;
        }
        let mut forwarded = 0;
        for (at, &index) in pass.targets.iter().enumerate() {
            let own = pass.statistics.costs[index].bytes;
            let bytes = received(pass.targets, sent, index, pass.written_each, own);
            self.loads[index].bytes_received += bytes;
            self.loads[index].node.clone_from(&pass.target_nodes[at]);
            self.rebuilt[index] = true;
            forwarded += if at > 0 { bytes } else { 0 };
        }
        if let Some(&center) = pass.targets.first() {
            self.loads[center].bytes_sent += forwarded;
        }
        for index in indices(&pass.statistics.helped) {
            self.helped[index] = true;
        }
        if self.reads.is_none() {
            self.reads.clone_from(&pass.statistics.reads);
        }
        self.repaired |= pass.statistics.repaired;
        self.decoded |= pass.statistics.decoded;
        self.metadata_bytes += pass.statistics.metadata();
        self.written += pass.written_each * pass.targets.len() as u64;
        self.sent += sent;
    }

    /// The report, but for notes.
    pub fn into_report(self, chunks: &dyn Chunks, dry_run: bool) -> RepairReport {
        let strategy = match (self.repaired, self.decoded) {
            (true, true) => "mixed",
            (true, false) => "repair",
            (false, true) => "decode",
            (false, false) => "none",
        };
        let active = |load: &NodeLoad| {
            load.bytes_read + load.bytes_sent + load.bytes_received > 0 || self.rebuilt[load.index]
        };
        let nodes: Vec<NodeLoad> = self.loads.iter().filter(|load| active(load)).cloned().collect();
        RepairReport {
            object: chunks.object().to_owned(),
            code: chunks.codec().spec().to_string(),
            order: chunks.codec().order().to_owned(),
            strategy: strategy.to_owned(),
            lost: indices(&self.rebuilt),
            helpers: indices(&self.helped),
            bytes_read: nodes.iter().map(|load| load.bytes_read).sum(),
            read_runs: nodes.iter().map(|load| load.read_runs).sum(),
            device_bytes_read: nodes.iter().map(|load| load.device_bytes_read).sum(),
            device_reads: nodes.iter().map(|load| load.device_reads).sum(),
            bytes_sent: self.sent,
            max_node_load: nodes
                .iter()
                .map(|l| l.bytes_sent.max(l.bytes_received))
                .max()
                .unwrap_or(0),
            bytes_written: self.written,
            metadata_bytes_read: self.metadata_bytes,
            issued_bytes: 0,
            issued_reads: 0,
            reads: self.reads,
            scan_bytes_read: self.scan_bytes,
            resumed_bytes: self.resumed_bytes,
            seconds: 0.0,
            verified: !dry_run && !self.unverified,
            dry_run,
            nodes,
            damaged: self.findings.list,
            damaged_count: self.findings.count,
            moved: self.moved,
            notes: Vec::new(),
        }
    }
}

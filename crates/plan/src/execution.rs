//! The execution of a plan: rounds of reading, fetching, computing, sending and persisting, by
//! node.
//!
//! Sub-chunks that are made together and used together form a [`Piece`]. A piece is a buffer at the
//! node that has it and at every node that gets it; it travels as a whole, once a receiver (the
//! tasks of ParaRC, section 6, grouped so that a sub-block goes to a node once). A node's work is a
//! list of [`Round`]s; what a round sends depends only on what was received before it. The local
//! DAG of a round names pieces as its chunks, so the executor of kiln-code compiles it as it is.
//!
//! All of it is linear byte by byte: a node runs its rounds window by window, a window being a
//! range of bytes of every sub-chunk.

mod build;

use crate::{Plan, Result};
use kiln_code::Dag;
use std::ops::Range;

/// Origin of the sub-chunks of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// From the disk of the piece's home: runs of positions of one chunk, in the piece's order.
    Disk {
        /// The chunk.
        chunk: usize,
        /// Positions, ascending.
        runs: Vec<Range<u32>>,
    },
    /// Computed by the piece's home in the piece's round.
    Computed,
}

/// Sub-chunks that are made together, travel together and are used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The node that makes it.
    pub home: usize,
    /// The round in which it is made; what is read is there in round 0.
    pub round: u32,
    /// Its origin.
    pub source: Source,
    /// Number of its sub-chunks.
    pub sub_chunks: usize,
    /// The nodes that get it, ascending, its home not among them.
    pub to: Vec<usize>,
}

/// Sub-chunks of a rebuilt chunk that a node stores, or hands to its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persist {
    /// The piece that holds them.
    pub piece: u32,
    /// The rebuilt chunk.
    pub chunk: usize,
    /// The position in the chunk of each of the piece's sub-chunks, in the piece's order.
    pub positions: Vec<u32>,
}

/// A step of a node's work: read and wait for what is listed, compute, send, persist.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its number. Pieces that come from elsewhere were sent in rounds of smaller numbers.
    pub round: u32,
    /// Pieces to read from the own disk; needed from this round on.
    pub reads: Vec<u32>,
    /// Pieces that must have arrived; needed from this round on.
    pub receives: Vec<u32>,
    /// Computation; none in a round that only passes on what it reads.
    pub dag: Option<Dag>,
    /// The pieces that the DAG reads as its chunks, ascending: all sub-chunks of each, in order.
    /// They are the input buffers of the compiled program.
    pub inputs: Vec<u32>,
    /// The pieces that the DAG makes, ascending: the output buffers of the compiled program.
    pub outputs: Vec<u32>,
    /// Pieces to send and their receivers, in this order.
    pub sends: Vec<(u32, usize)>,
    /// Pieces to keep for good.
    pub persists: Vec<Persist>,
}

/// Rounds of one node. A node that is not listed has nothing to do.
#[derive(Debug, Clone)]
pub struct NodeExecution {
    /// The node.
    pub node: usize,
    /// Ascending by number; numbers without work are left out.
    pub rounds: Vec<Round>,
}

/// Rounds of every node; made by [`Plan::execution`].
#[derive(Debug, Clone)]
pub struct Execution {
    pieces: Vec<Piece>,
    execution: Vec<NodeExecution>,
}

impl Plan {
    /// Returns the execution of the nodes.
    pub fn execution(&self) -> Result<Execution> {
        build::build(self)
    }
}

impl Execution {
    /// All pieces; the number of a piece is its index.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The work of every node that has some, ascending by node.
    pub fn execution(&self) -> &[NodeExecution] {
        &self.execution
    }

    /// The work of a node; nothing when it has none.
    pub fn node_execution(&self, node: usize) -> Option<&NodeExecution> {
        self.execution.iter().find(|node_execution| node_execution.node == node)
    }

    /// Rounds of the longest chain: how often a byte is received and used before the last one.
    pub fn rounds(&self) -> u32 {
        let last = |node_execution: &NodeExecution| {
            node_execution.rounds.last().map_or(0, |round| round.round + 1)
        };
        self.execution.iter().map(last).max().unwrap_or(0)
    }
}

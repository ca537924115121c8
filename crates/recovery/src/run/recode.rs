//! Recodes by the agents that have the data: each writes its data shard anew, from its own file,
//! and parity is computed on the way to its nodes by a plan, as if it had been lost.

use kiln_net::proto::assignment::{Geometry, TargetFile};
use kiln_net::{NetError, Result, task::default_slice};
use kiln_pool::{Recoder, Recoding, Written};
use kiln_store::{Digest, ShardInfo};

use super::degraded::HelpingAgents;
use super::recover::{Handout, RepairWatcher};
use crate::Helper;
use crate::coordinator::{Outcome, RepairFailure, Share};
use crate::placed::{Shares, Wanted, plan_at_once, refused};

/// Windows under way at each agent, at most.
const WINDOWS: u32 = 16;

struct Unwatched;

impl RepairWatcher for Unwatched {
    fn kept(&self, _: u64, _: u64) {}

    fn replanned(&self, _: &str) {}
}

impl Recoder for HelpingAgents<'_> {
    fn write(&self, ask: &Recoding) -> Result<Written, String> {
        self.recode(ask).map_err(|error| error.to_string())
    }
}

impl HelpingAgents<'_> {
    fn recode(&self, ask: &Recoding) -> Result<Written> {
        let none = || NetError::Setup {
            what: format!("a recode of {}", ask.info.object),
            why: "not all of its nodes are agents, or its code is not cut into windows".to_owned(),
        };
        let (k, n) = (usize::from(ask.info.k), ask.parts.len());
        if !ask.codec.sliceable() {
            return Err(none());
        }
        let mut nodes = Vec::new();
        for (index, (id, _)) in ask.parts.iter().enumerate() {
            let address = self.address(id).ok_or_else(none)?;
            let shards = ask.sources.get(index).map(|file| vec![(index, file.clone())]);
            nodes.push(Helper { address, shards: shards.unwrap_or_default() });
        }
        let wanted = Wanted {
            codec: &ask.codec,
            nodes: n,
            homes: (0..k).map(|chunk| (chunk, chunk)).collect(),
            targets: (k..n).map(|chunk| (chunk, chunk)).collect(),
            runs: None,
        };
        let plan = wanted.problem().and_then(|problem| plan_at_once(&problem));
        let parts = plan.and_then(|plan| plan.execution());
        let parts = parts.map_err(|error| refused(&ask.info.object, &error))?;
        let shares = Shares {
            parts: &parts,
            stripes: 0..ask.stripes,
            slice: default_slice(ask.info.alpha as usize, u64::MAX),
            windows: WINDOWS,
            rate: self.rate,
            geometry: geometry(&ask.info, &unknown_digests(&ask.info)),
            address: &|node| nodes[node].address.clone(),
        };
        let share = |(node, helper): (usize, &Helper)| {
            let (chunk, part) = (node as u32, ask.parts[node].1.clone());
            let targets = vec![TargetFile { chunk, name: part.clone(), part }];
            let assignment = shares.of(node, &helper.shards, targets)?;
            let assignment = assignment.recoding(geometry(&ask.old, &ask.digests));
            Some(Share { node, assignment: assignment.encode().into(), writes: false })
        };
        let shares: Vec<Share> = nodes.iter().enumerate().filter_map(share).collect();
        // Each has a shard to write.
        if shares.len() != n {
            return Err(none());
        }
        let task = (self.fresh)();
        let (shares, spared, kept) = (&shares[..], &[][..], (0, 0));
        let handout = Handout { nodes: &nodes, task, shares, spared, rate: self.rate, kept };
        match handout.carry_out(self.network, &Unwatched)? {
            Outcome::Done(amounts) => {
                let mut all = Written::default();
                for (_, amounts) in amounts {
                    all.read += amounts.read;
                    all.written += amounts.written;
                    all.sent += amounts.sent;
                }
                Ok(all)
            }
            Outcome::Failed(failure) => Err(match failure {
                RepairFailure::Node(_, error)
                | RepairFailure::Disk(_, error)
                | RepairFailure::Failed(error) => error,
                RepairFailure::Chunk(chunk, stripe, text) => NetError::Refused {
                    place: ask.parts[chunk].0.clone(),
                    why: format!("shard {chunk} is damaged in stripe {stripe}: {text}"),
                },
            }),
        }
    }
}

fn geometry(info: &ShardInfo, digests: &[Digest]) -> Geometry {
    Geometry::of(info, info.size.unwrap_or(0), digests)
}

/// Digests of shards that are not written yet.
fn unknown_digests(info: &ShardInfo) -> Vec<Digest> {
    let none = info.digest_builder().digest();
    vec![none; usize::from(info.n)]
}

//! Costs of a choice of hubs: exact loads, updated in the degree of a layer when its hub changes.

use super::shape::{Component, Kind, NONE, Shape};
use crate::edges::Edges;

/// One hub a layer, and the traffic that follows from it.
#[derive(Debug, Clone)]
pub(super) struct Layers<'a> {
    shape: &'a Shape,
    pub hubs: Vec<u16>,
    pub sent: Vec<i64>,
    pub received: Vec<i64>,
    pub total: i64,
    /// Most that a link should carry, and the sub-chunks above that, over all links.
    limit: i64,
    pub overload: i64,
    /// Kept for their memory only.
    scratch: [Vec<(u16, u16)>; 2],
}

/// Node at which a component's pre vertices are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// Each at the hub of its own layer.
    Own,
    /// All at this node, which sends the others theirs.
    At(u16),
}

impl<'a> Layers<'a> {
    pub(super) fn new(shape: &'a Shape, hubs: Vec<u16>, nodes: usize, limit: i64) -> Layers<'a> {
        let (sent, received) = (vec![0; nodes], vec![0; nodes]);
        let scratch = Default::default();
        let mut layers =
            Layers { shape, hubs, sent, received, total: 0, limit, overload: 0, scratch };
        for component in &shape.components {
            layers.component(component, 1);
        }
        for layer in 0..shape.layers {
            layers.outs(layer, 1);
        }
        layers
    }

    /// Gives a layer another hub.
    pub(super) fn set(&mut self, layer: usize, hub: u16) {
        let shape = self.shape;
        self.layer(layer, -1);
        self.hubs[layer] = hub;
        for &c in &shape.of_layer[layer] {
            self.component(&shape.components[c as usize], 1);
        }
        self.outs(layer, 1);
    }

    fn layer(&mut self, layer: usize, sign: i64) {
        let shape = self.shape;
        for &c in &shape.of_layer[layer] {
            self.component(&shape.components[c as usize], sign);
        }
        self.outs(layer, sign);
    }

    pub(super) fn max_load(&self) -> i64 {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(0)
    }

    fn count(&mut self, from: u16, to: u16, sign: i64) {
        if from != to {
            for load in [&mut self.sent[from as usize], &mut self.received[to as usize]] {
                let before = (*load - self.limit).max(0);
                *load += sign;
                self.overload += (*load - self.limit).max(0) - before;
            }
            self.total += sign;
        }
    }

    /// Adds or takes away the traffic of a component.
    fn component(&mut self, component: &Component, sign: i64) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.host(component, &mut scratch);
        for &(from, to) in &scratch[0] {
            self.count(from, to, sign);
        }
        self.scratch = scratch;
    }

    /// The cheapest host. Where two layers with different hubs share a pair and one hub stores half
    /// of it, that hub computes for both: the other gets one sub-chunk instead of two.
    /// Its transfers are left in the first of the lists.
    fn host(&self, component: &Component, lists: &mut [Vec<(u16, u16)>; 2]) -> Host {
        let [best, trial] = lists;
        self.transfers_of(component, Host::Own, best);
        let mut host = Host::Own;
        let hub = |&(_, layer, _): &(u32, u32, u64)| self.hubs[layer as usize];
        let Some(first) = component.pres.first().map(hub) else { return host };
        if component.pres.iter().all(|pre| hub(pre) == first) {
            return host;
        }
        for node in component.pres.iter().map(hub) {
            self.transfers_of(component, Host::At(node), trial);
            if trial.len() < best.len() {
                std::mem::swap(best, trial);
                host = Host::At(node);
            }
        }
        host
    }

    fn transfers_of(&self, component: &Component, host: Host, out: &mut Vec<(u16, u16)>) {
        out.clear();
        for (i, &home) in component.homes.iter().enumerate() {
            let start = out.len();
            let mut to = |node: u16| {
                if node != home && !out[start..].iter().any(|&(_, to)| to == node) {
                    out.push((home, node));
                }
            };
            for &(_, layer, bits) in &component.pres {
                if bits >> (i & 63) & 1 == 1 {
                    to(match host {
                        Host::Own => self.hubs[layer as usize],
                        Host::At(node) => node,
                    });
                }
            }
            for &(layer, index) in &component.direct {
                if index == i {
                    to(self.hubs[layer as usize]);
                }
            }
        }
        if let Host::At(node) = host {
            let hubs = component.pres.iter().map(|&(_, layer, _)| self.hubs[layer as usize]);
            out.extend(hubs.filter(|&hub| hub != node).map(|hub| (node, hub)));
        }
    }

    /// Adds or takes away what leaves a layer.
    fn outs(&mut self, layer: usize, sign: i64) {
        let shape = self.shape;
        let hub = self.hubs[layer];
        let mut to = std::mem::take(&mut self.scratch[0]);
        for out in &shape.outs[layer] {
            to.clear();
            to.extend(out.targets.iter().map(|&target| (hub, target)));
            for &sink in &out.sinks {
                let sink = &shape.sinks[sink];
                let place = sink_place(sink, hub);
                to.push((hub, place));
                self.count(place, sink.target, sign);
                if let Some(mate) = sink.mate {
                    self.count(mate, place, sign);
                }
            }
            to.sort_unstable();
            to.dedup();
            for &(hub, node) in &to {
                self.count(hub, node, sign);
            }
        }
        self.scratch[0] = to;
    }

    /// The node of every computed vertex.
    pub(super) fn places(&self, edges: &Edges) -> Vec<usize> {
        let shape = self.shape;
        let mut places = vec![0; edges.vertices()];
        for (v, place) in places.iter_mut().enumerate() {
            if shape.layer_of[v] != NONE {
                *place = self.hubs[shape.layer_of[v] as usize] as usize;
            }
        }
        let mut scratch = Default::default();
        for component in &shape.components {
            if let Host::At(node) = self.host(component, &mut scratch) {
                for &(vertex, ..) in &component.pres {
                    places[vertex as usize] = node as usize;
                }
            }
        }
        for sink in &shape.sinks {
            let main = edges.sources(sink.vertex as usize).iter();
            let main = main.copied().find(|&s| shape.kinds[s as usize] != Kind::Read);
            let layer = main.map_or(NONE, |main| shape.layer_of[main as usize]);
            let hub = self.hubs.get(layer as usize).copied().unwrap_or(sink.target);
            places[sink.vertex as usize] = sink_place(sink, hub) as usize;
        }
        places.split_off(edges.inputs)
    }
}

/// A sink is computed by its mate, which then sends one sub-chunk; where the hub is the new node
/// already, the mate sends what it stores instead.
fn sink_place(sink: &super::shape::Sink, hub: u16) -> u16 {
    match sink.mate {
        Some(mate) if hub != sink.target => mate,
        _ => sink.target,
    }
}

//! The shape that the hub rule works on, read off the DAG and the layer hints.
//!
//! A layer is a group of vertices that are solved together. In it, a *pre* vertex comes from
//! vertices that are read alone (a pair's reverse transform), a *main* vertex from those. A *sink*
//! is computed last, outside of any layer that is read: from main vertices and at most one vertex
//! that is read (a pair's forward transform). What is read is shared between layers in small
//! groups, the *components*: a pair has two vertices that are read and a pre vertex in each of two
//! layers.

use crate::{Problem, edges::Edges};
use std::collections::{BTreeMap, HashMap};

/// No layer.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Pre,
    Main,
    Sink,
}

/// Vertices that are read together, and those that come from them alone.
#[derive(Debug, Default)]
pub(super) struct Component {
    /// Node that stores each of its read vertices.
    pub homes: Vec<u16>,
    /// Its pre vertices: vertex, layer, and which of the read ones it needs, as bits.
    pub pres: Vec<(u32, u32, u64)>,
    /// Uses by main vertices: layer, and which read one.
    pub direct: Vec<(u32, usize)>,
}

/// A vertex that is computed last.
#[derive(Debug)]
pub(super) struct Sink {
    pub vertex: u32,
    /// Node that stores the vertex which only this sink reads.
    pub mate: Option<u16>,
    /// Node that wants its value.
    pub target: u16,
}

/// A main vertex that others than its own layer need.
#[derive(Debug)]
pub(super) struct Out {
    /// Sinks that need it.
    pub sinks: Vec<usize>,
    /// Nodes that want the vertex itself.
    pub targets: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct Shape {
    /// By vertex.
    pub kinds: Vec<Kind>,
    /// By vertex; none for what is read and for sinks.
    pub layer_of: Vec<u32>,
    pub layers: usize,
    pub components: Vec<Component>,
    /// Components that a layer takes part in.
    pub of_layer: Vec<Vec<u32>>,
    pub sinks: Vec<Sink>,
    /// Vertices that leave each layer.
    pub outs: Vec<Vec<Out>>,
    /// True if components, outs and sinks are all the traffic there is: layers do not depend on
    /// each other.
    pub exact: bool,
}

impl Shape {
    /// The shape of a problem; nothing when it has less than two layers.
    pub(super) fn new(problem: &Problem, edges: &Edges) -> Option<Shape> {
        let dag = problem.dag();
        let hint = |v: usize| dag.hint(v as u32).map_or(NONE, |hint| hint.layer);
        let mut numbers = BTreeMap::new();
        for v in 0..edges.inputs {
            let next = numbers.len() as u32;
            numbers.entry(hint(v)).or_insert(next);
        }
        let mut kinds = vec![Kind::Read; edges.inputs];
        let mut layer_of = vec![NONE; edges.inputs];
        for v in edges.inputs..edges.vertices() {
            let layer = numbers.get(&hint(v)).copied().unwrap_or(NONE);
            let from_read = edges.sources(v).iter().all(|&s| (s as usize) < edges.inputs);
            let used = |u: &u32| numbers.contains_key(&hint(*u as usize));
            kinds.push(match layer {
                NONE => Kind::Sink,
                _ if from_read && edges.users(v).iter().any(used) => Kind::Pre,
                _ => Kind::Main,
            });
            layer_of.push(layer);
        }
        let used = kinds.iter().zip(&layer_of).filter(|(kind, _)| **kind == Kind::Main);
        let mut used: Vec<u32> = used.map(|(_, &layer)| layer).collect();
        used.sort_unstable();
        used.dedup();
        // Numbers of hints that only what is read has (mates' layers) are never hubs' layers.
        let names: HashMap<u32, u32> =
            used.iter().enumerate().map(|(new, &old)| (old, new as u32)).collect();
        for layer in &mut layer_of {
            *layer = names.get(layer).copied().unwrap_or(NONE);
        }
        let layers = used.len();
        let mut shape = Shape {
            kinds,
            layer_of,
            layers,
            components: Vec::new(),
            of_layer: vec![Vec::new(); layers],
            sinks: Vec::new(),
            outs: (0..layers).map(|_| Vec::new()).collect(),
            exact: true,
        };
        let stray = (edges.inputs..edges.vertices())
            .any(|v| shape.kinds[v] != Kind::Sink && shape.layer_of[v] == NONE);
        if layers < 2 || stray {
            return None;
        }
        shape.components(problem, edges);
        shape.outs(problem, edges);
        Some(shape)
    }

    /// Groups what is read by the pre vertices that share it.
    fn components(&mut self, problem: &Problem, edges: &Edges) {
        let mut group: Vec<u32> = (0..edges.inputs as u32).collect();
        fn root(group: &mut [u32], mut v: u32) -> u32 {
            while group[v as usize] != v {
                group[v as usize] = group[group[v as usize] as usize];
                v = group[v as usize];
            }
            v
        }
        for v in (edges.inputs..edges.vertices()).filter(|&v| self.kinds[v] == Kind::Pre) {
            let sources = edges.sources(v);
            let first = root(&mut group, sources[0]);
            for &source in &sources[1..] {
                let other = root(&mut group, source);
                group[other as usize] = first;
            }
        }
        let mut known: HashMap<u32, usize> = HashMap::new();
        let mut index = Vec::with_capacity(edges.inputs);
        for v in 0..edges.inputs {
            let root = root(&mut group, v as u32);
            let next = self.components.len();
            let c = *known.entry(root).or_insert(next);
            if c == next {
                self.components.push(Component::default());
            }
            let home = problem.home(problem.dag().inputs()[v].chunk).unwrap_or(0);
            index.push((c, self.components[c].homes.len()));
            self.components[c].homes.push(home as u16);
        }
        for (v, &(c, i)) in index.iter().enumerate() {
            self.exact &= i < 64;
            for &user in edges.users(v) {
                let layer = self.layer_of[user as usize];
                if self.kinds[user as usize] == Kind::Main {
                    self.components[c].direct.push((layer, i));
                }
            }
        }
        for v in (edges.inputs..edges.vertices()).filter(|&v| self.kinds[v] == Kind::Pre) {
            let place = |&s: &u32| index[s as usize];
            let c = place(&edges.sources(v)[0]).0;
            let bits = edges.sources(v).iter().fold(0, |bits, s| bits | 1 << (place(s).1 & 63));
            self.components[c].pres.push((v as u32, self.layer_of[v], bits));
        }
        for (c, component) in self.components.iter_mut().enumerate() {
            component.direct.sort_unstable();
            component.direct.dedup();
            let direct = component.direct.iter().map(|&(layer, _)| layer);
            let mut layers: Vec<u32> =
                component.pres.iter().map(|&(_, layer, _)| layer).chain(direct).collect();
            layers.sort_unstable();
            layers.dedup();
            for layer in layers {
                self.of_layer[layer as usize].push(c as u32);
            }
        }
    }

    /// Returns what leaves the layers, and the sinks.
    fn outs(&mut self, problem: &Problem, edges: &Edges) {
        let dag = problem.dag();
        let mut wanted: Vec<Vec<u16>> = vec![Vec::new(); edges.vertices()];
        for &(at, v) in dag.outputs() {
            let target = problem.target(at.chunk).unwrap_or(0) as u16;
            wanted[v as usize].push(target);
        }
        let mut sink_of = vec![usize::MAX; edges.vertices()];
        for v in (edges.inputs..edges.vertices()).filter(|&v| self.kinds[v] == Kind::Sink) {
            let mut read = edges.sources(v).iter().filter(|&&s| (s as usize) < edges.inputs);
            let alone = |s: &&u32| edges.users(**s as usize).len() == 1;
            let (first, second) = (read.next().filter(alone), read.next());
            let mains = edges.sources(v).iter().filter(|&&s| s as usize >= edges.inputs).count();
            let plain = mains == 1 && second.is_none() && wanted[v].len() == 1;
            self.exact &= plain && edges.users(v).is_empty();
            let home = |&s: &u32| problem.home(dag.inputs()[s as usize].chunk).unwrap_or(0) as u16;
            let target = wanted[v].first().copied().unwrap_or(0);
            sink_of[v] = self.sinks.len();
            self.sinks.push(Sink { vertex: v as u32, mate: first.map(home), target });
        }
        for (v, targets) in wanted.into_iter().enumerate() {
            if matches!(self.kinds[v], Kind::Sink | Kind::Read) {
                continue;
            }
            let (mut sinks, layer) = (Vec::new(), self.layer_of[v]);
            for &user in edges.users(v) {
                match self.kinds[user as usize] {
                    Kind::Sink => sinks.push(sink_of[user as usize]),
                    _ => self.exact &= self.layer_of[user as usize] == layer,
                }
            }
            if !sinks.is_empty() || !targets.is_empty() {
                self.exact &= self.kinds[v] == Kind::Main;
                self.outs[layer as usize].push(Out { sinks, targets });
            }
        }
    }
}

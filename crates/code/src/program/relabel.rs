//! The same DAG with the sub-chunks of every chunk in the order of their layers.
//!
//! The order of sub-chunks on disk is a matter of addresses: what is computed from what does not
//! depend on it. So blocks are made of the DAG as it is in natural order, and the kernel program is
//! told where each sub-chunk really lies.

use crate::{Dag, dag::At};

/// A DAG whose chunks have their sub-chunks by layer, and where these lie among those of the chunk
/// that are read, and among those that are computed; empty where they are by layer already.
#[derive(Debug)]
pub(super) struct Relabelled {
    pub dag: Dag,
    pub order: [Vec<u32>; 2],
}

impl Relabelled {
    pub(super) fn original(&self) -> Dag {
        let back = self.order.each_ref().map(|order| {
            let mut back = vec![0; order.len()];
            order.iter().zip(0..).for_each(|(&at, rank)| back[at as usize] = rank);
            back
        });
        self.dag.reordered([&back[0], &back[1]])
    }
}

/// Relabels a DAG: what its hints say of layers is used where it is the same for all chunks and
/// names every sub-chunk once; elsewhere sub-chunks stay in the order they have.
pub(super) fn by_layers(dag: &Dag) -> Relabelled {
    let layer = |vertex: u32| dag.hint(vertex).unwrap_or_default().layer;
    let inputs: Vec<(At, u32)> = dag.inputs().iter().copied().zip(0..).collect();
    let [inputs, outputs] = [&inputs[..], dag.outputs()].map(|places| {
        let layers = common(places.iter().map(|&(at, vertex)| (at.chunk, layer(vertex))))?;
        ascending(&layers)
    });
    let order = [inputs, outputs].map(Option::unwrap_or_default);
    let dag = dag.reordered([&order[0], &order[1]]);
    Relabelled { dag, order }
}

/// The layers of each chunk, if they are the same for all.
fn common(layers: impl Iterator<Item = (u32, u32)>) -> Option<Vec<u32>> {
    let (mut chunk, mut first, mut now): (_, Option<Vec<u32>>, Vec<u32>) = (None, None, vec![]);
    for (of, layer) in layers {
        if chunk.is_some_and(|chunk| chunk != of) {
            let done = std::mem::take(&mut now);
            if *first.get_or_insert_with(|| done.clone()) != done {
                return None;
            }
        }
        chunk = Some(of);
        now.push(layer);
    }
    match first {
        Some(first) => (first == now).then_some(first),
        None => Some(now),
    }
}

/// Returns where the layers lie, by rank; nothing if they ascend or if some are equal.
fn ascending(layers: &[u32]) -> Option<Vec<u32>> {
    if layers.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..layers.len() as u32).collect();
    order.sort_by_key(|&at| layers[at as usize]);
    let distinct = order.windows(2).all(|pair| layers[pair[0] as usize] < layers[pair[1] as usize]);
    distinct.then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    #[test]
    fn orders_are_undone() {
        let plan = |spec: &str, lost: usize| {
            let codec = Codec::new(&spec.parse().unwrap()).unwrap();
            let rest: Vec<usize> = (0..codec.shape().n()).filter(|&chunk| chunk != lost).collect();
            codec.repair_dag(&[lost], &rest).unwrap().1
        };
        for lost in [0, 5] {
            let natural = plan("clay:4+2", lost);
            for order in ["gray", "fewest", "balanced"] {
                let other = plan(&format!("clay:4+2,order={order}"), lost);
                let Relabelled { dag, order } = by_layers(&other);
                assert!(order.iter().any(|order| !order.is_empty()));
                let back = Relabelled { dag: dag.clone(), order }.original();
                assert_eq!((back.inputs(), back.outputs()), (other.inputs(), other.outputs()));
                // All but the positions is as in natural order.
                let steps = |dag: &Dag| -> Vec<(Vec<u32>, u32)> {
                    dag.steps().map(|step| (step.sources.to_vec(), step.first)).collect()
                };
                assert_eq!(steps(&dag), steps(&natural));
                let vertices = |dag: &Dag| -> Vec<u32> {
                    dag.outputs().iter().map(|&(_, vertex)| vertex).collect()
                };
                assert_eq!(vertices(&dag), vertices(&natural));
            }
            assert!(by_layers(&natural).order.iter().all(Vec::is_empty));
        }
    }

    #[test]
    fn layers_that_chunks_do_not_share_stay() {
        let layers = [(0, 2), (0, 1), (1, 2), (1, 1)];
        assert_eq!(common(layers.into_iter()), Some(vec![2, 1]));
        assert_eq!(ascending(&[2, 1]), Some(vec![1, 0]));
        assert_eq!(common([(0, 2), (0, 1), (1, 2)].into_iter()), None);
        assert_eq!(common([(0, 2), (0, 1), (1, 1), (1, 2), (2, 2)].into_iter()), None);
        assert_eq!(ascending(&[1, 2]), None);
        assert_eq!(ascending(&[2, 1, 2]), None);
    }
}

//! Common subexpressions: a pair of terms that several sums have is summed once (Huang, Li and
//! Chen, ITW 2007; Hafner et al., FAST 2005, section 4.3). Greedy, the most frequent pair first.
//!
//! Array codes in the form of their papers have nothing to share: it pays for dense bit matrices
//! (Cauchy) and for decoders that come as an inverse matrix.

use crate::dag::{DagBuilder, Symbol};
use crate::schedule::{Sum, sums};
use crate::{CodeError, Dag, Result};
use kiln_gf::Matrix;
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// DAGs with more pairs of terms than this stay as they are: counting would take too long.
const PAIRS_MAX: usize = 1 << 17;

/// Sums every pair of terms that occurs more than once only once; a DAG that multiplies stays as
/// it is.
pub fn share(dag: &Dag) -> Result<Dag> {
    let sums = match sums(dag) {
        Ok(sums) => sums,
        Err(CodeError::Multiplies { .. }) => return Ok(dag.clone()),
        Err(other) => return Err(other),
    };
    let pairs = |sum: &Sum| sum.terms.len() * sum.terms.len().saturating_sub(1) / 2;
    if sums.iter().map(pairs).sum::<usize>() > PAIRS_MAX {
        return Ok(dag.clone());
    }
    let mut rows = Rows::new(&sums, dag.vertices() as u32);
    while let Some(pair) = rows.most_frequent() {
        rows.join(pair);
    }
    rows.build(dag, &sums)
}

type Pair = (u32, u32);

/// The sums as sets of terms. New vertices, sums of a pair, come after those of the DAG.
struct Rows {
    terms: Vec<BTreeSet<u32>>,
    /// In which sums a pair occurs.
    users: HashMap<Pair, BTreeSet<u32>>,
    /// Pairs by how often they occur: (count, pair), the last one is next.
    queue: BTreeSet<(usize, Pair)>,
    first_new: u32,
    new: Vec<Pair>,
}

impl Rows {
    fn new(sums: &[Sum], vertices: u32) -> Rows {
        let mut rows = Rows {
            terms: vec![BTreeSet::new(); sums.len()],
            users: HashMap::default(),
            queue: BTreeSet::new(),
            first_new: vertices,
            new: Vec::new(),
        };
        for (row, sum) in sums.iter().enumerate() {
            sum.terms.iter().for_each(|&term| rows.insert(row as u32, term));
        }
        rows
    }

    fn insert(&mut self, row: u32, term: u32) {
        for other in self.terms[row as usize].clone() {
            self.count(ordered(other, term), |users| users.insert(row));
        }
        self.terms[row as usize].insert(term);
    }

    fn remove(&mut self, row: u32, term: u32) {
        self.terms[row as usize].remove(&term);
        for other in self.terms[row as usize].clone() {
            self.count(ordered(other, term), |users| users.remove(&row));
        }
    }

    fn count(&mut self, pair: Pair, change: impl Fn(&mut BTreeSet<u32>) -> bool) {
        let users = self.users.entry(pair).or_default();
        let before = users.len();
        change(users);
        let after = users.len();
        if before > 1 {
            self.queue.remove(&(before, pair));
        }
        if after > 1 {
            self.queue.insert((after, pair));
        }
        if after == 0 {
            self.users.remove(&pair);
        }
    }

    fn most_frequent(&self) -> Option<Pair> {
        self.queue.last().map(|&(_, pair)| pair)
    }

    /// Makes a vertex of a pair and uses it everywhere.
    fn join(&mut self, pair: Pair) {
        let vertex = self.first_new + self.new.len() as u32;
        self.new.push(pair);
        for row in self.users.get(&pair).cloned().unwrap_or_default() {
            self.remove(row, pair.0);
            self.remove(row, pair.1);
            self.insert(row, vertex);
        }
    }

    /// The DAG of the rows: new vertices come just before their first use.
    fn build(&self, dag: &Dag, sums: &[Sum]) -> Result<Dag> {
        let mut builder = DagBuilder::new();
        let all = self.first_new as usize + self.new.len();
        let mut symbols: Vec<Option<Symbol>> = vec![None; all];
        let hint = |vertex: u32| dag.hint(vertex).unwrap_or_default();
        for (vertex, &at) in dag.inputs().iter().enumerate() {
            symbols[vertex] = Some(builder.input(at, hint(vertex as u32)));
        }
        for (sum, terms) in sums.iter().zip(&self.terms) {
            let mut open: Vec<u32> = terms.iter().copied().collect();
            while let Some(&vertex) = open.last() {
                let pair = vertex.checked_sub(self.first_new).map(|new| self.new[new as usize]);
                let Some(pair) = pair.filter(|_| symbols[vertex as usize].is_none()) else {
                    open.pop();
                    continue;
                };
                let parts = [pair.0, pair.1];
                match parts.map(|part| symbols[part as usize]) {
                    [Some(a), Some(b)] => {
                        let made = xor(&mut builder, &[a, b], hint(sum.vertex))?;
                        symbols[vertex as usize] = Some(made);
                    }
                    _ => open.extend(parts),
                }
            }
            let terms = terms.iter().filter_map(|&term| symbols[term as usize]);
            let terms: Vec<Symbol> = terms.filter(|symbol| *symbol != Symbol::Zero).collect();
            symbols[sum.vertex as usize] = Some(xor(&mut builder, &terms, hint(sum.vertex))?);
        }
        for &(at, vertex) in dag.outputs() {
            builder.output(at, symbols[vertex as usize].unwrap_or(Symbol::Zero));
        }
        builder.finish()
    }
}

fn ordered(a: u32, b: u32) -> Pair {
    (a.min(b), a.max(b))
}

fn xor(builder: &mut DagBuilder, terms: &[Symbol], hint: crate::Hint) -> Result<Symbol> {
    match terms {
        [] => Ok(Symbol::Zero),
        [one] => Ok(*one),
        _ => {
            let ones = builder.matrix(&Matrix::from_fn(1, terms.len(), |_, _| 1));
            Ok(builder.step(ones, terms, &[hint])?.symbol(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;
    use crate::Codec;

    #[test]
    fn dense_bit_matrices_take_a_fifth_fewer_xors() {
        let codec = Codec::new(&"cauchy:6+3,w=4".parse().unwrap()).unwrap();
        let plan = codec.encode_plan().unwrap();
        let shared = share(plan.dag()).unwrap();
        assert!(shared.work().1 * 5 < plan.dag().work().1 * 4);
        assert_eq!(shared.matrix().unwrap(), plan.dag().matrix().unwrap());
    }
}

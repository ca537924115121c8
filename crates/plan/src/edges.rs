//! The edges of a DAG vertex by vertex: what placement works on.

use kiln_code::Dag;

/// Sources and users of every vertex; coefficients of zero make no edge.
#[derive(Debug, Clone)]
pub struct Edges {
    /// Vertices that are read come first.
    pub inputs: usize,
    source_ends: Vec<u32>,
    sources: Vec<u32>,
    user_ends: Vec<u32>,
    users: Vec<u32>,
}

impl Edges {
    /// The edges of a DAG.
    pub fn new(dag: &Dag) -> Edges {
        let inputs = dag.inputs().len();
        let (mut source_ends, mut sources) = (vec![0; inputs], Vec::new());
        let mut counts = vec![0_u32; dag.vertices()];
        for step in dag.steps() {
            for row in 0..step.matrix.rows() {
                let start = sources.len();
                let terms = step.matrix.row(row).iter().zip(step.sources);
                for (_, &source) in terms.filter(|&(&c, _)| c != 0) {
                    // A source may stand twice in a step; the edge is one.
                    if !sources[start..].contains(&source) {
                        sources.push(source);
                        counts[source as usize] += 1;
                    }
                }
                source_ends.push(sources.len() as u32);
            }
        }
        let mut user_ends = Vec::with_capacity(counts.len());
        let mut end = 0;
        for count in counts {
            user_ends.push(end);
            end += count;
        }
        let mut users = vec![0; sources.len()];
        let mut start = 0;
        for (vertex, &end) in source_ends.iter().enumerate() {
            for &source in &sources[start..end as usize] {
                let place = &mut user_ends[source as usize];
                users[*place as usize] = vertex as u32;
                *place += 1;
            }
            start = end as usize;
        }
        Edges { inputs, source_ends, sources, user_ends, users }
    }

    /// Number of vertices.
    pub fn vertices(&self) -> usize {
        self.source_ends.len()
    }

    /// The vertices that a vertex is computed from; none for one that is read.
    pub fn sources(&self, vertex: usize) -> &[u32] {
        span(&self.source_ends, &self.sources, vertex)
    }

    /// The vertices that are computed from a vertex, ascending.
    pub fn users(&self, vertex: usize) -> &[u32] {
        span(&self.user_ends, &self.users, vertex)
    }
}

fn span<'a>(ends: &[u32], all: &'a [u32], vertex: usize) -> &'a [u32] {
    let start = if vertex == 0 { 0 } else { ends[vertex - 1] };
    &all[start as usize..ends[vertex] as usize]
}

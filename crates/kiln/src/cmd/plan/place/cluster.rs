//! The machines of `--cluster`: a TOML file, of which a `pool.toml` is a special case.

use std::{path::Path, sync::Arc};

use crate::exit::Result;
use kiln_code::{Codec, Dag};
use kiln_plan::{Cluster, Node, PlanError, Problem};
use serde::Deserialize;

use crate::{exit::Failure, sizes};

/// The largest file of machines.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    node: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    /// Failure domain; default: the node alone.
    domain: Option<String>,
    /// Bytes a second, e.g. "1.25GB"; default: 10 Gbit/s.
    up: Option<String>,
    down: Option<String>,
    /// The part of the link that others use.
    load: Option<f64>,
    /// Chunks that it stores.
    #[serde(default)]
    chunks: Vec<usize>,
    /// Lost chunks that are rebuilt there, or read by a client there.
    #[serde(default)]
    rebuilds: Vec<usize>,
    // What else the nodes of a pool have.
    #[serde(rename = "url")]
    _url: Option<String>,
    #[serde(rename = "weight")]
    _weight: Option<f64>,
    #[serde(rename = "draining")]
    _draining: Option<bool>,
    #[serde(rename = "state")]
    _state: Option<String>,
    #[serde(rename = "disk")]
    _disk: Option<String>,
    #[serde(rename = "since")]
    _since: Option<u64>,
}

/// A cluster and who has which chunk.
pub struct Machines {
    cluster: Arc<Cluster>,
    homes: Vec<(usize, usize)>,
    targets: Vec<(usize, usize)>,
}

impl Machines {
    /// From a file; without one, a node for each chunk.
    pub fn new(path: Option<&Path>, codec: &Codec, lost: &[usize]) -> Result<Machines> {
        let n = codec.shape().n();
        let Some(path) = path else {
            let all: Vec<(usize, usize)> = (0..n).map(|i| (i, i)).collect();
            let cluster = Arc::new(Cluster::uniform(n)?);
            return Ok(Machines { cluster, homes: all.clone(), targets: all });
        };
        let (file, cluster) = load(path)?;
        let pairs = |list: fn(&Row) -> &[usize]| -> Vec<(usize, usize)> {
            let rows = file.node.iter().enumerate();
            rows.flat_map(|(i, row)| list(row).iter().map(move |&chunk| (chunk, i))).collect()
        };
        let mut homes = pairs(|row| &row.chunks);
        let mut targets = pairs(|row| &row.rebuilds);
        let count = file.node.len();
        let unusable = |problem: String| Failure::NotUsable { path: path.to_owned(), problem };
        for list in [&homes, &targets] {
            placed_once(&file, list, n).map_err(unusable)?;
        }
        if homes.is_empty() {
            if count < n {
                let problem = format!(
                    "{count} machines for the {n} chunks of {}: name {n}, or say with chunks = \
                     [..] who stores what",
                    codec.spec()
                );
                return Err(unusable(problem));
            }
            homes = (0..n).map(|i| (i, i)).collect();
        }
        if let Some(chunk) = (0..n).find(|&chunk| !has(&homes, chunk) && !lost.contains(&chunk)) {
            return Err(unusable(format!("no machine stores chunk {chunk}, which is not lost")));
        }
        if !targets.is_empty()
            && let Some(chunk) = lost.iter().find(|&&chunk| !has(&targets, chunk))
        {
            return Err(unusable(format!("no machine rebuilds chunk {chunk}, which is lost")));
        }
        if targets.is_empty() {
            // New nodes: those after the stripe, or the emptied ones where there are no others.
            let old = |chunk: usize| homes.iter().find(|home| home.0 == chunk).map(|home| home.1);
            let next = |i: usize, chunk: usize| match n + i < count {
                true => Some(n + i),
                false => old(chunk),
            };
            for (i, &chunk) in lost.iter().enumerate() {
                let node = next(i, chunk).ok_or_else(|| {
                    unusable(format!("no machine rebuilds chunk {chunk}: say so with rebuilds"))
                })?;
                targets.push((chunk, node));
            }
        }
        Ok(Machines { cluster, homes, targets })
    }

    /// The placing of a DAG on these machines.
    pub fn problem(&self, dag: Dag) -> Result<Problem> {
        Ok(Problem::new(Arc::new(dag), self.cluster.clone(), &self.homes, &self.targets)?)
    }
}

fn has(list: &[(usize, usize)], chunk: usize) -> bool {
    list.iter().any(|entry| entry.0 == chunk)
}

/// Every chunk of a list is one of the code's, and has one node.
fn placed_once(file: &File, list: &[(usize, usize)], n: usize) -> Result<(), String> {
    let mut seen: Vec<Option<&str>> = vec![None; n];
    for &(chunk, node) in list {
        let name = &file.node[node].id[..];
        let last = n - 1;
        let place = seen.get_mut(chunk);
        let place = place.ok_or(format!("{name}: there is no chunk {chunk}, only 0 to {last}"))?;
        if let Some(other) = place.replace(name) {
            return Err(format!("chunk {chunk} is at {other} and at {name}; each is at one"));
        }
    }
    Ok(())
}

/// The machines of a file, whatever it says of chunks.
pub fn read(path: &Path) -> Result<Arc<Cluster>> {
    Ok(load(path)?.1)
}

fn load(path: &Path) -> Result<(File, Arc<Cluster>), Failure> {
    let unusable = |problem: String| Failure::NotUsable { path: path.to_owned(), problem };
    let io = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(io)?.len() > FILE_BYTES_MAX {
        return Err(unusable("too large for a list of machines".into()));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let file: File = toml::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    if file.node.is_empty() {
        return Err(unusable("no machine listed; add a table [[node]] with an id for each".into()));
    }
    let mut names: Vec<&str> = file.node.iter().map(|row| &row.id[..]).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(unusable(format!("two machines are called '{}'", twice[0])));
    }
    let nodes: Result<Vec<Node>, String> = file.node.iter().map(node).collect();
    let cluster = Cluster::new(nodes.map_err(unusable)?).map_err(|error| match error {
        PlanError::Cluster { node, what, value, expected } => {
            unusable(format!("{}: {what} is {value}; {expected}", file.node[node].id))
        }
        error => error.into(),
    })?;
    Ok((file, Arc::new(cluster)))
}

fn node(row: &Row) -> Result<Node, String> {
    let rate = |text: &Option<String>, usual: f64| match text {
        None => Ok(usual),
        Some(text) => sizes::parse(text).map(|bytes| bytes as f64),
    };
    let usual = Node::new(&row.id);
    let (up, down) = (rate(&row.up, usual.up)?, rate(&row.down, usual.down)?);
    let node = usual.with_link(up, down).with_load(row.load.unwrap_or(0.0));
    Ok(match &row.domain {
        Some(domain) => node.in_domain(domain),
        None => node,
    })
}

//! Shares of placed repairs, as a coordinator sends them: read, checked, compiled and carried out.
//! An agent says what is wrong with one, or does it; it never panics.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kiln_code::Codec;
use kiln_files::{EncodeRequest, encode};
use kiln_net::proto::assignment::{
    Assignment, DagInfo, Geometry, PersistInfo, PieceInfo, RoundInfo, Run, SourceFile, TargetFile,
};
use kiln_recovery::sim::alone;
use kiln_store::{Backend, MemoryBackend, ShardReader};
use kiln_stripe::{Node, PoolError, Settings, Silent, StreamSource};

const SPECS: [&str; 2] = ["rs:2+1", "clay:2+2,d=3"];
/// Effects that are carried out.
const STEPS: usize = 200;

/// The shards of one object for each code, as files `0.00.kiln` and so on.
fn shards() -> &'static BTreeMap<String, Vec<u8>> {
    static SHARDS: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    // A target that cannot begin must fail.
    SHARDS.get_or_init(|| made().expect("shards in memory"))
}

fn made() -> Result<BTreeMap<String, Vec<u8>>, PoolError> {
    let place = Arc::new(MemoryBackend::new());
    for (at, spec) in SPECS.iter().enumerate() {
        let codec = Codec::new(&spec.parse()?)?;
        let (object, run) = (at.to_string(), [at as u8 + 1; 16]);
        let sub_chunk = Some(32);
        let request =
            EncodeRequest { codec: &codec, object: &object, run, sub_chunk, replace: false };
        let bytes: Vec<u8> = (0..700u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let nodes = [Node::new("here", place.clone() as Arc<dyn Backend>)];
        encode(&request, &mut StreamSource::new(&bytes[..]), &nodes, &Settings::new(&Silent))?;
    }
    let names = place.list()?.into_iter();
    Ok(names.map(|name| (name.clone(), place.bytes(&name).unwrap_or_default())).collect())
}

fn place() -> Arc<MemoryBackend> {
    let place = Arc::new(MemoryBackend::new());
    shards().iter().for_each(|(name, bytes)| place.put(name, bytes.clone()));
    place
}

pub fn run(input: &[u8]) {
    let _ = alone(input, place(), STEPS);
    // Its parts alone, for what is refused as a whole.
    if let Ok(assignment) = Assignment::decode(input) {
        assert_eq!(assignment.encode(), input);
        let _ = assignment.layout().map(|layout| assignment.window_count(&layout));
    }
}

/// The repair of a shard on the node that has all others.
fn share(at: usize, lost: usize, receives: bool) -> Result<Assignment, PoolError> {
    let codec = Codec::new(&SPECS[at].parse()?)?;
    let n = codec.shape().n();
    let place = place();
    let name = |chunk: u32| format!("{at}.{chunk:02}.kiln");
    let open = |chunk: u32| ShardReader::open(&*place, &name(chunk));
    let others: Vec<usize> = (0..n).filter(|chunk| *chunk != lost).collect();
    let (_, dag) = codec.repair_dag(&[lost], &others)?;
    let mut dag = DagInfo::of(&dag);
    // Of each helper a piece: the DAG's places are then pieces, and positions in them.
    let mut reads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    dag.inputs.iter().for_each(|input| reads.entry(input.chunk).or_default().push(input.position));
    let helpers: Vec<u32> = reads.keys().copied().collect();
    let rank = |chunk: u32| helpers.partition_point(|helper| *helper < chunk) as u32;
    for input in &mut dag.inputs {
        let before = |position: &u32| *position < input.position;
        input.position = reads[&input.chunk].partition_point(before) as u32;
        input.chunk = rank(input.chunk);
    }
    let made = dag.outputs.len() as u32;
    let positions: Vec<u32> = dag.outputs.iter().map(|output| output.at.position).collect();
    for (position, output) in (0..).zip(&mut dag.outputs) {
        (output.at.chunk, output.at.position) = (helpers.len() as u32, position);
    }
    let one = |position: &u32| Run { start: *position, end: *position + 1 };
    let mut pieces: Vec<PieceInfo> = reads
        .iter()
        .map(|(chunk, positions)| PieceInfo {
            id: rank(*chunk),
            sub_chunks: positions.len() as u32,
            chunk: *chunk,
            runs: positions.iter().map(one).collect(),
        })
        .collect();
    let inputs: Vec<u32> = pieces.iter().map(|piece| piece.id).collect();
    if receives {
        pieces[0].runs.clear();
    }
    let (waits, reads) = inputs.split_at(usize::from(receives));
    let output = pieces.len() as u32;
    pieces.push(PieceInfo { id: output, sub_chunks: made, ..PieceInfo::default() });
    let target = lost as u32;
    let round = RoundInfo {
        reads: reads.to_vec(),
        receives: waits.to_vec(),
        dag,
        inputs: inputs.clone(),
        outputs: vec![output],
        sends: Vec::new(),
        persists: vec![PersistInfo { piece: output, chunk: target, positions }],
    };
    let whole = open(helpers[0])?;
    let (size, digests) = (whole.size().unwrap_or(0), whole.digests().unwrap_or_default());
    let sources = helpers.iter().map(|&chunk| SourceFile { chunk, name: name(chunk) }).collect();
    Ok(Assignment {
        end: whole.layout().stripes(),
        slice: 24,
        windows: 4,
        geometry: Geometry::of(whole.info(), size, digests),
        sources,
        targets: vec![TargetFile { chunk: target, part: ".part".into(), name: name(target) }],
        pieces,
        rounds: vec![round],
        ..Assignment::default()
    })
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (at, lost, receives) in [(0, 2, false), (0, 0, true), (1, 1, false), (1, 3, true)] {
        // A target that cannot begin must fail.
        let share = share(at, lost, receives).expect("a share");
        seeds.push(share.encode());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_begins_with_is_carried_out() -> Result<(), kiln_store::StoreError> {
        for (at, lost) in [(0, 2), (0, 0), (1, 1), (1, 3)] {
            let (place, name) = (place(), format!("{at}.{lost:02}.kiln"));
            place.remove(&name)?;
            let share = share(at, lost, false).expect("a share");
            assert!(alone(&share.encode(), place.clone(), STEPS).expect("a repair"));
            // A stream's header does not know the size, a repair's does: the rest is the same.
            let rest = |bytes: Option<Vec<u8>>| bytes.map(|bytes| bytes[4096..].to_vec());
            assert_eq!(rest(place.bytes(&name)), rest(shards().get(&name).cloned()));
        }
        Ok(())
    }
}

//! Sets of shards: files that are damaged, cut, exchanged, forged or foreign, and all that reads
//! them. Nothing panics, and what comes out without an error is what went in, unless checksums were
//! forged; as long as no more shards are touched than the code bears, it does come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use kiln_code::Codec;
use kiln_files::{EncodeRequest, RepairRequest, decode, discover, encode, repair, verify};
use kiln_store::{Backend, MemoryBackend, checksum};
use kiln_stripe::{Depth, Node, PoolError, Sequence, Settings, Silent, StreamSource};

/// Codes of all kinds that are small.
const SPECS: [&str; 4] = ["rs:2+1", "rep:2", "clay:2+2,d=3", "lrc:4+2+1"];
/// Bytes of the header block; its last four are its checksum.
const HEADER: usize = 4096;
/// Bytes of the tail.
const TAIL: usize = 24;
/// Bytes of one change.
const CHANGE: usize = 6;
/// More changes only take longer.
const CHANGES: usize = 24;

/// A code, its object, and the files of its shards.
struct World {
    m: usize,
    object: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

impl World {
    fn new(spec: &str) -> Result<World, PoolError> {
        let codec = Codec::new(&spec.parse()?)?;
        let shape = codec.shape();
        let stripe = 16 * shape.k * shape.alpha;
        let object: Vec<u8> = (0..3 * stripe + 37).map(|i| (i * 31 + i / 256) as u8).collect();
        let place = Arc::new(MemoryBackend::new());
        let nodes = [Node::new("here", place.clone() as Arc<dyn Backend>)];
        let (codec, object_name) = (&codec, "x");
        let request = EncodeRequest {
            codec,
            object: object_name,
            run: [1; 16],
            sub_chunk: Some(16),
            replace: false,
        };
        encode(&request, &mut StreamSource::new(&object[..]), &nodes, &Settings::new(&Silent))?;
        let named = place.list()?.into_iter();
        let files = named.map(|name| (name.clone(), place.bytes(&name).unwrap_or_default()));
        // Of a code that is not MDS fewer losses than parity chunks may be too many.
        let m = codec.margin(&[]) as usize;
        Ok(World { m, object, files: files.collect() })
    }
}

/// The files after changes.
struct Changed {
    files: BTreeMap<String, Vec<u8>>,
    touched: BTreeSet<String>,
    /// Some have right checksums and wrong contents.
    forged: bool,
    /// Files were added that look like others' of the same object.
    strange: bool,
}

impl Changed {
    /// One change: what, which file, where, with what.
    fn apply(&mut self, change: &[u8; CHANGE], world: &World) {
        let names: Vec<&String> = world.files.keys().collect();
        let [what, which, low, high, value, more] = *change;
        let name = names[usize::from(which) % names.len()].clone();
        let other = names[usize::from(value) % names.len()].clone();
        let place = usize::from(u16::from_le_bytes([low, high]));
        self.touched.insert(name.clone());
        let Some(bytes) = self.files.get_mut(&name) else { return };
        let len = bytes.len();
        match what % 10 {
            0 if place < len => bytes[place] = value,
            1 if place < len => bytes[len - 1 - place] = value,
            2 => bytes.truncate(place),
            3 => {
                let start = place.min(len);
                bytes[start..(start + 16 * usize::from(value)).min(len)].fill(more);
            }
            4 => drop(self.files.remove(&name)),
            5 => *bytes = world.files[&other].clone(),
            6 => {
                let copy = bytes.clone();
                self.files.insert(format!(".x.{:02}.kiln.part", more % 8), copy);
                self.strange = true;
            }
            7 if len >= HEADER => {
                // The numbers of the header, and its texts.
                let at = 8 + place % 140;
                self.forged = true;
                put(&mut bytes[..HEADER], at, value, more);
            }
            8 => self.forged |= forge_trailer(bytes, place, value, more),
            9 => bytes.resize(len + place, value),
            _ => {}
        }
    }
}

/// Writes one or eight bytes into a record and gives it the right checksum.
fn put(record: &mut [u8], at: usize, value: u8, more: u8) {
    let end = record.len() - 4;
    if more & 1 == 0 {
        record[at.min(end - 1)] = value;
    } else {
        // A number near a power of two.
        let number = (1u64 << (value % 64)).wrapping_sub(u64::from(more >> 1 & 1));
        let at = at.min(end - 8);
        record[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(&record[..end]).to_le_bytes();
    record[end..].copy_from_slice(&sum);
}

/// The same with the trailer, if there is one.
fn forge_trailer(bytes: &mut [u8], place: usize, value: u8, more: u8) -> bool {
    let Some(tail) = bytes.len().checked_sub(TAIL).filter(|tail| *tail > HEADER) else {
        return false;
    };
    let record = u32::from_le_bytes(std::array::from_fn(|i| bytes[tail + 8 + i])) as usize;
    let Some(start) = tail.checked_sub(record).filter(|_| record > 100) else { return false };
    put(&mut bytes[start..tail], 8 + place % (record - 12), value, more);
    true
}

pub fn run(input: &[u8]) {
    static WORLDS: OnceLock<Vec<World>> = OnceLock::new();
    let worlds = WORLDS.get_or_init(|| {
        // A target that cannot begin must fail.
        SPECS.iter().map(|spec| World::new(spec).expect("shards in memory")).collect()
    });
    let Some((&which, changes)) = input.split_first() else { return };
    let world = &worlds[usize::from(which) % worlds.len()];
    let (files, touched) = (world.files.clone(), BTreeSet::new());
    let mut changed = Changed { files, touched, forged: false, strange: false };
    for change in changes.as_chunks::<CHANGE>().0.iter().take(CHANGES) {
        changed.apply(change, world);
    }
    let place = Arc::new(MemoryBackend::new());
    for (name, bytes) in &changed.files {
        place.put(name, bytes.clone());
    }
    let nodes = [Node::new("here", place as Arc<dyn Backend>)];
    let sequence = Sequence::new(|_| 0);
    let settings =
        Settings { sequence: Some(&sequence), memory: 1 << 20, ..Settings::new(&Silent) };
    let bearable = !changed.forged && !changed.strange && changed.touched.len() <= world.m;
    let read = || -> Result<Vec<u8>, PoolError> {
        let (set, mut out) = (discover(&nodes, Some("x"))?, Vec::new());
        let _ = set.report();
        let report = verify(&set, Depth::Parity, &settings)?;
        assert!(!bearable || report.recoverable, "{report:?}");
        decode(&set, &mut out, &settings)?;
        Ok(out)
    };
    let right = |out: Result<Vec<u8>, PoolError>, must: bool| match out {
        Ok(out) => assert!(changed.forged || out == world.object, "other bytes came out"),
        Err(error) => assert!(!must, "{error}"),
    };
    right(read(), bearable);
    let repaired = discover(&nodes, Some("x"))
        .and_then(|set| repair(&set, &RepairRequest::default(), &settings).map(drop));
    assert!(!bearable || repaired.is_ok(), "{repaired:?}");
    // A repair makes nothing worse.
    right(read(), bearable);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let of = |code: u8, changes: &[[u8; CHANGE]]| [&[code][..], changes.as_flattened()].concat();
    vec![
        of(0, &[[0, 1, 0, 16, 9, 0]]),
        of(0, &[[7, 0, 64, 0, 53, 1], [7, 1, 64, 0, 53, 1], [7, 2, 64, 0, 53, 1]]),
        of(1, &[[4, 0, 0, 0, 0, 0], [2, 1, 0, 16, 0, 0]]),
        of(2, &[[5, 0, 0, 0, 1, 0], [3, 2, 10, 16, 4, 0], [1, 3, 3, 0, 1, 0]]),
        of(2, &[[6, 0, 0, 0, 0, 3], [4, 0, 0, 0, 0, 0], [9, 1, 9, 0, 0, 0]]),
        of(3, &[[8, 0, 70, 0, 200, 0], [7, 5, 48, 0, 1, 0]]),
    ]
}

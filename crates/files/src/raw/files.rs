//! Bare chunk files and what can be known of them.

use std::ops::Range;

use kiln_code::Codec;
use kiln_store::{BatchRead, ReadAt, ReadCost, StoreError, issued, read_ranges};
use kiln_stripe::{Damage, Node, PoolError, Result, chunks::Chunks, names, node::node_of};

use super::RawRequest;
use crate::RepairRequest;

/// `NAME.7`, numbered as Ceph numbers the shards.
pub(super) fn name(codec: &Codec, object: &str, index: usize) -> String {
    format!("{object}.{}", codec.mapping()[index])
}

/// `.NAME.7.part`
pub(super) fn part(object: &str, index: usize) -> String {
    names::part_of(&format!("{object}.{index}"))
}

fn parse<'a>(file: &'a str, mapping: &[usize]) -> Option<(&'a str, usize)> {
    let (object, digits) = file.rsplit_once('.')?;
    let number: usize = digits.parse().ok()?;
    let index = mapping.iter().position(|&shard| shard == number)?;
    let good = !object.is_empty() && !object.starts_with('.');
    (good && number.to_string() == digits).then_some((object, index))
}

/// Open files of one object.
pub(super) struct RawFiles<'a> {
    /// NAME.
    pub object: String,
    /// Files missing although named, or of a wrong length.
    pub damage: Vec<Damage>,
    pub codec: &'a Codec,
    nodes: &'a [Node],
    /// Position of the node, and the file, for each index.
    files: Vec<Option<(usize, Box<dyn ReadAt>)>>,
    sub_chunk: usize,
    stripes: u64,
    size: u64,
}

impl<'a> RawFiles<'a> {
    /// Finds and opens the files, and works out their geometry.
    pub(super) fn open(req: &RawRequest<'a>, nodes: &'a [Node]) -> Result<RawFiles<'a>> {
        let (object, found) = find(req, nodes)?;
        let shape = req.codec.shape();
        let mut files: Vec<Option<(usize, Box<dyn ReadAt>)>> =
            (0..shape.n()).map(|_| None).collect();
        let mut damage = Vec::new();
        for (index, node) in found {
            match nodes[node].store.open(&name(req.codec, &object, index)) {
                Ok(file) => files[index] = Some((node, file)),
                Err(error) => {
                    let reason = error.to_string();
                    damage.push(Damage { index: Some(index), stripe: None, reason });
                }
            }
        }
        let lengths: Vec<u64> = files.iter().flatten().map(|(_, file)| file.len()).collect();
        let (sub_chunk, stripes) = geometry(req, &lengths)?;
        let length = stripes * (sub_chunk * shape.alpha) as u64;
        for (index, slot) in files.iter_mut().enumerate() {
            if let Some((_, file)) = slot.take_if(|(_, file)| file.len() != length) {
                let reason = format!("it has {} bytes instead of {length}", file.len());
                damage.push(Damage { index: Some(index), stripe: None, reason });
            }
        }
        let absent: Vec<usize> = (0..files.len()).filter(|&i| files[i].is_none()).collect();
        if !req.codec.tolerates(&absent) {
            let (good, spec) = (files.len() - absent.len(), req.codec.spec());
            let needs = match good < shape.k {
                true => format!("{spec} needs {}", shape.k),
                false => format!("from which the others {absent:?} of {spec} do not follow"),
            };
            let detail = format!("{good} files of {length} bytes are here, {needs}");
            return Err(PoolError::NotRecoverable { object, detail });
        }
        let size = req.size.unwrap_or(length * shape.k as u64);
        let codec = req.codec;
        Ok(RawFiles { object, damage, codec, nodes, files, sub_chunk, stripes, size })
    }

    /// Indices without a usable file.
    pub(super) fn absent(&self) -> Vec<usize> {
        (0..self.files.len()).filter(|&index| self.files[index].is_none()).collect()
    }

    /// Name of the node that holds an index, or a word for none.
    pub(super) fn node_name(&self, index: usize) -> String {
        let holder = self.files[index].as_ref();
        holder.map_or_else(|| "(none)".to_owned(), |(node, _)| self.nodes[*node].name.clone())
    }

    /// Returns where a rebuilt file goes.
    pub(super) fn place(&self, repair: &RepairRequest, index: usize) -> Result<Node> {
        if let Some(node) = repair.targets.get(&index) {
            return Ok(node.clone());
        }
        if let Some((node, _)) = &self.files[index] {
            return Ok(self.nodes[*node].clone());
        }
        if self.nodes.len() == 1 || self.nodes.len() == self.files.len() {
            return Ok(self.nodes[node_of(index, self.nodes)].clone());
        }
        let what = format!(
            "cannot tell where {} belongs; name a folder (--to)",
            name(self.codec, &self.object, index)
        );
        Err(PoolError::Usage { what })
    }
}

/// NAME, and on which node each index is.
fn find(req: &RawRequest<'_>, nodes: &[Node]) -> Result<(String, Vec<(usize, usize)>)> {
    let mapping = req.codec.mapping();
    let mut seen: Vec<(String, usize, usize)> = Vec::new();
    for (node, place) in nodes.iter().enumerate() {
        for file in place.store.list()? {
            let Some((object, index)) = parse(&file, &mapping) else { continue };
            if req.object.is_none_or(|wanted| wanted == object) {
                seen.push((object.to_owned(), index, node));
            }
        }
    }
    let mut objects: Vec<String> = seen.iter().map(|(object, ..)| object.clone()).collect();
    objects.sort();
    objects.dedup();
    let object = match objects.len() {
        0 => {
            let places: Vec<String> = nodes.iter().map(|node| node.store.place()).collect();
            let object = req.object.map(str::to_owned);
            return Err(PoolError::NotFound { object, places: places.join(", ") });
        }
        1 => objects.remove(0),
        _ => return Err(PoolError::SeveralObjects { objects }),
    };
    // The same index on two nodes: the first counts.
    let mut found: Vec<(usize, usize)> =
        seen.iter().map(|(_, index, node)| (*index, *node)).collect();
    found.sort_unstable();
    found.dedup_by_key(|(index, _)| *index);
    Ok((object, found))
}

/// Bytes of a sub-chunk, and number of stripes.
fn geometry(req: &RawRequest<'_>, lengths: &[u64]) -> Result<(usize, u64)> {
    if let Some(size) = req.size {
        return req.cut(size);
    }
    let alpha = req.codec.shape().alpha;
    let common = |length: &&u64| lengths.iter().filter(|other| other == length).count();
    let length = lengths.iter().max_by_key(common).copied().unwrap_or(0);
    let sub_chunk = req.sub_chunk()?;
    let chunk = (sub_chunk * alpha) as u64;
    if length.is_multiple_of(chunk) {
        return Ok((sub_chunk, length / chunk));
    }
    if req.chunk.is_none() && length < chunk && length.is_multiple_of(alpha as u64) {
        return Ok(((length / alpha as u64) as usize, 1));
    }
    let what = format!("files of {length} bytes are no whole chunks of {chunk}: give --chunk");
    Err(PoolError::Usage { what })
}

impl Chunks for RawFiles<'_> {
    fn object(&self) -> &str {
        &self.object
    }

    fn codec(&self) -> &Codec {
        self.codec
    }

    fn object_bytes(&self) -> u64 {
        self.size
    }

    fn stripes(&self) -> u64 {
        self.stripes
    }

    fn sub_len(&self, _stripe: u64) -> usize {
        self.sub_chunk
    }

    fn stripe_bytes(&self, stripe: u64) -> u64 {
        let shape = self.codec.shape();
        let full = (self.sub_chunk * shape.alpha * shape.k) as u64;
        self.size.saturating_sub(stripe * full).min(full)
    }

    fn stripes_there(&self, chunk: usize) -> u64 {
        // Files of other lengths than most are not taken.
        if self.files[chunk].is_some() { self.stripes } else { 0 }
    }

    fn read(
        &self,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
        buf: &mut [u8],
    ) -> Result<ReadCost, StoreError> {
        let file = self.file(chunk)?;
        let mut batch = Vec::with_capacity(runs.len());
        let mut rest = buf;
        for (range, run) in self.ranges_of(stripe, runs).into_iter().zip(runs) {
            let (now, later) = rest.split_at_mut(run.len() * self.sub_chunk);
            batch.push(BatchRead::new(range.start, now));
            rest = later;
        }
        file.read_batch(&mut batch)?;
        Ok(self.cost_of(chunk, stripe, runs))
    }

    fn node_name(&self, chunk: usize) -> String {
        RawFiles::node_name(self, chunk)
    }

    fn ranges(&self, _chunk: usize, stripe: u64, runs: &[Range<u32>]) -> Vec<Range<u64>> {
        self.ranges_of(stripe, runs)
    }

    fn alignment(&self, chunk: usize) -> u64 {
        self.files[chunk].as_ref().map_or(1, |(_, file)| file.alignment())
    }

    fn read_ranges(
        &self,
        chunk: usize,
        ranges: &[Range<u64>],
        bytes: &mut [u8],
    ) -> Result<(), StoreError> {
        read_ranges(self.file(chunk)?, ranges, bytes)
    }

    fn check(
        &self,
        _chunk: usize,
        _stripe: u64,
        _runs: &[Range<u32>],
        _bytes: &[u8],
    ) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn cost_of(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
        let wanted = self.ranges_of(stripe, runs);
        let reads = issued(&wanted, self.alignment(chunk));
        let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum();
        ReadCost {
            data_bytes: bytes(&wanted),
            runs: runs.len() as u64,
            device_bytes: bytes(&reads),
            device_reads: reads.len() as u64,
            metadata_bytes: 0,
        }
    }
}

impl RawFiles<'_> {
    fn file(&self, index: usize) -> Result<&dyn ReadAt, StoreError> {
        // Returning success without a file would leave another stripe's bytes in the buffer.
        let file = self.files[index].as_ref().map(|(_, file)| &**file);
        file.ok_or_else(|| StoreError::Damaged {
            place: "the folders given".to_owned(),
            name: name(self.codec, &self.object, index),
            part: "chunk file".to_owned(),
            what: "it is missing".to_owned(),
        })
    }

    /// The bytes of a file that runs lie in.
    fn ranges_of(&self, stripe: u64, runs: &[Range<u32>]) -> Vec<Range<u64>> {
        let sub = self.sub_chunk as u64;
        let start = stripe * sub * self.codec.shape().alpha as u64;
        let at = |position: u32| start + u64::from(position) * sub;
        runs.iter().map(|run| at(run.start)..at(run.end)).collect()
    }
}

//! The bytes of an encode: source -> data chunks -> parity and checksums -> sinks.

use std::io::ErrorKind;
use std::sync::Arc;

use kiln_code::{Codec, Shape};
use kiln_store::{Digest, DigestBuilder, Layout, ShardInfo, ShardWriter, StoreError, SumKind};

use crate::budget::Budget;
use crate::sinks::{ShardSink, ShardSinks, in_parallel};
use crate::{PoolError, Result, Settings, Source, frame::Frame, node::Part, pipeline};

/// Cut of an object into stripes.
#[derive(Copy, Clone, Debug)]
pub struct Cut {
    shape: Shape,
    /// Bytes of a sub-chunk of a full stripe.
    sub_chunk: usize,
    /// Bytes of the object, where known.
    size: Option<u64>,
    /// Form of a short last stripe.
    tail: Tail,
    /// Checksums of sub-chunks.
    sums: SumKind,
}

#[derive(Copy, Clone, Debug)]
enum Tail {
    /// As the shard format says.
    Shards { k: u16, alpha: u32, sub_chunk: u32, segment_stripes: u32 },
    /// Padded to a full stripe, unless it is the only one and that was asked for.
    Bare { shrink_only_stripe: bool },
}

impl Cut {
    /// For the shard format.
    pub fn shards(info: &ShardInfo) -> Result<Cut> {
        let (k, n) = (usize::from(info.k), usize::from(info.n));
        let (alpha, sub_chunk, segment_stripes) =
            (info.alpha, info.sub_chunk, info.segment_stripes);
        let cut = Cut {
            shape: Shape { k, m: n - k, alpha: alpha as usize },
            sub_chunk: sub_chunk as usize,
            size: info.size,
            tail: Tail::Shards { k: info.k, alpha, sub_chunk, segment_stripes },
            sums: info.sums,
        };
        Ok(cut)
    }

    /// For bare chunks.
    pub fn bare(
        shape: Shape,
        sub_chunk: usize,
        size: Option<u64>,
        shrink_only_stripe: bool,
    ) -> Cut {
        let tail = Tail::Bare { shrink_only_stripe };
        Cut { shape, sub_chunk, size, tail, sums: SumKind::default() }
    }

    /// Bytes of the object in a full stripe.
    pub fn stripe_bytes(&self) -> usize {
        self.shape.k * self.shape.alpha * self.sub_chunk
    }

    /// Bytes of a sub-chunk of the stripe with this number, of which `bytes` are the object's.
    fn sub_len(&self, stripe: u64, bytes: usize) -> Result<usize> {
        if bytes == self.stripe_bytes() {
            return Ok(self.sub_chunk);
        }
        match self.tail {
            Tail::Shards { k, alpha, sub_chunk, segment_stripes } => {
                let size = stripe * self.stripe_bytes() as u64 + bytes as u64;
                let (size, sums) = (Some(size), self.sums);
                let layout = Layout::new(k, alpha, sub_chunk, segment_stripes, size, sums)?;
                Ok(layout.sub_len(stripe))
            }
            Tail::Bare { shrink_only_stripe: true } if stripe == 0 => {
                Ok(shrunk(self.shape, bytes as u64).min(self.sub_chunk))
            }
            Tail::Bare { .. } => Ok(self.sub_chunk),
        }
    }
}

/// Bytes of a sub-chunk when one stripe holds an object of `bytes`: multiples of 16.
pub fn shrunk(shape: Shape, bytes: u64) -> usize {
    let sub = bytes.div_ceil((shape.k * shape.alpha) as u64).next_multiple_of(16);
    usize::try_from(sub).unwrap_or(usize::MAX)
}

/// One shard of an encode: written, or only computed because its node is unavailable.
enum ShardLane {
    Written(Box<ShardWriter>),
    Missing(DigestBuilder),
}

impl ShardSink for ShardLane {
    fn append(&mut self, chunk: &[u8], sums: &[u8]) -> Result<(), StoreError> {
        match self {
            ShardLane::Written(writer) => writer.append_chunk(chunk, sums),
            ShardLane::Missing(digest) => {
                digest.add(sums);
                Ok(())
            }
        }
    }

    fn drop_behind(&mut self) {
        match self {
            ShardLane::Written(writer) => writer.drop_behind(),
            ShardLane::Missing(_) => {}
        }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        match self {
            ShardLane::Written(writer) => writer.sync(),
            ShardLane::Missing(_) => Ok(()),
        }
    }
}

/// Encodes stripes `first..` of a source into the parts of an object's shards, which are then
/// complete and durable. Shards without a part are only computed. Gives the size of the object, and
/// the digests of all shards.
///
/// # Errors
/// [`PoolError::Changed`]; stores and input. What was written stays for the caller to remove.
pub fn encode_shards(
    codec: &Codec,
    info: &ShardInfo,
    parts: &[Option<Part<'_>>],
    first: u64,
    source: &mut dyn Source,
    settings: &Settings<'_>,
) -> Result<(u64, Vec<Digest>)> {
    let sinks = in_parallel(settings.sequence, parts.iter().collect(), |index, part| {
        let info = ShardInfo { index: index as u16, ..info.clone() };
        let written = |part: &Part<'_>| ShardWriter::at(part.store, &part.name, &info, first);
        Ok::<_, StoreError>(match part {
            Some(part) => ShardLane::Written(Box::new(written(part)?)),
            None => ShardLane::Missing(info.digest_builder()),
        })
    })?;
    let mut sinks = ShardSinks::new(sinks, settings);
    let (object, cut) = (&info.object, Cut::shards(info)?);
    let size = encode_stripes(object, codec, &cut, first, source, &mut sinks, settings)?;
    let mut sinks = sinks.into_inner();
    let seal = |sink: &mut ShardLane| match sink {
        ShardLane::Written(writer) => writer.seal(),
        ShardLane::Missing(digest) => Ok(digest.digest()),
    };
    let digests = sinks.iter_mut().map(seal).collect::<Result<Vec<Digest>, _>>()?;
    check_unchanged(source, object)?;
    in_parallel(settings.sequence, sinks, |_, sink| match sink {
        ShardLane::Written(writer) => writer.finish(size, &digests),
        ShardLane::Missing(_) => Ok(()),
    })?;
    Ok((size, digests))
}

/// Returns whether the source is still what it was when it was opened; [`PoolError::Changed`] if
/// not.
pub fn check_unchanged(source: &mut dyn Source, object: &str) -> Result<()> {
    match source.changed().map_err(|source| PoolError::Input { source })? {
        true => Err(PoolError::Changed { object: object.to_owned() }),
        false => Ok(()),
    }
}

/// Encodes stripes `first..` of the source into the sinks; returns the size of the object.
pub fn encode_stripes<L: ShardSink>(
    object: &str,
    codec: &Codec,
    cut: &Cut,
    first: u64,
    source: &mut dyn Source,
    sinks: &mut ShardSinks<'_, L>,
    settings: &Settings<'_>,
) -> Result<u64> {
    let shape = codec.shape();
    let done = first * cut.stripe_bytes() as u64;
    // Progress counts what is to be done now: a rate limit must not bite for what was kept.
    settings.observer.begin("encode", cut.size.map(|size| size.saturating_sub(done)));
    if done > 0 {
        source.skip(done).map_err(|source| PoolError::Input { source })?;
    }
    let longest = cut.size.map_or(cut.stripe_bytes() as u64, |size| {
        size.saturating_sub(done).min(cut.stripe_bytes() as u64)
    });
    let sub_len = if longest == 0 { 0 } else { cut.sub_len(first, longest as usize)? };
    let capacity = sub_len * shape.alpha;
    let count = pipeline::slots(settings, (capacity * shape.n()) as u64);
    let frame = |_| Frame::new((shape.n(), 0), capacity, cut.sums, settings.buffers);
    let frames = (0..count).map(frame).collect();
    let mut size = done;
    let budget = settings.budget;
    let mut feeder = Feeder { object, cut, source, taken: done, ended: false, budget };
    pipeline::run(
        frames,
        settings,
        first,
        |stripe, frame: &mut Frame| {
            let more = feeder.fill(stripe, frame)?;
            settings.observer.advance(frame.object_bytes);
            Ok(more)
        },
        |_, frame| {
            let (data, mut parity) = frame.split(shape.k, shape.n());
            codec.encode(&data, &mut parity)?;
            (0..shape.n()).for_each(|index| frame.checksum(index));
            Ok(())
        },
        |_, frame| {
            size += frame.object_bytes;
            let chunks: Vec<(&[u8], &[u8])> =
                (0..shape.n()).map(|i| (frame.chunk(i), &frame.sums[i][..])).collect();
            sinks.append(&chunks)?;
            frame.give_back();
            Ok(())
        },
    )?;
    Ok(size)
}

/// Fills frames from the source.
struct Feeder<'a> {
    object: &'a str,
    cut: &'a Cut,
    source: &'a mut dyn Source,
    /// Bytes of the object taken so far.
    taken: u64,
    ended: bool,
    budget: Option<&'a Arc<Budget>>,
}

impl Feeder<'_> {
    /// Reads the next stripe straight into its chunks. False when there is none.
    fn fill(&mut self, stripe: u64, frame: &mut Frame) -> Result<bool> {
        let full = self.cut.stripe_bytes();
        let left = self.cut.size.map_or(u64::MAX, |size| size - self.taken);
        let wanted = left.min(full as u64) as usize;
        if wanted == 0 || self.ended {
            frame.reset(0, 0);
            return Ok(false);
        }
        if let Some(budget) = self.budget {
            frame.take_share(budget);
        }
        let shape = self.cut.shape;
        // Of a stream the end is not known: the stripe is taken for a full one.
        frame.reset(self.cut.sub_len(stripe, wanted)?, shape.alpha);
        let mut got = 0;
        for index in 0..shape.k {
            let len = frame.chunk_len;
            let want = (wanted - got).min(len);
            let chunk = frame.bufs[index].writable(len);
            let read = if self.ended { 0 } else { read_full(self.source, &mut chunk[..want])? };
            chunk[read..].fill(0);
            got += read;
            self.ended |= read < want;
        }
        self.taken += got as u64;
        frame.object_bytes = got as u64;
        if got < wanted && self.cut.size.is_some() {
            // It is shorter than it was when it was opened.
            return Err(PoolError::Changed { object: self.object.to_owned() });
        }
        if got == 0 {
            return Ok(false);
        }
        if got < wanted {
            self.shorten(stripe, frame, got)?;
        }
        Ok(true)
    }

    /// The stream ended within this stripe: cuts the bytes into the chunks of a short stripe.
    fn shorten(&self, stripe: u64, frame: &mut Frame, bytes: usize) -> Result<()> {
        let shape = self.cut.shape;
        let sub_len = self.cut.sub_len(stripe, bytes)?;
        if sub_len == frame.sub_len {
            return Ok(());
        }
        let mut all: Vec<u8> =
            (0..shape.k).flat_map(|index| frame.chunk(index).iter().copied()).collect();
        all.truncate(bytes);
        frame.reset(sub_len, shape.alpha);
        frame.object_bytes = bytes as u64;
        let mut rest = &all[..];
        for index in 0..shape.k {
            let chunk = frame.bufs[index].writable(sub_len * shape.alpha);
            let (now, later) = rest.split_at(rest.len().min(chunk.len()));
            chunk[..now.len()].copy_from_slice(now);
            chunk[now.len()..].fill(0);
            rest = later;
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the source ends.
fn read_full(source: &mut dyn Source, buf: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match source.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(bytes) => got += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(PoolError::Input { source }),
        }
    }
    Ok(got)
}

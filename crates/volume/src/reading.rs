//! Reads of a volume: what is in memory or nowhere at once, the rest from segments.

use std::sync::atomic::Ordering;

use kiln_store::checksum;
use kiln_stripe::Silent;

use crate::map::{Location, Mapped};
use crate::{BLOCK, Result, Volume, VolumeError, kept::lock, segment::SegmentId, volume::Parts};

/// Retries of a read whose data was moved meanwhile.
const RETRIES: usize = 20;
/// Data that was overwritten at random lies in many places, which are read by so many threads. With
/// several reads under way these share them, since each waits by itself then.
const LANES: usize = 8;
/// Places that a thread is begun for, at least.
const LANE: usize = 4;

/// Adjacent blocks of one segment that are to be read.
struct Run {
    id: SegmentId,
    /// Byte in the object.
    start: u64,
    sums: Vec<u32>,
    /// First block in the buffer of the read.
    first: usize,
}

/// Adjacent blocks of a segment, and where they go.
pub(crate) struct Wanted<'a> {
    pub id: SegmentId,
    /// Byte in its object.
    pub start: u64,
    /// Checksums of the blocks.
    pub sums: &'a [u32],
    /// As long as the blocks are.
    pub target: &'a mut [u8],
}

impl Volume {
    /// Reads bytes from an offset on; blocks that were never written are zeros.
    ///
    /// Every byte was checked against the checksum that the map has of its block.
    /// Errors: [`VolumeError::Usage`] past the end; [`VolumeError::Deposed`]: another writer may
    /// have changed what this one knows; more of the pool is lost than its codes tolerate.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.check_fence()?;
        self.check_range((offset, bytes.len() as u64), self.size())?;
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.count(|so_far| so_far.bytes_read += bytes.len() as u64);
        for part in Parts::of(offset, bytes.len() as u64, u64::MAX) {
            let start = (part.offset - offset) as usize;
            let target = &mut bytes[start..start + part.len as usize];
            let block = part.offset / BLOCK as u64;
            if part.whole {
                self.read_blocks(block, target)?;
            } else {
                let mut whole = vec![0; BLOCK];
                self.read_blocks(block, &mut whole)?;
                let within = (part.offset % BLOCK as u64) as usize;
                target.copy_from_slice(&whole[within..within + part.len as usize]);
            }
        }
        self.check_fence()
    }

    /// Reads whole blocks.
    pub(crate) fn read_blocks(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        let mut last = None;
        for _ in 0..RETRIES {
            let runs = self.look_up(first, bytes);
            match self.read_all(wanted(&runs, bytes)) {
                Ok(()) => return Ok(()),
                // It may have been moved and removed meanwhile.
                Err(error) => last = Some(error),
            }
            if self.is_unchanged(first, &runs) {
                break;
            }
        }
        let gave_up = || VolumeError::Damaged { name: self.name.clone(), what: "it moves".into() };
        Err(last.unwrap_or_else(gave_up))
    }

    /// Copies what is in memory, zeros what was never written, and says what is to be read.
    fn look_up(&self, first: u64, bytes: &mut [u8]) -> Vec<Run> {
        let state = lock(&self.state);
        let mut runs: Vec<(Location, Run)> = Vec::new();
        for (at, target) in bytes.chunks_exact_mut(BLOCK).enumerate() {
            let Some(Mapped { at: place, sum }) = state.map.get(first + at as u64) else {
                target.fill(0);
                continue;
            };
            if let Some(found) = state.in_memory(place) {
                target.copy_from_slice(found);
                continue;
            }
            match runs.last_mut() {
                Some((end, run))
                    if run.first + run.sums.len() == at
                        && *end == Location { index: place.index.wrapping_sub(1), ..place } =>
                {
                    run.sums.push(sum);
                    *end = place;
                }
                _ => {
                    let (id, start) = state.place_of(place);
                    runs.push((place, Run { id, start, sums: vec![sum], first: at }));
                }
            }
        }
        runs.into_iter().map(|(_, run)| run).collect()
    }

    fn is_unchanged(&self, first: u64, runs: &[Run]) -> bool {
        let state = lock(&self.state);
        runs.iter().all(|run| {
            let mapped = state.map.get(first + run.first as u64);
            mapped.is_some_and(|mapped| state.place_of(mapped.at) == (run.id, run.start))
        })
    }

    /// Reads what clients want from segments, several places at a time.
    fn read_all(&self, wanted: Vec<Wanted<'_>>) -> Result<()> {
        self.for_each(wanted, |one| {
            let len = one.target.len() as u64;
            let rebuilt = self.read_segment(one)?;
            self.count(|so_far| match rebuilt {
                true => so_far.rebuilt_reads += 1,
                false => so_far.segment_bytes_read += len,
            });
            Ok(())
        })
    }

    /// Does something for each of the places, by as many threads as are worth it.
    pub(crate) fn for_each<'a>(
        &self,
        mut wanted: Vec<Wanted<'a>>,
        body: impl Fn(Wanted<'a>) -> Result<()> + Sync,
    ) -> Result<()> {
        let others = self.reading.fetch_add(1, Ordering::Relaxed);
        let lanes = (LANES / (others + 1)).min(wanted.len() / LANE);
        let done = if lanes < 2 {
            // Most reads are of one place: nothing is made ready for others.
            wanted.into_iter().try_for_each(body)
        } else {
            let each = wanted.len().div_ceil(lanes);
            let mut parts = Vec::with_capacity(lanes);
            while wanted.len() > each {
                let rest = wanted.split_off(each);
                parts.push(std::mem::replace(&mut wanted, rest));
            }
            parts.push(wanted);
            let part = |_, part: Vec<Wanted<'a>>| part.into_iter().try_for_each(&body);
            self.rim.pool().in_parallel(parts, part).map(drop)
        };
        self.reading.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Reads blocks of a segment; whether the pool had to look for them.
    pub(crate) fn read_segment(&self, wanted: Wanted<'_>) -> Result<bool> {
        let Wanted { id, start, sums, target } = wanted;
        let object = self.object(&id)?;
        let right = |bytes: &[u8]| {
            bytes.chunks_exact(BLOCK).zip(sums).all(|(block, sum)| checksum(block) == *sum)
        };
        let (sealed, pool) = (object.is_sealed(), self.rim.pool());
        if !sealed && object.read_unchecked(&pool, start, target) && right(target) {
            return Ok(false);
        }
        // Where a node is lost, a few bytes of the others are enough.
        if !sealed
            && object.met_failure()
            && object.rebuild_unchecked(&pool, start, target)
            && right(target)
        {
            return Ok(true);
        }
        // A node is lost, or has something else: the pool finds it out, and around it. In a sealed
        // pool a checksum proves nothing against who forges.
        let range = start..start + target.len() as u64;
        let settings = self.rim.settings(&Silent);
        let found = self.rim.with(|pool| object.read(pool, range.clone(), &settings));
        let found = found.inspect_err(|_| self.forget(&id))?;
        if !right(&found) {
            let what = format!("{} does not have the bytes that were written", id.name());
            return Err(VolumeError::Damaged { name: self.name.clone(), what });
        }
        target.copy_from_slice(&found);
        Ok(!sealed)
    }
}

/// Returns the reads of runs, each with its part of the buffer.
fn wanted<'a>(runs: &'a [Run], bytes: &'a mut [u8]) -> Vec<Wanted<'a>> {
    let (mut at, mut rest) = (0, bytes);
    let part = |run: &'a Run| {
        let (_, later) = std::mem::take(&mut rest).split_at_mut(run.first * BLOCK - at);
        let (target, later) = later.split_at_mut(run.sums.len() * BLOCK);
        (at, rest) = (run.first * BLOCK + target.len(), later);
        Wanted { id: run.id, start: run.start, sums: &run.sums, target }
    };
    runs.iter().map(part).collect()
}

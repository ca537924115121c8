//! One set: its parity made, its cells checked, an extent of it rebuilt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use kiln_code::Codec;
use kiln_store::checksum;

use crate::error::{is_absent, is_own};
use crate::folder::{Folder, Parity, Watch};
use crate::index::{FileRecord, Member, Set};
use crate::shape::{Blocks, CELL};
use crate::{Geometry, ProtectError};

/// Everything that work on a set needs.
pub(crate) struct Coder<'a> {
    pub folder: &'a Folder,
    pub parity: &'a Parity,
    pub codec: Codec,
    pub geometry: Geometry,
    pub files: &'a BTreeMap<u64, FileRecord>,
    pub watch: &'a dyn Watch,
    /// Memory that no set is using.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// The reason why a set's parity cannot be made.
pub(crate) enum Hindrance {
    /// The file of a slot cannot be read, or is not the one whose checksums are known.
    File(usize, io::Error),
    Other(ProtectError),
}

impl From<ProtectError> for Hindrance {
    fn from(error: ProtectError) -> Hindrance {
        Hindrance::Other(error)
    }
}

/// The cells of a set that are lost, by column and chunk.
#[derive(Default)]
pub(crate) struct Bad(pub BTreeSet<(usize, usize)>);

impl Bad {
    pub fn has(&self, chunk: usize, column: usize) -> bool {
        self.0.contains(&(column, chunk))
    }

    /// Lost cells of a column.
    pub fn lost(&self, column: usize) -> usize {
        self.0.range((column, 0)..(column + 1, 0)).count()
    }

    /// Columns of the lost cells of some chunks, one for each cell.
    pub fn columns_of(&self, chunks: Range<usize>) -> impl Iterator<Item = usize> {
        let of = self.0.iter().filter(move |(_, chunk)| chunks.contains(chunk));
        of.map(|(column, _)| *column)
    }
}

impl<'a> Coder<'a> {
    pub fn new(
        folder: &'a Folder,
        parity: &'a Parity,
        geometry: Geometry,
        files: &'a BTreeMap<u64, FileRecord>,
        watch: &'a dyn Watch,
    ) -> Result<Coder<'a>, ProtectError> {
        let spec = format!("rs:{}+{}", geometry.data(), geometry.parity());
        let (codec, spare) = (Codec::new(&spec.parse()?)?, Mutex::default());
        Ok(Coder { folder, parity, codec, geometry, files, watch, spare })
    }

    fn open(&self, member: &Member) -> io::Result<File> {
        let file = self.files.get(&member.file).ok_or(io::ErrorKind::NotFound)?;
        self.folder.file(&file.path)
    }

    /// Opens the files of a set; one that cannot be opened counts as lost.
    fn open_all(&self, set: &Set) -> io::Result<Vec<Option<File>>> {
        let open = |member: &Option<Member>| match member.as_ref().map(|one| self.open(one)) {
            Some(Err(error)) if is_own(&error) => Err(error),
            file => Ok(file.and_then(Result::ok)),
        };
        set.members.iter().map(open).collect()
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes and writes the parity; extents without checksums get them, others are checked.
    pub fn encode(&self, set: &Set) -> Result<Set, Hindrance> {
        let mut buffer = self.spare().pop().unwrap_or_default();
        let made = self.encode_in(set, &mut buffer);
        self.spare().push(buffer);
        made
    }

    fn encode_in(&self, set: &Set, buffer: &mut Vec<u8>) -> Result<Set, Hindrance> {
        let (height, blocks) = (self.geometry.height, set.blocks(self.geometry));
        let mut out = set.clone();
        out.sums = vec![0; self.geometry.parity() * blocks.columns()];
        let step = blocks.cell() as usize;
        let data = self.geometry.data() * step;
        buffer.resize(data + self.geometry.parity() * step, 0);
        let (data, parity) = buffer.split_at_mut(data);
        let mut open = Vec::new();
        for (slot, extent) in data.chunks_mut(height * step).enumerate() {
            let Some(member) = &mut out.members[slot] else {
                extent.fill(0);
                continue;
            };
            let file = self.open(member).map_err(|error| Hindrance::File(slot, error))?;
            open.push((slot, file, member.sums.is_empty()));
            member.sums.resize(blocks.cells(member.len), 0);
        }
        for column in 0..blocks.columns() {
            for (slot, file, fresh) in &open {
                let Some(member) = &mut out.members[*slot] else { continue };
                let extent = &mut data[slot * height * step..][..height * step];
                let read = fill(file, member, blocks, column, extent);
                self.watch.advance(read.map_err(|error| Hindrance::File(*slot, error))?);
                for (row, block) in extent.chunks(step).enumerate() {
                    let Some(place) = blocks.place(row, column, member.len) else { break };
                    let sum = checksum(&block[..(place.end - place.start) as usize]);
                    let known = &mut member.sums[blocks.at(row, column)];
                    if !fresh && *known != sum {
                        let differs = io::ErrorKind::InvalidData.into();
                        return Err(Hindrance::File(*slot, differs));
                    }
                    *known = sum;
                }
            }
            let width = blocks.width(column) as usize;
            let inputs: Vec<&[u8]> = data.chunks(step).map(|block| &block[..width]).collect();
            let mut outputs: Vec<&mut [u8]> =
                parity.chunks_mut(step).map(|block| &mut block[..width]).collect();
            self.codec.encode(&inputs, &mut outputs).map_err(ProtectError::from)?;
            for (row, cell) in outputs.iter().enumerate() {
                out.sums[blocks.at(row, column)] = checksum(cell);
                let written = self.parity.write(set, row, column as u64 * CELL, cell);
                written.map_err(ProtectError::io("write", "the parity"))?;
            }
        }
        self.parity.begin_writing(set).map_err(ProtectError::io("write", "the parity"))?;
        Ok(out)
    }

    /// Reads all cells; adds files that this process may not read to `denied`.
    pub fn scan(&self, set: &Set, denied: &mut Vec<u64>) -> io::Result<Bad> {
        let (height, blocks) = (self.geometry.height, set.blocks(self.geometry));
        let mut bad = Bad::default();
        let mut buffer = vec![0; blocks.cell() as usize];
        for slot in 0..self.geometry.group + self.geometry.losses {
            let member = set.members.get(slot).and_then(Option::as_ref);
            let file = match member.map(|member| (member.file, self.open(member))) {
                Some((_, Err(error))) if is_own(&error) => return Err(error),
                Some((file, Err(error))) if !is_absent(&error) => {
                    denied.push(file);
                    None
                }
                file => file.and_then(|(_, file)| file.ok()),
            };
            for (row, column) in each(height, &(0..blocks.columns())) {
                let cell = &mut buffer[..blocks.width(column) as usize];
                let chunk = slot * height + row;
                if !self.chunk(set, chunk, column, file.as_ref(), cell) {
                    bad.0.insert((column, chunk));
                }
            }
            self.watch.advance(member.map_or(0, |member| member.len));
        }
        Ok(bad)
    }

    /// Reads a cell and returns whether it is the one whose checksum is known.
    fn chunk(
        &self,
        set: &Set,
        chunk: usize,
        column: usize,
        file: Option<&File>,
        cell: &mut [u8],
    ) -> bool {
        let (height, blocks) = (self.geometry.height, set.blocks(self.geometry));
        let Some(row) = chunk.checked_sub(self.geometry.data()) else {
            let row = chunk % height;
            let member = set.members[chunk / height].as_ref();
            let place = member.and_then(|one| Some((one, blocks.place(row, column, one.len)?)));
            let Some((member, place)) = place else {
                cell.fill(0);
                return true;
            };
            let (cell, rest) = cell.split_at_mut((place.end - place.start) as usize);
            rest.fill(0);
            let read = file.map(|file| file.read_exact_at(cell, member.start + place.start));
            return read.is_some_and(|read| read.is_ok())
                && checksum(cell) == member.sums[blocks.at(row, column)];
        };
        self.parity.read(set, row, column as u64 * CELL, cell).is_ok()
            && checksum(cell) == set.sums[blocks.at(row, column)]
    }

    /// Rebuilds chunks of a column into `out`; `None`: too much is lost.
    fn column(
        &self,
        set: &Set,
        bad: &Bad,
        column: usize,
        lost: &[usize],
        open: &[Option<File>],
    ) -> io::Result<Option<Vec<Vec<u8>>>> {
        if bad.lost(column) > self.geometry.parity() {
            return Ok(None);
        }
        let chunks = self.geometry.data() + self.geometry.parity();
        let available: Vec<usize> = (0..chunks).filter(|chunk| !bad.has(*chunk, column)).collect();
        let plan = self.codec.decode_plan(lost, &available).map_err(io::Error::other)?;
        let width = set.blocks(self.geometry).width(column) as usize;
        let mut inputs = Vec::new();
        for helper in plan.helpers() {
            let mut cell = vec![0; width];
            let file = open.get(helper.chunk / self.geometry.height).and_then(Option::as_ref);
            if !self.chunk(set, helper.chunk, column, file, &mut cell) {
                return Ok(None);
            }
            inputs.push(cell);
        }
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs = vec![vec![0; width]; lost.len()];
        let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        plan.run(&inputs, &mut views).map_err(io::Error::other)?;
        Ok(Some(outputs))
    }

    /// Returns an extent, read and rebuilt, every cell of it checked; `None`: too much is lost.
    pub fn extent(&self, set: &Set, bad: &Bad, slot: usize) -> io::Result<Option<Vec<u8>>> {
        let (height, blocks) = (self.geometry.height, set.blocks(self.geometry));
        let Some(member) = &set.members[slot] else { return Ok(None) };
        let open = self.open_all(set)?;
        let mut extent = vec![0; blocks.capacity() as usize];
        let mut cell = vec![0; blocks.cell() as usize];
        for column in 0..blocks.columns() {
            let width = blocks.width(column) as usize;
            let mut put = |row: usize, cell: &[u8]| {
                let from = row * blocks.block as usize + column * CELL as usize;
                extent[from..][..width].copy_from_slice(&cell[..width]);
            };
            let chunks = slot * height..(slot + 1) * height;
            let (lost, good): (Vec<usize>, _) = chunks.partition(|chunk| bad.has(*chunk, column));
            for chunk in good {
                if !self.chunk(set, chunk, column, open[slot].as_ref(), &mut cell[..width]) {
                    return Ok(None);
                }
                put(chunk % height, &cell);
            }
            if lost.is_empty() {
                continue;
            }
            let Some(cells) = self.column(set, bad, column, &lost, &open)? else { return Ok(None) };
            lost.iter().zip(&cells).for_each(|(chunk, cell)| put(chunk % height, cell));
        }
        extent.truncate(member.len as usize);
        Ok(is_extent(set, self.geometry, slot, &extent).then_some(extent))
    }

    /// Writes lost cells of the parity again, where they can be computed; returns how many are
    /// still lost.
    pub fn renew(&self, set: &Set, bad: &Bad) -> io::Result<u64> {
        let (data, blocks) = (self.geometry.data(), set.blocks(self.geometry));
        let rows = data..data + self.geometry.parity();
        let (mut still, open) = (0, self.open_all(set)?);
        for column in bad.columns_of(rows.clone()).collect::<BTreeSet<_>>() {
            let lost: Vec<usize> = rows.clone().filter(|row| bad.has(*row, column)).collect();
            let cells = self.column(set, bad, column, &lost, &open)?.unwrap_or_default();
            for (at, row) in lost.iter().map(|chunk| chunk - data).enumerate() {
                let known = set.sums[blocks.at(row, column)];
                match cells.get(at).filter(|cell| checksum(cell) == known) {
                    None => still += 1,
                    Some(cell) => self.parity.write(set, row, column as u64 * CELL, cell)?,
                }
            }
        }
        Ok(still)
    }
}

/// Returns whether these are the bytes whose checksums are known.
pub(crate) fn is_extent(set: &Set, geometry: Geometry, slot: usize, extent: &[u8]) -> bool {
    let blocks = set.blocks(geometry);
    let Some(member) = &set.members[slot] else { return false };
    let good = |(row, column)| {
        blocks.place(row, column, member.len).is_none_or(|place| {
            let cell = extent.get(place.start as usize..place.end as usize);
            cell.is_some_and(|cell| checksum(cell) == member.sums[blocks.at(row, column)])
        })
    };
    extent.len() as u64 == member.len && each(geometry.height, &(0..blocks.columns())).all(good)
}

/// Rows and columns, in the order of an extent.
fn each(rows: usize, columns: &std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let columns = columns.clone();
    (0..rows).flat_map(move |row| columns.clone().map(move |column| (row, column)))
}

/// Reads a column of an extent, zeros behind its end; returns the bytes read.
fn fill(
    file: &File,
    member: &Member,
    blocks: Blocks,
    column: usize,
    out: &mut [u8],
) -> io::Result<u64> {
    let (mut read, mut step) = (0, blocks.cell() as usize);
    if blocks.columns() == 1 {
        // Its cells lie one behind the other.
        step = out.len();
    }
    for (row, out) in out.chunks_mut(step).enumerate() {
        let start = row as u64 * blocks.block + column as u64 * CELL;
        let most = if blocks.columns() == 1 { step as u64 } else { blocks.width(column) };
        let len = member.len.saturating_sub(start).min(most);
        let (cell, rest) = out.split_at_mut(len as usize);
        file.read_exact_at(cell, member.start + start)?;
        rest.fill(0);
        read += len;
    }
    Ok(read)
}

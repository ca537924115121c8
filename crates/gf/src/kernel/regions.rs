//! Operands by reference into a set of byte regions.

use std::marker::PhantomData;

use crate::GfError;

/// Number of a region in its [`Regions`].
///
/// ```
/// assert_eq!(kiln_gf::RegionId::new(3).index(), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);

impl RegionId {
    /// The region that is, or will be, added after `index` others.
    pub const fn new(index: u32) -> RegionId {
        RegionId(index)
    }

    /// How many regions were added before this one.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// Where an operand starts: a region and an offset in bytes. Its length is that of the call.
///
/// ```
/// use kiln_gf::{RegionId, Span};
/// let span = Span { region: RegionId::new(0), offset: 4096 };
/// assert_eq!(span.region.index(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The region.
    pub region: RegionId,
    /// Bytes from its start.
    pub offset: usize,
}

/// A set of byte regions, each for reading or for reading and writing.
///
/// It lets a caller read and write disjoint parts of one buffer in one call of
/// [`Product::run_in`](crate::Product::run_in) without unsafe code of its own. Regions get the
/// numbers 0, 1, 2, ... in the order in which they are added. While the set lives, it holds the
/// borrow of all its regions.
///
/// ```
/// use kiln_gf::{Matrix, Product, Regions, Span, active};
/// let data: Vec<u8> = (1..=8).collect();
/// let mut scratch = vec![0xff; 8];
/// let mut regions = Regions::new();
/// let data = regions.read(&data);
/// let out = regions.write(&mut scratch);
/// let at = |region, offset| Span { region, offset };
/// let sum = Product::new(active()?, &Matrix::new(1, 2, vec![1, 2])?);
/// sum.run_in(&mut regions, &[at(data, 0), at(data, 4)], &[at(out, 0)], 4)?;
/// sum.run_in(&mut regions, &[at(out, 0), at(data, 0)], &[at(out, 4)], 4)?;
/// drop(regions);
/// assert_eq!(scratch, [11, 14, 13, 20, 9, 10, 11, 28]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Debug, Default)]
pub struct Regions<'a> {
    regions: Vec<Region>,
    borrows: PhantomData<&'a mut [u8]>,
}

/// Readable for `len` bytes while the set lives, and if `exclusive` also writable and shared
/// with nobody. Pointers, because one call reads and writes different parts of one region.
#[derive(Debug)]
struct Region {
    start: *mut u8,
    len: usize,
    exclusive: bool,
}

// SAFETY: a region is a `&[u8]` or a `&mut [u8]` in disguise, and both may change threads.
unsafe impl Send for Region {}

// SAFETY: through a shared `Regions` nothing can be read or written: all access takes `&mut`.
unsafe impl Sync for Region {}

impl<'a> Regions<'a> {
    /// An empty set.
    pub fn new() -> Regions<'a> {
        Regions::default()
    }

    /// An empty set with room for this many regions.
    pub fn with_capacity(regions: usize) -> Regions<'a> {
        Regions { regions: Vec::with_capacity(regions), borrows: PhantomData }
    }

    /// Adds bytes for reading.
    pub fn read(&mut self, bytes: &'a [u8]) -> RegionId {
        self.push(bytes.as_ptr().cast_mut(), bytes.len(), false)
    }

    /// Adds bytes for reading and writing.
    pub fn write(&mut self, bytes: &'a mut [u8]) -> RegionId {
        self.push(bytes.as_mut_ptr(), bytes.len(), true)
    }

    /// # Panics
    /// Beyond 2^32 regions.
    fn push(&mut self, start: *mut u8, len: usize, exclusive: bool) -> RegionId {
        let id = u32::try_from(self.regions.len()).expect("fewer than 2^32 regions");
        self.regions.push(Region { start, len, exclusive });
        RegionId(id)
    }

    /// Checks the operands of one call and writes their addresses.
    ///
    /// After `Ok` all addresses are valid for reading `len` bytes while the set is borrowed;
    /// those of destinations also for writing, and no destination overlaps another operand.
    pub(super) fn resolve(
        &mut self,
        srcs: &[Span],
        dsts: &[Span],
        len: usize,
        src_addresses: &mut [*const u8],
        dst_addresses: &mut [*mut u8],
    ) -> Result<(), GfError> {
        for (index, (span, address)) in srcs.iter().zip(src_addresses).enumerate() {
            let region = self.locate("source", index, span, len)?;
            *address = region.start.cast_const().wrapping_add(span.offset);
        }
        for (index, (span, address)) in dsts.iter().zip(dst_addresses).enumerate() {
            let region = self.locate("destination", index, span, len)?;
            if !region.exclusive {
                return Err(GfError::ReadOnly { index, region: span.region.0 });
            }
            *address = region.start.wrapping_add(span.offset);
        }
        // No early exit: overlaps are rare, and comparing them all needs no branches.
        let any = |span: &Span, others: &[Span]| {
            others.iter().fold(false, |any, other| any | overlap(span, other, len))
        };
        let found = dsts.iter().enumerate().fold(false, |found, (index, dst)| {
            found | any(dst, srcs) | any(dst, &dsts[index + 1..])
        });
        if found { Err(name_overlap(srcs, dsts, len)) } else { Ok(()) }
    }

    fn locate(
        &self,
        side: &'static str,
        index: usize,
        span: &Span,
        len: usize,
    ) -> Result<&Region, GfError> {
        let region = self.regions.get(span.region.0 as usize);
        match region {
            Some(region) if span.offset <= region.len && len <= region.len - span.offset => {
                Ok(region)
            }
            _ => {
                let (region, offset) = (span.region.0, span.offset);
                let size = self.regions.get(region as usize).map_or(0, |region| region.len);
                Err(GfError::OutOfBounds { side, index, region, offset, len, size })
            }
        }
    }
}

/// Whether two spans within their regions share a byte. Distinct regions never do: an exclusive
/// one is borrowed mutably, and of two read-only ones none is written.
fn overlap(a: &Span, b: &Span, len: usize) -> bool {
    (a.region == b.region) & (a.offset.abs_diff(b.offset) < len)
}

#[cold]
fn name_overlap(srcs: &[Span], dsts: &[Span], len: usize) -> GfError {
    for (index, dst) in dsts.iter().enumerate() {
        let region = dst.region.0;
        if let Some(other) = srcs.iter().position(|src| overlap(dst, src, len)) {
            return GfError::Overlap { index, side: "source", other, region };
        }
        if let Some(other) = dsts[..index].iter().position(|other| overlap(dst, other, len)) {
            return GfError::Overlap { index, side: "destination", other, region };
        }
    }
    unreachable!("called only when some destination overlaps")
}

//! Loops with one source, which is copied and added to several destinations.
//!
//! So XOR codes were coded before there were registers enough to keep their sums in. It is here to
//! measure such orders with today's vectors; coding itself uses [`super::KernelProgram`].

use super::{Buffers, KernelProgram, ProgramSource, Unit, scratch};
use crate::GfError;

/// Destinations of one [`Fan`], at most.
pub const FAN_MAX: usize = 3;

/// One loop: a source and where it is copied and added to. Zeros are copied where there is none.
///
/// ```
/// let unit = |region| kiln_gf::Unit { region, unit: 0 };
/// let fan = kiln_gf::Fan { from: Some(unit(0)), copies: vec![], sums: vec![unit(1)] };
/// assert!(fan.copies.len() + fan.sums.len() <= kiln_gf::FAN_MAX);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fan {
    /// The source.
    pub from: Option<Unit>,
    /// Destinations that become the source.
    pub copies: Vec<Unit>,
    /// Destinations that the source is added to.
    pub sums: Vec<Unit>,
}

/// Loops in a row over units of buffers, checked when made.
///
/// ```
/// use kiln_gf::{Buffers, Fan, Fans, Unit};
/// let unit = |region| Unit { region, unit: 0 };
/// let first = Fan { from: Some(unit(0)), copies: vec![unit(2)], sums: vec![] };
/// let second = Fan { from: Some(unit(1)), copies: vec![], sums: vec![unit(2)] };
/// let buffers = Buffers { inputs: vec![1, 1], outputs: vec![1], scratch: 0 };
/// let fans = Fans::new(vec![first, second], buffers)?;
/// let mut sum = [0; 4];
/// fans.run(&[&[1, 2, 3, 4], &[8, 8, 8, 8]], &mut [&mut sum], 4)?;
/// assert_eq!(sum, [9, 10, 11, 12]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Debug)]
pub struct Fans {
    loops: Vec<Prepared>,
    /// Knows the buffers; it calls nothing.
    buffers: KernelProgram,
}

/// A loop for the number of its destinations and the vectors of this CPU.
type Loop = unsafe fn(*const u8, [*mut u8; FAN_MAX], usize);

/// A fan as a run wants it.
#[derive(Debug)]
struct Prepared {
    /// Any unit where zeros are copied.
    from: Unit,
    /// Copies, then sums; repeats the last one to the end.
    to: [Unit; FAN_MAX],
    run: Loop,
}

impl Fans {
    /// Checks and keeps loops.
    ///
    /// # Errors
    /// A unit does not exist, an input is written, a loop has too many destinations or uses a unit
    /// twice.
    pub fn new(fans: Vec<Fan>, buffers: Buffers) -> Result<Fans, GfError> {
        let Buffers { inputs, outputs, scratch } = &buffers;
        let sizes: Vec<usize> = inputs.iter().chain(outputs).chain([scratch]).copied().collect();
        for fan in &fans {
            let units: Vec<Unit> =
                fan.from.iter().chain(&fan.copies).chain(&fan.sums).copied().collect();
            let found = fan.copies.len() + fan.sums.len();
            if found > FAN_MAX || (fan.from.is_none() && !fan.sums.is_empty()) {
                let what = "destinations of a loop";
                return Err(GfError::Shape { what, expected: FAN_MAX, found });
            }
            for (index, unit) in units.iter().enumerate() {
                let (side, region, offset) = ("loop", unit.region, unit.unit as usize);
                let size = sizes.get(region as usize).copied().unwrap_or(0);
                if offset >= size {
                    return Err(GfError::OutOfBounds { side, index, region, offset, len: 1, size });
                }
                if let Some(other) = units[..index].iter().position(|other| other == unit) {
                    return Err(GfError::Overlap { index, side, other, region });
                }
                if index >= units.len() - found && (region as usize) < inputs.len() {
                    return Err(GfError::ReadOnly { index, region });
                }
            }
        }
        let buffers = KernelProgram::new(ProgramSource::default(), buffers)?;
        Ok(Fans { loops: fans.iter().filter_map(Prepared::new).collect(), buffers })
    }

    /// Runs all loops over every block: buffers are blocks that hold each unit as a packet of
    /// `packet` bytes, as for [`KernelProgram::run_packets`].
    ///
    /// # Errors
    /// As [`KernelProgram::run_packets`].
    pub fn run(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        packet: usize,
    ) -> Result<(), GfError> {
        let layout = self.buffers.layout(inputs, outputs, packet)?;
        let mut scratch = scratch::borrow(self.buffers.buffers().scratch * packet)?;
        // Inputs are only read: they were checked not to be destinations.
        let mut bases: Vec<*mut u8> = inputs.iter().map(|i| i.as_ptr().cast_mut()).collect();
        bases.extend(outputs.iter_mut().map(|output| output.as_mut_ptr()));
        bases.push(scratch.as_mut_ptr());
        let last = bases.len() - 1;
        for _ in 0..layout.blocks {
            let at =
                |unit: &Unit| bases[unit.region as usize].wrapping_add(unit.unit as usize * packet);
            for Prepared { from, to, run } in &self.loops {
                // SAFETY: every unit was checked to exist, destinations to be no inputs and no two
                // the same; `layout` checked that the buffers hold so many blocks of packets, and
                // scratch is one block; the borrows last until the end of this function.
                unsafe { run(at(from), to.each_ref().map(at), packet) };
            }
            for (index, base) in bases[..last].iter_mut().enumerate() {
                *base = base.wrapping_add(layout.steps[usize::from(index >= inputs.len())]);
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Nothing for a fan without destinations.
    fn new(fan: &Fan) -> Option<Prepared> {
        let mut destinations = fan.copies.iter().chain(&fan.sums).copied();
        let first = destinations.next()?;
        let mut to = [first; FAN_MAX];
        to.iter_mut().skip(1).zip(destinations).for_each(|(to, unit)| *to = unit);
        let run = match (fan.from, fan.copies.len(), fan.sums.len()) {
            (None, 1, _) => zero::<1>,
            (None, 2, _) => zero::<2>,
            (None, ..) => zero::<3>,
            (_, 0, 1) => choose::<0, 1>(),
            (_, 0, 2) => choose::<0, 2>(),
            (_, 0, _) => choose::<0, 3>(),
            (_, 1, 0) => choose::<1, 0>(),
            (_, 1, 1) => choose::<1, 1>(),
            (_, 1, _) => choose::<1, 2>(),
            (_, 2, 0) => choose::<2, 0>(),
            (_, 2, _) => choose::<2, 1>(),
            (_, _, _) => choose::<3, 0>(),
        };
        Some(Prepared { from: fan.from.unwrap_or(first), to, run })
    }
}

/// The loop for C copies and S sums with vectors as wide as those of this process's kernel: where a
/// narrower one is forced, orders are compared with it on equal terms.
fn choose<const C: usize, const S: usize>() -> Loop {
    #[cfg(target_arch = "x86_64")]
    let width = crate::active().map_or(0, |kernel| kernel.vector_len());
    #[cfg(target_arch = "x86_64")]
    if width >= 64 && is_x86_feature_detected!("avx512f") {
        return x86::avx512::<C, S>;
    } else if width >= 32 && is_x86_feature_detected!("avx2") {
        return x86::avx2::<C, S>;
    }
    |from, to, len| {
        // SAFETY: as for every loop: see `rest`.
        unsafe { rest::<C, S>(from, to, 0, len) }
    }
}

/// # Safety
/// As [`rest`], for Z copies; `_from` is not read.
unsafe fn zero<const Z: usize>(_from: *const u8, to: [*mut u8; FAN_MAX], len: usize) {
    for to in &to[..Z] {
        // SAFETY: as the caller promises.
        unsafe { to.write_bytes(0, len) };
    }
}

/// A loop from byte `done` on, without vectors.
///
/// # Safety
/// `from` is readable, and the first C + S of `to` are readable and writable, for `len` bytes; none
/// of these overlap.
unsafe fn rest<const C: usize, const S: usize>(
    from: *const u8,
    to: [*mut u8; FAN_MAX],
    mut done: usize,
    len: usize,
) {
    while done < len {
        let step = if len - done < 8 { 1 } else { 8 };
        // SAFETY: `step` bytes from `done` on lie within `len`.
        unsafe {
            let mut word = [0_u8; 8];
            from.add(done).copy_to_nonoverlapping(word.as_mut_ptr(), step);
            for to in &to[..C] {
                to.add(done).copy_from_nonoverlapping(word.as_ptr(), step);
            }
            for to in &to[C..C + S] {
                let mut sum = [0_u8; 8];
                to.add(done).copy_to_nonoverlapping(sum.as_mut_ptr(), step);
                sum.iter_mut().zip(&word).for_each(|(a, b)| *a ^= b);
                to.add(done).copy_from_nonoverlapping(sum.as_ptr(), step);
            }
        }
        done += step;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::FAN_MAX;
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm512_loadu_si512,
        _mm512_storeu_si512, _mm512_xor_si512,
    };

    /// Vectors that one turn of a loop takes.
    const UNROLLED: usize = 4;

    macro_rules! loops {
        ($name:ident, $feature:literal, $width:literal, $load:ident, $store:ident, $xor:ident) => {
            /// # Safety
            /// As [`super::rest`], and the CPU has the feature.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name<const C: usize, const S: usize>(
                from: *const u8,
                to: [*mut u8; FAN_MAX],
                len: usize,
            ) {
                let step = |at: usize| {
                    // SAFETY: `at` is at least one vector before the end.
                    unsafe {
                        let word = $load(from.add(at).cast());
                        for to in &to[..C] {
                            $store(to.add(at).cast(), word);
                        }
                        for to in &to[C..C + S] {
                            let sum = $xor($load(to.add(at).cast()), word);
                            $store(to.add(at).cast(), sum);
                        }
                    }
                };
                let mut at = 0;
                while at + UNROLLED * $width <= len {
                    for n in 0..UNROLLED {
                        step(at + n * $width);
                    }
                    at += UNROLLED * $width;
                }
                while at + $width <= len {
                    step(at);
                    at += $width;
                }
                // SAFETY: as the caller promises.
                unsafe { super::rest::<C, S>(from, to, at, len) };
            }
        };
    }

    loops!(avx512, "avx512f", 64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512);
    loops!(avx2, "avx2", 32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(region: u32, unit: u32) -> Unit {
        Unit { region, unit }
    }

    fn buffers() -> Buffers {
        Buffers { inputs: vec![2, 2], outputs: vec![2], scratch: 1 }
    }

    /// Every number of destinations and lengths around vectors, over two blocks, by scratch.
    #[test]
    fn fans_copy_and_add() {
        let fan = |from, copies: &[Unit], sums: &[Unit]| Fan {
            from: Some(from),
            copies: copies.to_vec(),
            sums: sums.to_vec(),
        };
        let (p, q, s) = (unit(2, 0), unit(2, 1), unit(3, 0));
        let fans = vec![
            Fan { from: None, copies: vec![p, s], sums: vec![] },
            fan(unit(0, 0), &[q, p, s], &[]),
            fan(unit(0, 1), &[], &[p, q, s]),
            fan(unit(1, 0), &[s], &[p]),
            fan(unit(1, 1), &[], &[p, s]),
            fan(s, &[], &[q]),
        ];
        let fans = Fans::new(fans, buffers()).unwrap();
        for packet in (0..=70).chain([255, 256, 257, 1000]) {
            let len = 4 * packet;
            let byte = |i: usize, seed: usize| (i * 7 + i / 13 + seed * 91) as u8;
            let [a, b]: [Vec<u8>; 2] =
                [1, 2].map(|seed| (0..len).map(|i| byte(i, seed)).collect::<Vec<u8>>());
            let mut out = vec![0xee; len];
            fans.run(&[&a, &b], &mut [&mut out], packet.max(1)).unwrap();
            for (block, x) in (0..2).flat_map(|block| (0..packet).map(move |x| (block, x))) {
                let first = block * 2 * packet + x;
                let second = first + packet;
                assert_eq!(out[first], a[first] ^ a[second] ^ b[first] ^ b[second], "{packet}");
                assert_eq!(out[second], a[first] ^ a[second] ^ b[first] ^ b[second], "{packet}");
            }
        }
        assert!(fans.run(&[&[0; 8], &[0; 8]], &mut [&mut [0; 8]], 3).is_err());
        assert!(fans.run(&[&[0; 8]], &mut [&mut [0; 8]], 4).is_err());
    }

    #[test]
    fn bad_loops_are_refused() {
        let bad = |from: Option<Unit>, copies: Vec<Unit>, sums: Vec<Unit>| {
            Fans::new(vec![Fan { from, copies, sums }], buffers()).unwrap_err()
        };
        let (a, p) = (unit(0, 0), unit(2, 0));
        assert!(matches!(bad(Some(a), vec![unit(1, 0)], vec![]), GfError::ReadOnly { .. }));
        assert!(matches!(bad(Some(p), vec![], vec![p]), GfError::Overlap { .. }));
        assert!(matches!(bad(Some(a), vec![p], vec![p]), GfError::Overlap { .. }));
        assert!(matches!(bad(Some(a), vec![unit(2, 2)], vec![]), GfError::OutOfBounds { .. }));
        assert!(matches!(bad(Some(unit(4, 0)), vec![p], vec![]), GfError::OutOfBounds { .. }));
        assert!(matches!(bad(None, vec![], vec![p]), GfError::Shape { .. }));
    }
}

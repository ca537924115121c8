//! Pointers of the caller as slices, checked as far as pointers can be.

use crate::failure::Failure;
use kiln_code::{Results, TemporalHint};
use smallvec::SmallVec;

/// The longest buffer that a slice can be.
const LEN_MAX: usize = isize::MAX as usize;

/// A list of numbers.
///
/// # Safety
/// `at` is null, or leads to `count` numbers that do not change during the call.
pub(crate) unsafe fn numbers(at: *const u32, count: usize) -> Result<Vec<usize>, Failure> {
    // No code has more chunks; an unchecked length must not be trusted.
    const MOST: usize = 1 << 16;
    match (at.is_null(), count) {
        (_, 0) => Ok(Vec::new()),
        (true, _) => Err(Failure::invalid("a list of chunks: a null pointer")),
        (_, count) if count > MOST => {
            Err(Failure::invalid(format!("a list of {count} chunks; no code has so many")))
        }
        // SAFETY: not null, and `count` numbers as promised.
        _ => Ok(unsafe { std::slice::from_raw_parts(at, count) }
            .iter()
            .map(|&index| index as usize)
            .collect()),
    }
}

/// Lists of a call. Codes of common sizes fit in, and allocate nothing: calls may be for a few KiB.
type List<T> = SmallVec<[T; 24]>;

/// Buffers that a call reads and buffers that it writes, proved not to overlap.
pub(crate) struct Regions<'a> {
    pub inputs: List<&'a [u8]>,
    pub outputs: List<&'a mut [u8]>,
}

/// Input of the caller: a list of pointers and the length of each buffer.
pub(crate) struct Given<L> {
    pub pointers: *const *const u8,
    pub lens: L,
}

impl<L: ExactSizeIterator<Item = usize>> Given<L> {
    /// # Safety
    /// `pointers` is null, or leads to as many pointers as there are lengths.
    unsafe fn spans(self, what: &str) -> Result<List<(*const u8, usize)>, Failure> {
        if self.pointers.is_null() && self.lens.len() > 0 {
            return Err(Failure::invalid(format!("{what}: a null pointer")));
        }
        let mut spans = List::new();
        for (index, len) in self.lens.enumerate() {
            // SAFETY: not null, and one pointer for each length as promised.
            let at = unsafe { *self.pointers.add(index) };
            if at.is_null() {
                return Err(Failure::invalid(format!("{what} {index}: a null pointer")));
            }
            if len > LEN_MAX || at.addr().checked_add(len).is_none() {
                let reason = format!("{what} {index}: {len} bytes are more than memory has");
                return Err(Failure::invalid(reason));
            }
            spans.push((at, len));
        }
        Ok(spans)
    }
}

impl<'a> Regions<'a> {
    /// The outputs are not read next here: a caller that codes much has just received its data, or
    /// is about to send it.
    pub(crate) fn hint(&self) -> TemporalHint {
        TemporalHint::of(&self.inputs, &self.outputs, Results::Left)
    }

    /// # Safety
    /// The lists lead to pointers, and the pointers to as many bytes as the lengths say; no
    /// other thread changes inputs or touches outputs during `'a`.
    /// Errors: a null pointer, an absurd length, or an output that overlaps another buffer.
    pub(crate) unsafe fn new(
        inputs: Given<impl ExactSizeIterator<Item = usize>>,
        outputs: Given<impl ExactSizeIterator<Item = usize>>,
    ) -> Result<Regions<'a>, Failure> {
        // SAFETY: as promised.
        let (inputs, outputs) = unsafe { (inputs.spans("input")?, outputs.spans("output")?) };
        // Each with each: no code has so many chunks that sorting would pay.
        for (index, &output) in outputs.iter().enumerate() {
            if inputs.iter().chain(&outputs[index + 1..]).any(|&other| overlap(output, other)) {
                return Err(Failure::invalid("an output overlaps another buffer"));
            }
        }
        // SAFETY: pointers and lengths as promised; outputs were just seen to overlap nothing.
        unsafe {
            Ok(Regions {
                inputs: inputs
                    .iter()
                    .map(|&(at, len)| std::slice::from_raw_parts(at, len))
                    .collect(),
                outputs: outputs
                    .iter()
                    .map(|&(at, len)| std::slice::from_raw_parts_mut(at.cast_mut(), len))
                    .collect(),
            })
        }
    }
}

/// Returns whether two buffers share a byte.
fn overlap(a: (*const u8, usize), b: (*const u8, usize)) -> bool {
    let (start, end) = (a.0.addr().max(b.0.addr()), (a.0.addr() + a.1).min(b.0.addr() + b.1));
    start < end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inputs: &[(usize, usize)], outputs: &[(usize, usize)]) -> bool {
        let mut arena = [0_u8; 64];
        let base = arena.as_mut_ptr();
        let list = |spans: &[(usize, usize)]| -> (Vec<*const u8>, Vec<usize>) {
            // SAFETY: offsets stay within the arena.
            let at = |at| unsafe { base.add(at) }.cast_const();
            spans.iter().map(|&(start, len)| (at(start), len)).unzip()
        };
        let ((ins, in_lens), (outs, out_lens)) = (list(inputs), list(outputs));
        let inputs = Given { pointers: ins.as_ptr(), lens: in_lens.into_iter() };
        let outputs = Given { pointers: outs.as_ptr(), lens: out_lens.into_iter() };
        // SAFETY: as many pointers as lengths, all within the arena.
        unsafe { Regions::new(inputs, outputs) }.is_ok()
    }

    #[test]
    fn outputs_overlap_nothing_and_inputs_may_be_shared() {
        assert!(check(&[(0, 8), (0, 8), (4, 8)], &[(12, 4), (16, 4)]));
        assert!(!check(&[(0, 8)], &[(7, 4)]));
        assert!(!check(&[], &[(0, 8), (4, 1)]));
        assert!(!check(&[(0, 32)], &[(8, 4)]));
        assert!(!check(&[(8, 4)], &[(0, 32)]));
        assert!(check(&[(8, 0)], &[(0, 32)]));
        assert!(!check(&[(0, 1), (2, 30), (3, 1)], &[(20, 1)]));
    }
}

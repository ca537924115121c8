//! Changing a part of the data: which parity sub-chunks change with it, and by what.
//!
//! Coding is linear, so the difference of the parity is the encode of the difference of the data.
//! If most of the data does not change, most of that encode is zero: the rest of its DAG is
//! the update, and the parity sub-chunks it computes are the only ones to be written.

use crate::{CodeError, Codec, Dag, Program, Result, Shape, dag::At};

/// Plan to change parity after a change of some data sub-chunks; made by [`Codec::update_plan`].
///
/// ```
/// use kiln_code::{Codec, dag::At};
/// let codec = Codec::new(&"rs:4+2".parse()?)?;
/// let plan = codec.update_plan(&[At { chunk: 1, position: 0 }])?;
/// assert_eq!(plan.writes().len(), 2); // one sub-chunk of each parity chunk
/// // Old XOR new data in; what is to be XORed to the two parities out.
/// let (mut p, mut q) = ([0; 2], [0; 2]);
/// plan.run(&[&[5, 7]], &mut [&mut p, &mut q])?;
/// assert_eq!(p, [5, 7]); // the first parity is the sum of the data
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug)]
pub struct UpdatePlan {
    dag: Dag,
    program: Program,
    writes: Vec<At>,
}

impl UpdatePlan {
    /// The data sub-chunks that change, ascending.
    pub fn changes(&self) -> &[At] {
        self.dag.inputs()
    }

    /// The parity sub-chunks that change for some of these changes, ascending: no others need be
    /// read or written.
    pub fn writes(&self) -> &[At] {
        &self.writes
    }

    /// The DAG from differences of data to differences of parity.
    pub fn dag(&self) -> &Dag {
        &self.dag
    }

    /// Computes the differences of the parity: `inputs` has a buffer for every chunk of
    /// [`UpdatePlan::changes`], old XOR new of its sub-chunks one after the other; `outputs` has
    /// one for every chunk of [`UpdatePlan::writes`] likewise, to be XORed to the old parity. For
    /// codes with packets, a sub-chunk is all its packets one after the other.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; outputs are then untouched.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        self.program.run(inputs, outputs)
    }
}

impl Codec {
    /// Plans the change of some data sub-chunks, with the fewest writes of parity.
    ///
    /// # Errors
    /// No sub-chunk is named, one is named twice, or one is no data of this code.
    pub fn update_plan(&self, changes: &[At]) -> Result<UpdatePlan> {
        let mut changes = changes.to_vec();
        changes.sort_unstable();
        let Shape { k, alpha, .. } = self.shape();
        if changes.is_empty() {
            return Err(CodeError::Shape { what: "changed sub-chunks", expected: 1, got: 0 });
        }
        for (index, at) in changes.iter().enumerate() {
            let bad = |reason| {
                let index = at.chunk as usize;
                Err(CodeError::BadChunk { index, reason, last: k - 1 })
            };
            match (at.chunk as usize, at.position as usize) {
                (chunk, _) if chunk >= k => return bad("no data chunk"),
                (_, position) if position >= alpha => return bad("shorter than that"),
                _ if index > 0 && changes[index - 1] == *at => return bad("changed twice there"),
                _ => {}
            }
        }
        let encode = self.encode_plan()?;
        let changed = |at| changes.binary_search(&at).is_ok();
        let dag = encode.dag().restricted(changed, |_| true)?;
        // Terms may cancel: what is zero for every change is not written.
        let mut moves = vec![false; dag.outputs().len()];
        let mut unit = vec![0; dag.inputs().len()];
        for input in 0..unit.len() {
            unit[input] = 1;
            for (moves, byte) in moves.iter_mut().zip(dag.eval(&unit)?) {
                *moves |= byte != 0;
            }
            unit[input] = 0;
        }
        let all = dag.outputs().iter().zip(&moves);
        let writes: Vec<At> = all.filter(|(_, moves)| **moves).map(|((at, _), _)| *at).collect();
        let dag = match moves.contains(&false) {
            true => encode.dag().restricted(changed, |at| writes.binary_search(&at).is_ok())?,
            false => dag,
        };
        let program = Program::compile(&dag, self.kernel())?;
        Ok(UpdatePlan { dag, program, writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODES, codes::codec, seed};

    /// Changes of random sub-chunks of every family: old parity with the difference is the parity
    /// of the new data, and every write is needed.
    #[test]
    fn updates_are_the_encodes_of_the_new_data() {
        let mut state = 1;
        let examples = CODES.iter().map(|family| family.example);
        let small = CODES.iter().flat_map(|family| family.examples).copied();
        for spec in examples.chain(small).chain(["liberation:5+2,packet=8"]) {
            let codec = codec(spec);
            let Shape { k, m, alpha } = codec.shape();
            for count in [1, 1, 2, alpha.min(40)] {
                let mut changes: Vec<At> = Vec::new();
                for _ in 0..count {
                    let chunk = (seed::next(&mut state) % k as u64) as u32;
                    let position = (seed::next(&mut state) % alpha as u64) as u32;
                    let at = At { chunk, position };
                    if !changes.contains(&at) {
                        changes.push(at);
                    }
                }
                let plan = codec.update_plan(&changes).unwrap();
                changes.sort_unstable();
                assert_eq!(plan.changes(), changes, "{spec}");
                let encode = codec.encode_plan().unwrap();
                let mut difference = vec![0; encode.dag().inputs().len()];
                let deltas: Vec<u8> =
                    changes.iter().map(|_| seed::next(&mut state) as u8 | 1).collect();
                for (at, delta) in changes.iter().zip(&deltas) {
                    let index = encode.dag().inputs().binary_search(at).unwrap();
                    difference[index] = *delta;
                }
                let wanted = encode.dag().eval(&difference).unwrap();
                let got = plan.dag().eval(&deltas).unwrap();
                for (&(at, _), wanted) in encode.dag().outputs().iter().zip(wanted) {
                    let found = plan.writes().binary_search(&at).map(|index| got[index]);
                    assert_eq!(found.unwrap_or(0), wanted, "{spec} {at:?}");
                }
                // An MDS code changes every parity chunk for every changed data chunk.
                if changes.len() == 1 && codec.is_mds() {
                    let mut chunks: Vec<u32> = plan.writes().iter().map(|at| at.chunk).collect();
                    chunks.dedup();
                    assert_eq!(chunks.len(), m, "{spec}");
                }
            }
        }
    }

    #[test]
    fn array_codes_write_what_their_papers_say() {
        let writes = |spec: &str, chunk, position| {
            codec(spec).update_plan(&[At { chunk, position }]).unwrap().writes().len()
        };
        assert_eq!(writes("rs:10+4", 3, 0), 4);
        assert_eq!(writes("liberation:11+2", 0, 0), 2);
        // A word of the diagonal of S changes all of Q (EVENODD), others one of it.
        assert_eq!(writes("evenodd:5+2", 0, 0), 2);
        assert_eq!(writes("evenodd:5+2", 1, 3), 1 + 4);
    }

    #[test]
    fn bytes_of_an_update() {
        let codec = codec("rdp:4+2");
        let change = [At { chunk: 0, position: 1 }, At { chunk: 0, position: 2 }];
        let plan = codec.update_plan(&change).unwrap();
        let deltas: Vec<u8> = (0..200).map(|i| (i * 7 + i / 9) as u8).collect();
        let sizes = [4, 5].map(|c| plan.writes().iter().filter(|at| at.chunk == c).count() * 100);
        let mut outputs = sizes.map(|size| vec![0xee; size]);
        let [p, q] = &mut outputs;
        plan.run(&[&deltas], &mut [p, q]).unwrap();
        for x in 0..100 {
            let expected = plan.dag().eval(&[deltas[x], deltas[100 + x]]).unwrap();
            let got = outputs.iter().flat_map(|chunk| chunk.iter().skip(x).step_by(100));
            assert!(got.copied().eq(expected), "{x}");
        }
    }

    #[test]
    fn bad_changes_are_refused() {
        let codec = codec("rdp:4+2");
        let error = |changes: &[At]| codec.update_plan(changes).unwrap_err().to_string();
        let at = |chunk, position| At { chunk, position };
        assert!(error(&[at(4, 0)]).contains("no data chunk"));
        assert!(error(&[at(0, 4)]).contains("shorter"));
        assert!(error(&[at(0, 1), at(0, 1)]).contains("twice"));
        assert!(error(&[]).contains("changed"));
    }
}

//! Blocks of packets (Jerasure's `packetsize`): the program runs block by block.

use super::SLICE_MAX;
use crate::{CodeError, Result};
use kiln_gf::{Buffers, KernelProgram, TemporalHint};
use std::ops::Range;

/// Division of a buffer: `count` sub-chunks one after the other are blocks of `count` packets, each
/// of which has as many bytes, a packet for each sub-chunk.
#[derive(Debug, Clone, Copy)]
pub struct Packets {
    /// Packets of a block, and sub-chunks that hold the same blocks.
    pub count: usize,
    /// Bytes of a packet.
    pub bytes: usize,
}

/// Bytes of packets that are gathered together: enough that a run of a large program costs little.
const GATHERED: usize = 4 << 20;

impl Packets {
    /// Checks that all buffers are whole blocks: anything less is not a range of packets.
    pub(super) fn check(&self, buffers: &Buffers) -> Result<()> {
        let whole = |&units: &usize| self.count > 0 && units.is_multiple_of(self.count);
        match buffers.inputs.iter().chain(&buffers.outputs).all(whole) && self.bytes > 0 {
            true => Ok(()),
            false => Err(CodeError::Internal("parts of blocks of packets".into())),
        }
    }

    /// Runs block by block; a last block that is shorter has shorter packets. Buffers of unequal or
    /// odd lengths go to the kernel program as they are: it knows the error.
    pub(super) fn run(
        &self,
        kernel_program: &KernelProgram,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        slice: usize,
        hint: TemporalHint,
    ) -> Result<()> {
        let Buffers { inputs: read, outputs: made, .. } = kernel_program.buffers();
        let unit = inputs.iter().zip(read).map(|(input, units)| input.len() / units).next();
        let (unit, units) = (unit.unwrap_or_default(), read.iter().chain(made));
        let lens = inputs.iter().map(|input| input.len());
        let even = lens.chain(outputs.iter().map(|output| output.len()));
        if !even.eq(units.clone().map(|units| units * unit)) || unit <= self.bytes {
            return Ok(kernel_program.run(inputs, outputs, slice, hint)?);
        }
        if units.clone().any(|&units| units != self.count) {
            return self.gather(kernel_program, unit, inputs, outputs);
        }
        let (block, len) = (self.count * self.bytes, unit * self.count);
        if len.is_multiple_of(block) {
            return Ok(kernel_program.run_packets(inputs, outputs, self.bytes, slice, hint)?);
        }
        let whole = len / block * block;
        let part = |range: Range<usize>, outputs: &mut [&mut [u8]], packet| {
            let sources: Vec<&[u8]> = inputs.iter().map(|input| &input[range.clone()]).collect();
            let mut results: Vec<&mut [u8]> =
                outputs.iter_mut().map(|output| &mut output[range.clone()]).collect();
            Ok(kernel_program.run_packets(&sources, &mut results, packet, slice, hint)?)
        };
        part(0..whole, outputs, self.bytes)?;
        part(whole..len, outputs, (len - whole) / self.count)
    }

    /// Runs where buffers hold blocks of many sub-chunks: slices of all packets of a block are
    /// copied together, so that the program finds one unit after the other.
    fn gather(
        &self,
        kernel_program: &KernelProgram,
        unit: usize,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<()> {
        let Buffers { inputs: read, outputs: made, .. } = kernel_program.buffers();
        let (reads, all) = (read.iter().sum::<usize>(), read.iter().chain(made).sum::<usize>());
        let step = (GATHERED / all / 64 * 64).clamp(64, SLICE_MAX);
        let mut bytes = vec![0; all * step];
        let group = unit * self.count;
        for block in (0..group).step_by(self.count * self.bytes) {
            let packet = self.bytes.min((group - block) / self.count);
            for from in (0..packet).step_by(step) {
                let len = step.min(packet - from);
                let place = |unit: usize| {
                    let (groups, packets) = (unit / self.count, unit % self.count);
                    let start = groups * group + block + packets * packet + from;
                    start..start + len
                };
                let (sources, results) = bytes[..all * len].split_at_mut(reads * len);
                let mut parts = sources.chunks_exact_mut(len);
                for (input, &units) in inputs.iter().zip(read) {
                    for (unit, part) in (0..units).zip(&mut parts) {
                        part.copy_from_slice(&input[place(unit)]);
                    }
                }
                let (mut sources, mut rest) = (&*sources, &mut *results);
                let split = |&units: &usize| sources.split_off(..units * len);
                let sources: Vec<&[u8]> = read.iter().filter_map(split).collect();
                let split = |&units: &usize| rest.split_off_mut(..units * len);
                let mut made_now: Vec<&mut [u8]> = made.iter().filter_map(split).collect();
                kernel_program.run(&sources, &mut made_now, SLICE_MAX, TemporalHint::Temporal)?;
                let mut parts = results.chunks_exact(len);
                for (output, &units) in outputs.iter_mut().zip(made) {
                    for (unit, part) in (0..units).zip(&mut parts) {
                        output[place(unit)].copy_from_slice(part);
                    }
                }
            }
        }
        Ok(())
    }
}

//! Chunks that are blocks of packets (Jerasure's `packetsize`): the program runs block by block.

use crate::CodeError;
use kiln_gf::{Buffers, KernelProgram, TemporalHint};
use std::ops::Range;

/// Division of a chunk into blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packets {
    alpha: usize,
    /// Bytes of a packet.
    packet: usize,
}

impl Packets {
    /// Checks that all buffers are whole chunks: anything less is not a range of packets.
    pub(super) fn new(
        buffers: &Buffers,
        alpha: usize,
        packet: usize,
    ) -> Result<Packets, CodeError> {
        let whole = buffers.inputs.iter().chain(&buffers.outputs).all(|&units| units == alpha);
        match whole && alpha > 0 && packet > 0 {
            true => Ok(Packets { alpha, packet }),
            false => Err(CodeError::Internal("blocks of packets in parts of chunks".into())),
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
    ) -> Result<(), CodeError> {
        let len = inputs.first().map_or(0, |input| input.len());
        let even = inputs.iter().all(|input| input.len() == len)
            && outputs.iter().all(|output| output.len() == len);
        let block = self.alpha.saturating_mul(self.packet);
        if !even || !len.is_multiple_of(self.alpha) || len <= block {
            return Ok(kernel_program.run(inputs, outputs, slice, hint)?);
        }
        if len.is_multiple_of(block) {
            return Ok(kernel_program.run_packets(inputs, outputs, self.packet, slice, hint)?);
        }
        let whole = len / block * block;
        let part = |range: Range<usize>, outputs: &mut [&mut [u8]], packet| {
            let sources: Vec<&[u8]> = inputs.iter().map(|input| &input[range.clone()]).collect();
            let mut results: Vec<&mut [u8]> =
                outputs.iter_mut().map(|output| &mut output[range.clone()]).collect();
            Ok(kernel_program.run_packets(&sources, &mut results, packet, slice, hint)?)
        };
        part(0..whole, outputs, self.packet)?;
        part(whole..len, outputs, (len - whole) / self.alpha)
    }
}

//! Chunks that are blocks of packets (Jerasure's `packetsize`): the program runs block by block.

use crate::CodeError;
use kiln_gf::Buffers;

/// How a chunk is cut into blocks.
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

    /// Calls `run` for every block. Buffers of unequal or odd lengths go to `run` as they are: it
    /// knows the error.
    pub(super) fn each_block(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        run: impl Fn(&[&[u8]], &mut [&mut [u8]]) -> Result<(), CodeError>,
    ) -> Result<(), CodeError> {
        let len = inputs.first().map_or(0, |input| input.len());
        let even = inputs.iter().all(|input| input.len() == len)
            && outputs.iter().all(|output| output.len() == len);
        let block = self.alpha.saturating_mul(self.packet);
        if !even || !len.is_multiple_of(self.alpha) || len <= block {
            return run(inputs, outputs);
        }
        let mut sources: Vec<&[u8]> = Vec::with_capacity(inputs.len());
        for start in (0..len).step_by(block) {
            let range = start..(start + block).min(len);
            sources.clear();
            sources.extend(inputs.iter().map(|input| &input[range.clone()]));
            let mut results: Vec<&mut [u8]> =
                outputs.iter_mut().map(|output| &mut output[range.clone()]).collect();
            run(&sources, &mut results)?;
        }
        Ok(())
    }
}

//! Running a schedule loop by loop with the widest vectors of the machine.

use super::Schedule;
use super::fans::{Fan, fans};
use crate::CodeError;
use kiln_gf::{Fan as UnitFan, Fans, Unit};

/// A schedule made ready for vectors, with the loops of [`super::WordKernel`]: only for measuring
/// orders against each other.
///
/// ```
/// use kiln_code::{Codec, paper::{VectorKernel, schedule}};
/// let codec = Codec::new(&"rdp:2+2,p=3".parse()?)?;
/// let plan = codec.encode_plan()?;
/// let kernel = VectorKernel::new(&(schedule("by-data-word")?.make)(plan.dag())?)?;
/// let (mut p, mut q) = ([0; 4], [0; 4]);
/// // Packets of two bytes: each chunk is one block.
/// kernel.run(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], &mut [&mut p, &mut q], 2)?;
/// assert_eq!(p, [1 ^ 5, 2 ^ 6, 3 ^ 7, 4 ^ 8]);
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug)]
pub struct VectorKernel {
    fans: Fans,
}

impl VectorKernel {
    /// Makes the loops.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn new(schedule: &Schedule) -> Result<VectorKernel, CodeError> {
        let place = |word: &u32| schedule.place(*word);
        let places = |words: &[u32]| -> Vec<Unit> { words.iter().map(place).collect() };
        let unit_fan = |fan: &Fan| UnitFan {
            from: fan.from.as_ref().map(place),
            copies: places(&fan.copies),
            sums: places(&fan.sums),
        };
        let fans = fans(schedule).iter().map(unit_fan).collect();
        Ok(VectorKernel { fans: Fans::new(fans, schedule.buffers().clone())? })
    }

    /// Runs over chunks that are blocks of packets of `packet` bytes.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; nothing is written then.
    pub fn run(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        packet: usize,
    ) -> Result<(), CodeError> {
        Ok(self.fans.run(inputs, outputs, packet)?)
    }
}

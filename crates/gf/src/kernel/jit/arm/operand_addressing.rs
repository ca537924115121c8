//! Addresses of the operands, tables and spilled values of the code of a block.

use super::super::super::engine::Addressing;
use super::super::super::nibbles::TABLE_LEN;
use super::super::target::{self, Listing, NoCode};
use super::Arm;
use super::encode::{Instruction, Place, STACK, X};
use crate::block::Block;

/// The tables of all factors, a quarter of them around each address: so every pair of tables is
/// within reach of the instruction that loads two vectors.
pub const QUARTERS: [X; 4] = [X(1), X(8), X(9), X(10)];
/// Bytes of a quarter; its address is in the middle.
pub const QUARTER: usize = 64 * TABLE_LEN;
/// First byte of every operand, or what says it; or the record of this repetition.
pub const OPERANDS: X = X(2);
/// The addresses of the operands that have no register.
pub const LIST: X = X(4);
/// Progress of the code in those operands whose addresses have no register.
pub const DONE: X = X(7);
/// Holds the address of an operand that has no register of its own.
const BASE: X = X(11);
/// Hold addresses of the first operands, and move on with the loop. The first three are free in
/// every function, the others belong to the caller.
pub const OWN: [X; 14] = [
    X(13),
    X(14),
    X(15),
    X(19),
    X(20),
    X(21),
    X(22),
    X(23),
    X(24),
    X(25),
    X(26),
    X(27),
    X(28),
    X(30),
];
/// Number of them that are free in every function.
pub const FREE: usize = 3;
/// Holds a factor or the place of its tables.
const FACTOR: X = X(16);

/// Finds places; none of them depends on another.
pub struct Places;

impl target::Places<Arm> for Places {
    fn new(_block: &Block, _addressing: Addressing, _pairs: bool) -> Places {
        Places
    }

    fn operand(
        &mut self,
        _block: &Block,
        operand: u32,
        code: &mut Listing<Arm>,
    ) -> Result<Place, NoCode> {
        if let Some(&base) = OWN.get(operand as usize) {
            return Ok(Place { base, index: None, offset: 0, moves: true });
        }
        let offset = list_entry(operand as usize) as isize;
        let from = Place { base: LIST, index: None, offset, moves: false };
        code.push(Instruction::LoadWord { to: BASE, from });
        Ok(Place { base: BASE, index: Some(DONE), offset: 0, moves: true })
    }

    fn ahead(
        &self,
        place: &Place,
        _operand: u32,
        lines: usize,
        _code: &mut Listing<Arm>,
    ) -> Result<Place, NoCode> {
        Ok(Self::behind(place, lines))
    }

    fn behind(place: &Place, lines: usize) -> Place {
        Place { offset: place.offset + 64 * lines as isize, ..*place }
    }

    fn own_entries(&self, _block: &Block) -> Result<Listing<Arm>, NoCode> {
        Ok(Vec::new())
    }

    fn spilled(slot: usize) -> Place {
        Place { base: STACK, index: None, offset: 64 * slot as isize, moves: false }
    }
}

/// Returns where in the list the address of an operand lies that has no register.
pub fn list_entry(operand: usize) -> usize {
    8 * (operand - OWN.len())
}

/// The tables of a factor, of lower and of upper halves, one behind the other.
pub fn tables(factor: u8) -> [Place; 2] {
    let at = TABLE_LEN * usize::from(factor);
    both(QUARTERS[at / QUARTER], (at % QUARTER) as isize - (QUARTER / 2) as isize)
}

/// The tables of a factor that each repetition has in its list, after the instructions that find
/// them.
pub fn given_tables(block: &Block, index: u32, code: &mut Listing<Arm>) -> [Place; 2] {
    let offset = 8 * block.named().count() as isize + index as isize;
    let from = Place { base: OPERANDS, index: None, offset, moves: false };
    code.push(Instruction::LoadByte { to: FACTOR, from });
    let left = TABLE_LEN.trailing_zeros();
    code.push(Instruction::Add { to: FACTOR, a: QUARTERS[0], b: FACTOR, left });
    both(FACTOR, -((QUARTER / 2) as isize))
}

fn both(base: X, offset: isize) -> [Place; 2] {
    [0, TABLE_LEN as isize / 2].map(|half| Place {
        base,
        index: None,
        offset: offset + half,
        moves: false,
    })
}

//! Blocks whose repetitions have lists of operands and factors of their own.

use super::blocks::{Random, check_block, clearing, orders, random_block};
use super::*;

/// The block with some factors left open, equal ones by one place, and operands put behind others
/// of their side.
pub(in crate::kernel) fn opened(random: &mut Random, block: &Block) -> Block {
    let places = 1 + random.below(6) as u32;
    let factors: Vec<Factor> = block
        .factors()
        .into_iter()
        .map(|factor| match random.below(2) {
            0 => Factor::Fixed(factor),
            _ => Factor::Given(random.below(places as usize) as u32),
        })
        .collect();
    let mut block = block.with_factors(&factors);
    for side in [Side::Input, Side::Output] {
        let of_side = |&operand: &u32| block.sides()[operand as usize] == side;
        let operands: Vec<u32> = (0..block.sides().len() as u32).filter(of_side).collect();
        let mut anchor = 0;
        for (index, &operand) in operands.iter().enumerate().skip(1) {
            let distance = (index - anchor) as u32;
            if random.below(3) == 0 || !block.put_behind(operand, operands[anchor], distance) {
                anchor = index;
            }
        }
    }
    block
}

/// A kernel program that clears scratch and runs the block `repeats` times twice, on units here and
/// there and with factors of every kind.
fn listed(
    kernel: &'static dyn Kernel,
    block: &Block,
    repeats: usize,
    random: &mut Random,
) -> KernelProgram {
    let count = |side| block.sides().iter().filter(|&&s| s == side).count();
    let (outs, kept, results) = (count(Side::Output), count(Side::Scratch), count(Side::Result));
    let units = (outs * repeats).max(4);
    let mut operands: Vec<Unit> = Vec::new();
    for repetition in 0..repeats {
        let own = (repetition * 7 + 3) % repeats;
        let mut seen = [0; 4];
        for (operand, &side) in (0..).zip(block.sides()) {
            let index = seen[side as usize];
            seen[side as usize] += 1;
            if block.anchor(operand) != Some((operand, 0)) {
                continue;
            }
            let (region, unit) = match side {
                Side::Input => (random.below(2), random.below(units - 3)),
                Side::Output => (2, own * outs + index),
                Side::Scratch => (3, own * kept + index),
                Side::Result => (3, repeats * kept + own * results + index),
            };
            operands.push(Unit { region: region as u32, unit: unit as u32 });
        }
    }
    let all = operands.len() as u32;
    operands.push(Unit { region: 3, unit: 0 });
    let factors: Vec<u8> = (0..repeats * block.given()).map(|_| random.below(256) as u8).collect();
    let each = Call::Each { routine: 1, operands: 0..all, factors: 0..factors.len() as u32 };
    let shifts: Vec<Shift> = (0..((kept + results) * repeats) as u32)
        .map(|unit| Shift { scratch: unit, ..Shift::default() })
        .collect();
    let clear = Call::Block { routine: 0, operands: all..all + 1, shifts: 0..shifts.len() as u32 };
    let routines = [clearing(), block.clone()].map(|block| Routine::new(kernel, block).unwrap());
    let (calls, routines) = (vec![clear, each.clone(), each], routines.to_vec());
    let order = match random.below(3) {
        0 => [vec![], vec![]],
        which => {
            let mut order = orders(units as u32).swap_remove(which);
            let [_, outputs] = orders((outs * repeats) as u32).swap_remove(which);
            order[1] = outputs;
            order
        }
    };
    let source =
        ProgramSource { routines, calls, operands, shifts, factors, order, ..Default::default() };
    let buffers = Buffers {
        inputs: vec![units; 2],
        outputs: vec![outs * repeats],
        scratch: (kept + results) * repeats,
    };
    KernelProgram::new(source, buffers).unwrap()
}

#[test]
fn random_blocks_with_lists() {
    let mut random = Random(21);
    for round in 0..40 {
        let (loads, sums) = (1 + random.below(30), 4 + random.below(4 + round));
        let terms = 1 + random.below(8);
        let block = random_block(&mut random, loads, sums, terms);
        let block = opened(&mut random, &block);
        each_kernel(|kernel| {
            if !kernel.compiles_blocks() && round % 8 != 0 {
                return; // they all interpret
            }
            for repeats in [4, 5] {
                let program = listed(kernel, &block, repeats, &mut Random(round as u64));
                for (len, hint) in [
                    (64, TemporalHint::NonTemporal),
                    (320, TemporalHint::NonTemporal),
                    (77, TemporalHint::Temporal),
                ] {
                    check_block(&program, len, 0, 192, hint);
                }
                check_block(&program, round, 1, 16, TemporalHint::Temporal);
                check_block(&program, 32, 1, 32, TemporalHint::Temporal);
            }
        });
    }
}

/// Each repetition uses what the one before it stores, with every length of units.
#[test]
fn repetitions_with_lists_follow_each_other() {
    let mut block = Block::new();
    let (from, input) = (block.operand(Side::Scratch), block.operand(Side::Input));
    let (to, output) = (block.operand(Side::Scratch), block.operand(Side::Output));
    let (before, value) = (block.load(from), block.load(input));
    let sum = block.sum(&[(before, 2), (value, 3)]);
    block.store(to, sum);
    block.store(output, sum);
    let places = (0..9).flat_map(|at| [(2, at), (0, at), (2, at + 1), (1, at)]);
    let operands: Vec<Unit> = places.map(|(region, unit)| Unit { region, unit }).collect();
    each_kernel(|kernel| {
        let routines = [clearing(), block.clone()];
        let routines = routines.map(|block| Routine::new(kernel, block).unwrap()).to_vec();
        let clear = Call::Block { routine: 0, operands: 0..1, shifts: 0..1 };
        let calls = vec![clear, Call::Each { routine: 1, operands: 0..36, factors: 0..0 }];
        let (operands, shifts) = (operands.clone(), vec![Shift::default()]);
        let source = ProgramSource { routines, calls, operands, shifts, ..Default::default() };
        let buffers = Buffers { inputs: vec![9], outputs: vec![9], scratch: 10 };
        let program = KernelProgram::new(source, buffers).unwrap();
        for len in [16, 32, 64, 96] {
            check_block(&program, len, 0, len, TemporalHint::Temporal);
        }
    });
}

#[test]
fn lists_are_checked() {
    let mut block = Block::new();
    let (from, to) = (block.operand(Side::Input), block.operand(Side::Output));
    let behind = block.operand(Side::Input);
    assert!(block.put_behind(behind, from, 2));
    let values = [from, behind].map(|operand| block.load(operand));
    let sum = block.sum(&[(values[0], 2), (values[1], 3)]);
    block.store(to, sum);
    let block = block.with_factors(&[Factor::Given(1), Factor::Fixed(3)]);
    let check = |units: &[(u32, u32)], factors: Vec<u8>, plain: bool| {
        let operands = units.iter().map(|&(region, unit)| Unit { region, unit }).collect();
        let routines = vec![Routine::new(&scalar::SCALAR, block.clone()).unwrap()];
        let all = units.len() as u32;
        let calls = vec![match plain {
            true => Call::Block { routine: 0, operands: 0..all, shifts: 0..0 },
            false => Call::Each { routine: 0, operands: 0..all, factors: 0..factors.len() as u32 },
        }];
        let source = ProgramSource { routines, calls, operands, factors, ..Default::default() };
        KernelProgram::new(source, Buffers { inputs: vec![4], outputs: vec![2], scratch: 0 })
            .map(drop)
    };
    let good = [(0, 0), (1, 0), (0, 1), (1, 1)];
    assert_eq!(check(&good, vec![1, 2, 3, 4], false), Ok(()));
    assert!(matches!(check(&good, vec![1, 2, 3], false), Err(GfError::Shape { .. })));
    assert!(matches!(check(&good[..3], vec![1, 2], false), Err(GfError::Shape { .. })));
    assert!(matches!(check(&good[..3], vec![], true), Err(GfError::Shape { .. })));
    // The operand behind lies outside.
    let outside = check(&[(0, 2), (1, 0)], vec![1, 2], false);
    assert!(matches!(outside, Err(GfError::OutOfBounds { .. })));
    assert!(matches!(check(&[(1, 0), (1, 1)], vec![1, 2], false), Err(GfError::WrongSide { .. })));
}

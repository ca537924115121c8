//! Blocks against their definition: random straight lines on every kernel, every length.

use super::*;
use crate::kernel::engine::{Addressing, CodeVariant};

pub(in crate::kernel) struct Random(pub(in crate::kernel) u64);

impl Random {
    pub(in crate::kernel) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit
    }

    fn factor(&mut self, others: usize) -> u8 {
        match self.below(3) {
            0 => 1,
            // Few different ones in one block, many in another.
            _ => (self.below(others) * 37 + 2) as u8,
        }
    }
}

/// A block that loads `loads` operands, computes `xor_only` values of up to `terms` terms each, and
/// stores some of them; scratch operands are loaded and stored, results in scratch loaded.
pub(in crate::kernel) fn random_block(
    random: &mut Random,
    loads: usize,
    sums: usize,
    terms: usize,
) -> Block {
    let mut block = Block::new();
    let others = 1 + random.below(40);
    let mut values = Vec::new();
    let kept: Vec<u32> = (0..1 + random.below(3)).map(|_| block.operand(Side::Scratch)).collect();
    values.extend(kept.iter().map(|&operand| block.load(operand)));
    for _ in 0..random.below(3) {
        let operand = block.operand(Side::Result);
        values.push(block.load(operand));
    }
    for _ in 0..loads {
        let operand = block.operand(Side::Input);
        values.push(block.load(operand));
    }
    for _ in 0..sums {
        let count = 1 + random.below(terms);
        let terms: Vec<(Value, u8)> = (0..count)
            .map(|_| (values[random.below(values.len())], random.factor(others)))
            .collect();
        values.push(block.sum(&terms));
    }
    for operand in kept {
        block.store(operand, values[random.below(values.len())]);
    }
    for _ in 0..1 + random.below(sums) {
        let operand = block.operand(Side::Output);
        block.store(operand, values[random.below(values.len())]);
    }
    block
}

/// A kernel program that clears scratch, copies an input to where results lie, and runs a block on
/// `repeats` units of every operand, units in an order that is not that of the repetitions.
pub(super) fn repeated(kernel: &'static dyn Kernel, block: &Block, repeats: u32) -> KernelProgram {
    repeated_in_order(kernel, block, repeats, [vec![], vec![]])
}

/// A block that clears a unit of scratch.
pub(super) fn clearing() -> Block {
    let mut block = Block::new();
    let operand = block.operand(Side::Scratch);
    let zero = block.sum(&[]);
    block.store(operand, zero);
    block
}

/// A block that copies an input to scratch.
fn copying() -> Block {
    let mut block = Block::new();
    let (from, to) = (block.operand(Side::Input), block.operand(Side::Scratch));
    let value = block.load(from);
    block.store(to, value);
    block
}

/// As [`repeated`], with units that lie in some order.
fn repeated_in_order(
    kernel: &'static dyn Kernel,
    block: &Block,
    repeats: u32,
    order: [Vec<u32>; 2],
) -> KernelProgram {
    let count = |side| block.sides().iter().filter(|&&s| s == side).count();
    let (inputs, outputs) = (count(Side::Input), count(Side::Output));
    let results = count(Side::Result) as u32 * repeats;
    let units = repeats as usize;
    let scratch = (inputs + outputs) as u32;
    let (mut next, mut found, mut kept) = ([0, inputs as u32], 0, results);
    let mut operands: Vec<Unit> = Vec::new();
    for side in block.sides() {
        operands.push(match side {
            Side::Scratch => {
                kept += repeats;
                Unit { region: scratch, unit: kept - repeats }
            }
            Side::Result => {
                found += repeats;
                Unit { region: scratch, unit: found - repeats }
            }
            Side::Input | Side::Output => {
                next[*side as usize] += 1;
                Unit { region: next[*side as usize] - 1, unit: 0 }
            }
        });
    }
    let mut shifts: Vec<Shift> =
        (0..kept).map(|unit| Shift { scratch: unit, ..Shift::default() }).collect();
    shifts.extend((0..results).map(|u| Shift {
        inputs: u % repeats,
        scratch: u,
        ..Shift::default()
    }));
    let turns = (0..repeats).map(|i| (i * 7 + 3) % repeats);
    shifts.extend(turns.map(|u| {
        let results = (u * 5 + 1) % repeats;
        Shift { inputs: u, outputs: u, scratch: repeats - 1 - u, results }
    }));
    let first = operands.len() as u32;
    operands.push(Unit { region: 0, unit: 0 });
    operands.push(Unit { region: scratch, unit: 0 });
    let (copied, all) = (kept + results, shifts.len() as u32);
    let calls = vec![
        Call::Block { routine: 0, operands: first + 1..first + 2, shifts: 0..kept },
        Call::Block { routine: 2, operands: first..first + 2, shifts: kept..copied },
        Call::Block { routine: 1, operands: 0..first, shifts: copied..all },
        // Once more, on what the first round left in scratch.
        Call::Block { routine: 1, operands: 0..first, shifts: copied..all },
    ];
    let routines =
        [clearing(), block.clone(), copying()].map(|block| Routine::new(kernel, block).unwrap());
    let (products, routines) = (Vec::new(), routines.to_vec());
    let source =
        ProgramSource { products, routines, calls, operands, shifts, order, ..Default::default() };
    let buffers = Buffers {
        inputs: vec![units; inputs],
        outputs: vec![units; outputs],
        scratch: kept as usize,
    };
    KernelProgram::new(source, buffers).unwrap()
}

/// Runs over buffers at odd addresses between bytes that must not change, and compares with the
/// definition.
pub(super) fn check_block(
    program: &KernelProgram,
    len: usize,
    skew: usize,
    slice: usize,
    hint: TemporalHint,
) {
    let Buffers { inputs, outputs, .. } = program.buffers();
    let units = outputs[0];
    let data: Vec<Vec<u8>> = (0..inputs.len()).map(|j| bytes(j + len, units * len)).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let pitch = (units * len + 2 * skew).max(1).next_multiple_of(64);
    let mut out = AlignedBuf::zeroed(pitch * outputs.len());
    out.fill(0xa7);
    let mut wanted = out.clone();
    for byte in 0..len {
        let column: Vec<u8> =
            data.iter().flat_map(|chunk| (0..units).map(|u| chunk[u * len + byte])).collect();
        for (index, value) in program.eval(&column).unwrap().into_iter().enumerate() {
            let (output, unit) = (index / units, index % units);
            wanted[output * pitch + skew + unit * len + byte] = value;
        }
    }
    let mut dsts: Vec<&mut [u8]> =
        out.chunks_mut(pitch).map(|chunk| &mut chunk[skew..][..units * len]).collect();
    program.run(&data, &mut dsts, slice, hint).unwrap();
    assert!(out[..] == wanted[..], "len {len} skew {skew} slice {slice} {hint:?}");
}

/// Orders of a number of units: of inputs, of outputs, of both.
pub(super) fn orders(units: u32) -> Vec<[Vec<u32>; 2]> {
    let back: Vec<u32> = (0..units).rev().collect();
    let turned: Vec<u32> = (0..units).map(|unit| (unit + 1) % units).collect();
    vec![[back.clone(), vec![]], [vec![], turned.clone()], [turned, back]]
}

#[test]
fn random_blocks_on_units_in_an_order() {
    let mut random = Random(31);
    for (loads, sums, terms) in [(1, 1, 1), (3, 4, 3), (8, 12, 5), (30, 40, 4)] {
        let block = random_block(&mut random, loads, sums, terms);
        each_kernel(|kernel| {
            for (repeats, order) in
                [1, 2, 5].into_iter().flat_map(|n| orders(n).into_iter().map(move |o| (n, o)))
            {
                let program = repeated_in_order(kernel, &block, repeats, order);
                for (len, slice) in [(64, 64), (192, 128), (512, 512), (832, 832), (77, 64)] {
                    check_block(&program, len, 0, slice, TemporalHint::NonTemporal);
                    check_block(&program, len, 3, slice, TemporalHint::Temporal);
                }
            }
        });
    }
}

#[test]
fn orders_are_checked() {
    let check = |order: [Vec<u32>; 2]| {
        let source = ProgramSource { order, ..Default::default() };
        let buffers = Buffers { inputs: vec![3, 3], outputs: vec![2], scratch: 0 };
        KernelProgram::new(source, buffers).map(drop)
    };
    assert_eq!(check([vec![2, 0, 1], vec![1, 0]]), Ok(()));
    for wrong in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![0, 1, 2, 3]] {
        assert!(matches!(check([wrong, vec![]]), Err(GfError::Shape { .. })));
    }
}

#[test]
fn random_blocks_of_every_length() {
    let mut random = Random(11);
    for (loads, sums, terms) in [(1, 1, 1), (3, 4, 3), (8, 12, 5)] {
        let block = random_block(&mut random, loads, sums, terms);
        each_kernel(|kernel| {
            for repeats in [1, 3] {
                let program = repeated(kernel, &block, repeats);
                for len in (0..=257).step_by(if loads == 3 { 1 } else { 13 }) {
                    check_block(&program, len, len % 3, 128, TemporalHint::Temporal);
                    check_block(&program, len, 0, len, TemporalHint::NonTemporal);
                }
            }
        });
    }
}

#[test]
fn random_blocks_of_every_size() {
    // From blocks that fit the registers to blocks that need the stack, or are too long for code.
    let mut random = Random(12);
    for round in 0..60 {
        let (loads, sums) = (1 + random.below(40), 1 + random.below(2 + 2 * round));
        let terms = 1 + random.below(12);
        let block = random_block(&mut random, loads, sums, terms);
        each_kernel(|kernel| {
            if !kernel.compiles_blocks() && round % 8 != 0 {
                return; // they all interpret
            }
            let program = repeated(kernel, &block, 1 + round as u32 % 4);
            for (len, hint) in [
                (64, TemporalHint::NonTemporal),
                (320, TemporalHint::NonTemporal),
                (77, TemporalHint::Temporal),
            ] {
                check_block(&program, len, 0, 192, hint);
            }
        });
    }
    let long = random_block(&mut random, 30, 400, 12);
    each_kernel(|kernel| {
        check_block(&repeated(kernel, &long, 2), 100, 0, 64, TemporalHint::Temporal)
    });
}

/// Loops over several vectors, what is left of these, and what is left of a vector.
#[test]
fn blocks_of_many_vectors() {
    let mut random = Random(14);
    for (loads, sums, terms) in [(2, 3, 3), (30, 60, 8)] {
        let block = random_block(&mut random, loads, sums, terms);
        each_kernel(|kernel| {
            let program = repeated(kernel, &block, 2);
            for len in [64, 2048, 0, 64, 448, 512, 576, 1088, 1500] {
                check_block(&program, len, 0, len.max(1), TemporalHint::Temporal);
            }
        });
    }
}

/// Every variant of a block's code, with every addressing.
pub(in crate::kernel) fn forms() -> impl Iterator<Item = (CodeVariant, Addressing)> {
    let addressings = [Addressing::Moved, Addressing::Ordered, Addressing::Listed];
    CodeVariant::ALL.into_iter().flat_map(move |variant| addressings.map(|how| (variant, how)))
}

/// Blocks of ordinary size must really become code: otherwise the tests above test nothing.
#[test]
fn code_is_made_of_blocks() {
    each_kernel(|kernel| {
        let mut random = Random(13);
        // Small enough to be unrolled as well.
        let block = random_block(&mut random, 10, 12, 4);
        for (variant, addressing) in forms() {
            let code = kernel.code_gen();
            let made = code.and_then(|code| code.assemble(&block, variant, addressing)).is_some();
            // Loops over lists are not unrolled; halves with 64-byte vectors are pairs of lists.
            let listed = addressing == Addressing::Listed;
            let wanted = match variant {
                CodeVariant::Half => {
                    kernel.name() == "jit-avx2" || listed && kernel.name() == "jit"
                }
                CodeVariant::Unrolled => kernel.compiles_blocks() && !listed,
                _ => kernel.compiles_blocks(),
            };
            assert_eq!(made, wanted);
        }
    });
}

#[test]
fn blocks_that_ask_for_too_much_are_refused() {
    let mut other = Block::new();
    let input = other.operand(Side::Input);
    let foreign = other.load(input);
    let refused = |make: &dyn Fn(&mut Block)| {
        let mut block = Block::new();
        make(&mut block);
        Routine::new(&scalar::SCALAR, block).unwrap_err()
    };
    assert!(matches!(refused(&|b| _ = b.load(0)), GfError::Shape { .. }));
    assert!(matches!(refused(&|b| _ = b.sum(&[(foreign, 2)])), GfError::Shape { .. }));
    let read_only = refused(&|b| {
        let operand = b.operand(Side::Input);
        let value = b.load(operand);
        b.store(operand, value);
    });
    assert_eq!(read_only, GfError::ReadOnly { index: 0, region: 0 });
    let twice = refused(&|b| {
        let operand = b.operand(Side::Output);
        let zero = b.sum(&[]);
        b.store(operand, zero);
        b.store(operand, zero);
    });
    assert!(matches!(twice, GfError::Shape { .. }));
}

#[test]
fn results_that_a_repetition_stores_are_refused() {
    let mut block = Block::new();
    let (from, to) = (block.operand(Side::Result), block.operand(Side::Scratch));
    let value = block.load(from);
    block.store(to, value);
    let check = |results: [u32; 2], scratch: [u32; 2]| {
        let operands = vec![Unit { region: 0, unit: 0 }, Unit { region: 0, unit: 0 }];
        let routines = vec![Routine::new(&scalar::SCALAR, block.clone()).unwrap()];
        let shift = |(results, scratch)| Shift { scratch, results, ..Shift::default() };
        let shifts: Vec<Shift> = results.into_iter().zip(scratch).map(shift).collect();
        let products = vec![Product::new(&scalar::SCALAR, &Matrix::zero(1, 0))];
        let calls = vec![
            Call::Product { product: 0, sources: 0..0, results: 0..1 },
            Call::Block { routine: 0, operands: 0..2, shifts: 0..2 },
        ];
        let source =
            ProgramSource { products, routines, calls, operands, shifts, ..Default::default() };
        KernelProgram::new(source, Buffers { inputs: vec![], outputs: vec![], scratch: 3 })
            .map(drop)
    };
    assert_eq!(check([0, 0], [1, 2]), Ok(()));
    // What the first repetition stores, the second one may load.
    assert_eq!(check([0, 1], [1, 2]), Ok(()));
    assert!(matches!(check([0, 2], [1, 1]), Err(GfError::Unwritten { unit: 2, .. })));
    assert!(matches!(check([0, 1], [1, 1]), Err(GfError::Overlap { .. })));
    assert!(matches!(check([0, 3], [1, 2]), Err(GfError::OutOfBounds { .. })));
}

#[test]
fn calls_of_blocks_are_checked() {
    let mut block = Block::new();
    let (from, to) = (block.operand(Side::Input), block.operand(Side::Scratch));
    let out = block.operand(Side::Output);
    let value = block.load(from);
    let old = block.load(to);
    let sum = block.sum(&[(value, 1), (old, 1)]);
    block.store(to, sum);
    block.store(out, sum);
    let check = |units: [(u32, u32); 3], shift: Shift| {
        let operands = units.map(|(region, unit)| Unit { region, unit }).to_vec();
        let products = vec![Product::new(&scalar::SCALAR, &Matrix::zero(1, 0))];
        let routines = vec![Routine::new(&scalar::SCALAR, block.clone()).unwrap()];
        let calls = vec![
            Call::Product { product: 0, sources: 0..0, results: 1..2 },
            Call::Block { routine: 0, operands: 0..3, shifts: 0..1 },
        ];
        let source = ProgramSource {
            products,
            routines,
            calls,
            operands,
            shifts: vec![shift],
            ..ProgramSource::default()
        };
        KernelProgram::new(source, Buffers { inputs: vec![2], outputs: vec![2], scratch: 2 })
            .map(drop)
    };
    let shift = |inputs, outputs, scratch| Shift { inputs, outputs, scratch, results: 0 };
    let none = Shift::default();
    let good = [(0, 0), (2, 0), (1, 0)];
    assert_eq!(check(good, none), Ok(()));
    assert_eq!(check(good, shift(1, 1, 0)), Ok(()));
    let unwritten = GfError::Unwritten { index: 1, region: 2, unit: 1 };
    assert_eq!(check(good, shift(0, 0, 1)), Err(unwritten));
    assert!(matches!(check(good, shift(2, 0, 0)), Err(GfError::OutOfBounds { .. })));
    assert!(matches!(check(good, shift(0, u32::MAX, 0)), Err(GfError::OutOfBounds { .. })));
    assert_eq!(
        check([(1, 0), (2, 0), (1, 1)], none),
        Err(GfError::WrongSide { index: 0, region: 1 })
    );
}

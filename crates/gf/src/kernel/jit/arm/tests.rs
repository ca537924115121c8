use super::super::super::battery::blocks::{Random, forms, random_block};
use super::super::super::battery::lists::opened;
use super::super::super::engine::{Addressing, CodeVariant};
use super::super::call;
use super::encode::*;
use super::neon;
use crate::tuning::Fetch;

const fn place(base: u32, offset: isize) -> Place {
    Place { base: X(base), index: None, offset, moves: false }
}

const fn indexed(base: u32, index: u32, offset: isize) -> Place {
    Place { index: Some(X(index)), ..place(base, offset) }
}

const fn load(to: u32, parts: usize, from: Place) -> Instruction {
    Instruction::Load { to: V(to), parts, from }
}

const fn store(to: Place, from: u32, past: bool) -> Instruction {
    Instruction::Store { to, from: V(from), parts: 2, past }
}

/// Output of an assembler (GNU as 2.40) for the text beside each.
const LISTING: &[(Instruction, &str, &[u32])] = &[
    (load(26, 2, place(8, -1024)), "ldp q26, q27, [x8, #-1024]", &[0xad60_6d1a]),
    (load(4, 2, place(13, 480)), "ldp q4, q5, [x13, #480]", &[0xad4f_15a4]),
    (
        load(6, 2, place(13, 1024)),
        "ldr q6, [x13, #1024]; ldr q7, [x13, #1040]",
        &[0x3dc1_01a6, 0x3dc1_05a7],
    ),
    (
        load(0, 4, indexed(11, 7, 0)),
        "add x16, x11, x7; ldp q0, q1, [x16]; ldp q2, q3, [x16, #32]",
        &[0x8b07_0170, 0xad40_0600, 0xad41_0e02],
    ),
    (store(place(31, 64), 8, false), "stp q8, q9, [sp, #64]", &[0xad02_27e8]),
    (store(place(14, 32), 10, true), "stnp q10, q11, [x14, #32]", &[0xac01_2dca]),
    (Instruction::Prefetch { at: place(15, 384) }, "prfm pldl1keep, [x15, #384]", &[0xf980_c1e0]),
    (Instruction::LoadWord { to: X(11), from: place(4, 24) }, "ldr x11, [x4, #24]", &[0xf940_0c8b]),
    (
        Instruction::LoadByte { to: X(16), from: place(2, 41) },
        "ldrb w16, [x2, #41]",
        &[0x3940_a450],
    ),
    (
        Instruction::Add { to: X(16), a: X(1), b: X(16), left: 5 },
        "add x16, x1, x16, lsl #5",
        &[0x8b10_1430],
    ),
    (Instruction::Eor { to: V(3), a: V(4), b: V(5) }, "eor v3.16b, v4.16b, v5.16b", &[0x6e25_1c83]),
    (
        Instruction::Eor3 { to: V(3), a: V(28), b: V(29), c: V(9) },
        "eor3 v3.16b, v28.16b, v29.16b, v9.16b",
        &[0xce1d_2783],
    ),
    (
        Instruction::And { to: V(28), a: V(28), b: V(30) },
        "and v28.16b, v28.16b, v30.16b",
        &[0x4e3e_1f9c],
    ),
    (
        Instruction::AddBytes { to: V(29), a: V(7), b: V(7) },
        "add v29.16b, v7.16b, v7.16b",
        &[0x4e27_84fd],
    ),
    (
        Instruction::Table { to: V(28), table: V(26), index: V(12) },
        "tbl v28.16b, {v26.16b}, v12.16b",
        &[0x4e0c_035c],
    ),
    (Instruction::Upper { to: V(8), from: V(9) }, "ushr v8.16b, v9.16b, #4", &[0x6f0c_0528]),
    (Instruction::Signs { to: V(28), from: V(11) }, "sshr v28.16b, v11.16b, #7", &[0x4f09_057c]),
    (Instruction::Copy { to: V(1), from: V(2) }, "mov v1.16b, v2.16b", &[0x4ea2_1c41]),
    (Instruction::Fill { to: V(31), byte: 15 }, "movi v31.16b, #15", &[0x4f00_e5ff]),
    (Instruction::Fill { to: V(5), byte: 0xb6 }, "movi v5.16b, #0xb6", &[0x4f05_e6c5]),
    (
        Instruction::CopyBytes { to: place(31, 128), from: indexed(11, 7, 64) },
        "add x16, x11, x7; add x16, x16, #64; add x17, sp, #128; ldr x6, [x0, #40]; \
         ldrb w12, [x16], #1; strb w12, [x17], #1; subs x6, x6, #1; b.ne .-12",
        &[
            0x8b07_0170, 0x9101_0210, 0x9102_03f1, 0xf940_1406, 0x3840_160c, 0x3800_162c,
            0xf100_04c6, 0x54ff_ffa1,
        ],
    ),
];

/// The same of what is around a listing.
fn words() -> Vec<(u32, &'static str, u32)> {
    vec![
        (load_word(X(5), ARGUMENTS, 24), "ldr x5, [x0, #24]", 0xf940_0c05),
        (load_half(X(17), X(2), 12), "ldr w17, [x2, #12]", 0xb940_0c51),
        (load_indexed(X(17), X(8), X(17), false), "ldr x17, [x8, x17]", 0xf871_6911),
        (load_indexed(X(17), X(9), X(17), true), "ldr x17, [x9, x17, lsl #3]", 0xf871_7931),
        (store_word(X(16), X(4), 8), "str x16, [x4, #8]", 0xf900_0490),
        (add(X(13), X(13), X(8), 0), "add x13, x13, x8", 0x8b08_01ad),
        (add_bytes(STACK, STACK, 160), "add sp, sp, #160", 0x9102_83ff),
        (subtract(STACK, STACK, 160), "sub sp, sp, #160", 0xd102_83ff),
        (subtract_and_compare(LEFT, LEFT, 64), "subs x6, x6, #64", 0xf101_00c6),
        (compare_bytes(LEFT, 512), "cmp x6, #512", 0xf108_00df),
        (compare(X(2), X(16)), "cmp x2, x16", 0xeb10_005f),
        (multiply(X(17), X(17), X(10)), "mul x17, x17, x10", 0x9b0a_7e31),
        (copy(LEFT, X(5)), "mov x6, x5", 0xaa05_03e6),
        (zero(X(7)), "mov x7, #0", 0xd280_0007),
        (pair(false, X(19), X(20), STACK, 16), "stp x19, x20, [sp, #16]", 0xa901_53f3),
        (pair(true, X(27), X(31), STACK, 64), "ldp x27, xzr, [sp, #64]", 0xa944_7ffb),
        (pair_of_halves(false, V(8), STACK, 96), "stp d8, d9, [sp, #96]", 0x6d06_27e8),
        (pair_of_halves(true, V(14), STACK, 144), "ldp d14, d15, [sp, #144]", 0x6d49_3fee),
        (RETURN, "ret", 0xd65f_03c0),
    ]
}

#[test]
fn instructions_are_what_an_assembler_makes_of_them() {
    for (instruction, text, words) in LISTING {
        let mut code = Vec::new();
        instruction.encode(0, &mut code);
        assert_eq!(&code, words, "{text}");
    }
    for (word, text, expected) in words() {
        assert_eq!(word, expected, "{text}");
    }
    assert_eq!(branch(Condition::Equal, 4), Some(0x5400_0080), "b.eq .+16");
    assert_eq!(branch(Condition::NotLess, -100), Some(0x54ff_f382), "b.hs .-400");
    assert_eq!(branch(Condition::Less, 2), Some(0x5400_0043), "b.lo .+8");
    assert!(branch(Condition::Less, 1 << 18).is_none());
    assert!(branch(Condition::Less, -(1 << 18) - 1).is_none());
}

/// The code can be made on every machine: all blocks of ordinary size become code, whole words, and
/// less of it where one instruction adds three. It is run where it runs.
#[test]
fn blocks_become_code_on_every_machine() {
    let mut random = Random(21);
    for round in 0..40 {
        let (loads, sums) = (1 + random.below(20), 1 + random.below(24));
        let block = random_block(&mut random, loads, sums, 2 + round % 9);
        let opened = opened(&mut random, &block);
        for (variant, addressing) in forms() {
            let block = if addressing == Addressing::Listed { &opened } else { &block };
            let make = |registers: &neon::Neon| {
                call::assemble(
                    registers,
                    (block, Fetch::rule(0, false, false)),
                    variant,
                    addressing,
                )
            };
            let made = neon::PRODUCTS.each_ref().map(make);
            let [Some(plain), Some(three)] = made else {
                assert!(variant == CodeVariant::Unrolled, "{variant:?} {addressing:?}");
                continue;
            };
            assert!(plain.len().is_multiple_of(4));
            // What is shorter is unrolled further.
            assert!(three.len() <= plain.len() || variant == CodeVariant::Unrolled);
            assert_eq!(plain[plain.len() - 4..], RETURN.to_le_bytes());
        }
    }
}

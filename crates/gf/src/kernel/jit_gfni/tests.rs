use super::super::battery::blocks::{Random, forms, random_block};
use super::super::battery::lists::opened;
use super::super::jit::call;
use super::*;

#[test]
fn code_is_made_and_given_back() {
    let Some(_) = gfni::proof() else { return };
    let coefficients = [1, 1, 1, 2];
    let before = pages::in_use();
    let code = Code::new(&Shape { rows: 2, cols: 2, coefficients: &coefficients }).unwrap();
    assert!(pages::in_use() > 0);
    drop(code);
    // Other tests of this process make code too: only an upper bound can be asserted.
    assert!(pages::in_use() <= pages::LIMIT && before <= pages::LIMIT);
}

#[test]
fn a_matrix_that_is_too_large_gets_no_code() {
    let coefficients = vec![7; 8 * 255];
    assert!(Code::new(&Shape { rows: 8, cols: 255, coefficients: &coefficients }).is_none());
}

/// A sum of bytes that depends on their order (FNV-1a, 64 bits).
fn digest(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The code for AVX-512 can be made, though not run, on every machine of this architecture: what
/// is made of some blocks and matrices stays as it is, byte for byte, whatever other generators
/// want of the parts that they share. A change on purpose writes the new numbers here: of the code
/// for processors that keep fetches into the second level apart, and for others.
#[test]
fn the_code_for_avx512_stays_as_it_is() {
    let (mut sums, mut made) = ([0xcbf2_9ce4_8422_2325; 2], 0);
    let mut halves = sums[0];
    let mut random = Random(21);
    for round in 0..40 {
        let (loads, terms) = (1 + random.below(20), 1 + random.below(24));
        let block = random_block(&mut random, loads, terms, 2 + round % 9);
        let opened = opened(&mut random, &block);
        for (variant, addressing) in forms() {
            let block = if addressing == Addressing::Listed { &opened } else { &block };
            let fetch = Fetch::rule(0, false, false);
            let make = |target: &'static avx512::Avx512| {
                call::assemble(target, (block, fetch), variant, addressing)
            };
            let bytes = target(variant, addressing).and_then(make).unwrap_or_default();
            if variant == CodeVariant::Half {
                halves = digest(halves, &bytes);
                continue;
            }
            sums = sums.map(|sum| digest(sum, &bytes));
            made += usize::from(!bytes.is_empty());
        }
        let coefficients: Vec<u8> = (0..loads * 4).map(|_| random.below(9) as u8 * 31).collect();
        let shape = Shape { rows: 4, cols: loads, coefficients: &coefficients };
        for (sum, apart) in sums.iter_mut().zip([true, false]) {
            let fetch = (round % 2 == 0).then(|| Fetch::product_rule(apart));
            *sum = digest(*sum, &emit::assemble(&shape, fetch).unwrap());
        }
    }
    assert_eq!(halves, 12_005_201_139_512_399_357);
    assert_eq!((sums, made), ([9_488_225_251_289_396_286, 2_789_836_134_172_429_473], 560));
}

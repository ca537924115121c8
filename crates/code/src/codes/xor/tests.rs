//! XOR codes against their sources: definitions, MDS, XOR counts, reads of a repair, packets.

use super::is_prime;
use crate::codes::{Choice, build, codec};
use crate::combinations::{combinations, others};
use crate::{Codec, RebuildMethod, Shape, passes::fuse, seed};

fn primes(range: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = usize> {
    range.filter(|&p| is_prime(p))
}

/// One byte a sub-chunk of a random codeword, by chunk.
fn word(spec: &str, seed: u64) -> Vec<Vec<u8>> {
    let code = build(&spec.parse().unwrap()).unwrap();
    let Shape { k, m, alpha } = code.shape();
    let mut state = seed;
    let mut word: Vec<Vec<u8>> =
        (0..k).map(|_| (0..alpha).map(|_| seed::next(&mut state) as u8).collect()).collect();
    let lost: Vec<usize> = (k..k + m).collect();
    let dag = code.emit(&Choice::new(RebuildMethod::Decode, &lost, (0..k).collect())).unwrap();
    let inputs: Vec<u8> =
        dag.inputs().iter().map(|at| word[at.chunk as usize][at.position as usize]).collect();
    let parity = dag.eval(&inputs).unwrap();
    word.extend(parity.chunks(alpha).map(<[u8]>::to_vec));
    word
}

/// EVENODD and STAR as their papers define them, on the array with its imaginary row of zeros.
#[test]
fn evenodd_and_star_are_their_definitions() {
    for (p, k) in primes(3..=13).flat_map(|p| (1..=p).map(move |k| (p, k))) {
        let word = word(&format!("star:{k}+3,p={p}"), 1);
        let cell = |row: usize, j: usize| if row < p - 1 && j < k { word[j][row] } else { 0 };
        let sum = |cells: &dyn Fn(usize) -> u8| (0..p).fold(0, |sum, j| sum ^ cells(j));
        let s1 = sum(&|j| cell((2 * p - 1 - j) % p, j));
        let s2 = sum(&|j| cell((p - 1 + j) % p, j));
        let of_rows = |value: &dyn Fn(usize) -> u8| (0..p - 1).map(value).collect::<Vec<u8>>();
        let diagonals = |i: usize| s1 ^ sum(&|j| cell((i + p - j) % p, j));
        let others = |i: usize| s2 ^ sum(&|j| cell((i + j) % p, j));
        assert_eq!(word[k], of_rows(&|i| sum(&|j| cell(i, j))), "{k}+3 p={p}");
        assert_eq!(word[k + 1], of_rows(&diagonals), "{k}+3 p={p}");
        assert_eq!(word[k + 2], of_rows(&others), "{k}+3 p={p}");
        let evenodd = self::word(&format!("evenodd:{k}+2,p={p}"), 1);
        assert_eq!(evenodd[..], word[..k + 2]);
    }
}

#[test]
fn rdp_is_its_definition() {
    for (p, k) in primes(3..=13).flat_map(|p| (1..p).map(move |k| (p, k))) {
        let word = word(&format!("rdp:{k}+2,p={p}"), 2);
        let column = |j: usize| match j {
            j if j < k => Some(&word[j]),
            j => (j == p - 1).then_some(&word[k]),
        };
        let cell = |row: usize, j: usize| match column(j) {
            Some(column) if row < p - 1 => column[row],
            _ => 0,
        };
        let row = |i: usize| (0..k).fold(0, |sum, j| sum ^ cell(i, j));
        let diagonal = |i: usize| (0..p).fold(0, |sum, j| sum ^ cell((i + p - j) % p, j));
        assert_eq!(word[k], (0..p - 1).map(row).collect::<Vec<u8>>(), "{k}+2 p={p}");
        assert_eq!(word[k + 1], (0..p - 1).map(diagonal).collect::<Vec<u8>>(), "{k}+2 p={p}");
    }
}

/// The paper's two encoding rules hold on the array, whichever columns the data came in.
#[test]
fn xcode_arrays_are_those_of_the_paper() {
    for (p, k) in primes(3..=13).flat_map(|p| (1..=p - 2).map(move |k| (p, k))) {
        let word = word(&format!("xcode:{k}+2,p={p}"), 3);
        let cell = |row: usize, j: usize| match j {
            j if j < k => word[j][row],
            j if j < p - 2 => 0,
            j => word[k + j + 2 - p][row],
        };
        for i in 0..p {
            let sum = |column: &dyn Fn(usize) -> usize| {
                (0..p - 2).fold(0, |sum, row| sum ^ cell(row, column(row) % p))
            };
            assert_eq!(cell(p - 2, i), sum(&|row| i + row + 2), "{k}+2 p={p}");
            assert_eq!(cell(p - 1, i), sum(&|row| i + 2 * p - row - 2), "{k}+2 p={p}");
        }
    }
}

/// Every loss of m chunks decodes: all legal parameters up to these sizes.
#[test]
fn every_small_code_is_mds() {
    let mut specs = vec![];
    for p in primes(3..=13) {
        specs.extend((1..=p).map(|k| format!("liberation:{k}+2,w={p}")));
        specs.extend((1..p).map(|k| format!("blaum-roth:{k}+2,w={}", p - 1)));
        specs.extend((1..=p).map(|k| format!("evenodd:{k}+2,p={p}")));
        specs.extend((1..p).map(|k| format!("rdp:{k}+2,p={p}")));
        specs.extend((1..=p - 2).map(|k| format!("xcode:{k}+2,p={p}")));
        specs.extend((1..=p.min(11)).map(|k| format!("star:{k}+3,p={p}")));
    }
    specs.extend((1..=8).map(|k| format!("liber8tion:{k}+2")));
    for matrix in ["orig", "good"] {
        let small = (2..=4).flat_map(|w| (2..=1 << w).map(move |n| (n, w)));
        for (n, w) in small.chain([(10, 5), (9, 6), (8, 7), (10, 8), (8, 11), (7, 16), (6, 32)]) {
            let most = (n - 1).min(if n > 12 { 2 } else { 4 });
            specs.extend((1..=most).map(|m| format!("cauchy:{}+{m},w={w},matrix={matrix}", n - m)));
        }
    }
    for spec in specs {
        assert_mds(&spec);
    }
}

fn assert_mds(spec: &str) {
    let code = build(&spec.parse().unwrap()).unwrap();
    let Shape { k, m, .. } = code.shape();
    let word = word(spec, 4);
    for lost in combinations(k + m, m) {
        let helpers = others(k + m, &lost);
        let choice = Choice::new(RebuildMethod::Decode, &lost, helpers);
        let dag = code.emit(&choice).unwrap_or_else(|error| panic!("{spec} {lost:?}: {error}"));
        let inputs: Vec<u8> =
            dag.inputs().iter().map(|at| word[at.chunk as usize][at.position as usize]).collect();
        let wanted: Vec<u8> = lost.iter().flat_map(|&chunk| word[chunk].clone()).collect();
        assert!(dag.eval(&inputs).unwrap() == wanted, "{spec} {lost:?}");
    }
}

/// Blaum-Roth with w = 7, which Ceph accepts, survives two losses up to k = 2 only.
#[test]
fn what_is_not_mds_is_refused() {
    assert_mds("blaum-roth:2+2,w=7");
    let error = build(&"blaum-roth:4+2,w=7".parse().unwrap()).err().unwrap().to_string();
    assert!(error.contains("[0, 2] together") && error.contains("prime"), "{error}");
}

/// XORs of an encode: the papers' formulas (Plank 2008, table of section 5; STAR section 4).
#[test]
fn encoding_takes_the_xors_of_the_papers() {
    let xors = |spec: String| {
        let plan = codec(&spec).encode_plan().unwrap();
        let fused = fuse(plan.dag()).unwrap();
        assert!(fused.work().1 <= plan.dag().work().1, "{spec}: fusing repeats no XOR");
        assert_eq!(plan.dag().work().0, 0, "{spec}: no multiplication");
        plan.dag().work().1
    };
    for p in primes(5..=17) {
        assert_eq!(xors(format!("rdp:{}+2", p - 1)), 2 * (p - 1) * (p - 2));
        assert_eq!(xors(format!("evenodd:{p}+2")), 2 * (p - 1) * (p - 1) + p - 2);
        assert_eq!(xors(format!("star:{p}+3")), 3 * (p - 1) * (p - 1) + 2 * (p - 2));
        // The bound k-1 a parity word, although data and parity have chunks of their own.
        assert_eq!(xors(format!("xcode:{}+2", p - 2)), 2 * p * (p - 3));
        for k in [2, p - 2, p] {
            assert_eq!(xors(format!("liberation:{k}+2,w={p}")), (2 * p + 1) * (k - 1));
        }
        assert_eq!(xors(format!("blaum-roth:{}+2", p - 1)), (2 * (p - 1) + 1) * (p - 2));
    }
    assert_eq!(xors("liber8tion:8+2".into()), 2 * 8 * 7 + 7);
    // The decoder of two data chunks is as cheap as the encoder where its source has it so.
    for (spec, bound) in [("rdp:10+2", 180), ("xcode:9+2", 176), ("liberation:11+2", 240)] {
        let codec = codec(spec);
        let plan = codec.decode_plan(&[0, 1], &others(codec.shape().n(), &[0, 1])).unwrap();
        assert!(plan.dag().work().1 <= bound, "{spec}: {} XORs", plan.dag().work().1);
    }
}

fn reads(spec: &str, lost: usize) -> usize {
    let codec = codec(spec);
    let plan = codec.repair_plan(&[lost], &others(codec.shape().n(), &[lost])).unwrap();
    plan.sub_chunks_read()
}

/// One lost chunk: RDP's 3/4 (Xiang et al. 2010, theorem 1), EVENODD's 3/4 + 1/(4p), and for
/// the others what the search finds, so that it does not get worse.
#[test]
fn single_repairs_read_the_known_optimum() {
    for p in primes(5..=19).chain([61]) {
        let spec = format!("rdp:{}+2", p - 1);
        for lost in [0, 1, p - 2, p - 1] {
            assert_eq!(reads(&spec, lost), 3 * (p - 1) * (p - 1) / 4, "{spec} {lost}");
        }
        let spec = format!("evenodd:{p}+2");
        assert!(reads(&spec, 1) <= (3 * p + 1) * (p - 1) / 4, "{spec}: {}", reads(&spec, 1));
    }
    for (spec, most) in [
        ("liberation:11+2", 92),
        ("blaum-roth:10+2", 73),
        ("liber8tion:8+2", 47),
        ("xcode:9+2", 72),
        ("star:11+3", 80),
    ] {
        assert!(reads(spec, 0) <= most, "{spec}: {}", reads(spec, 0));
    }
    // Without the second parity only rows are left, and decode says so.
    let codec = codec("rdp:10+2");
    let plan = codec.repair_plan(&[3], &others(11, &[3])).unwrap();
    assert_eq!(plan.strategy(), RebuildMethod::Decode);
}

/// Blocks of packets are coded alone, a last block that is shorter has shorter packets, and only
/// whole chunks are read.
#[test]
fn packets_are_blocks_coded_alone() {
    for spec in [
        "liberation:4+2,w=5", "cauchy:4+3,w=4", "liber8tion:3+2", "blaum-roth:4+2", "rdp:4+2,p=7",
        "evenodd:5+2,p=7", "star:3+3,p=5", "xcode:3+2,p=7",
    ] {
        let (packet, whole) = (codec(&format!("{spec},packet=16")), codec(spec));
        let Shape { k, m, alpha } = packet.shape();
        let (block, len) = (16 * alpha, 16 * alpha * 2 + alpha * 5);
        let mut state = 9;
        let data: Vec<Vec<u8>> =
            (0..k).map(|_| (0..len).map(|_| seed::next(&mut state) as u8).collect()).collect();
        let encode = |codec: &Codec, range: std::ops::Range<usize>| {
            let mut parity = vec![vec![0xa5; range.len()]; m];
            let sources: Vec<&[u8]> = data.iter().map(|c| &c[range.clone()]).collect();
            let mut results: Vec<&mut [u8]> = parity.iter_mut().map(|c| &mut c[..]).collect();
            codec.encode(&sources, &mut results).unwrap();
            parity
        };
        let parity = encode(&packet, 0..len);
        for start in (0..len).step_by(block) {
            let range = start..(start + block).min(len);
            let alone = encode(&whole, range.clone());
            assert!(parity.iter().zip(&alone).all(|(all, one)| all[range.clone()] == one[..]));
        }
        let plan = packet.repair_plan(&[1], &others(k + m, &[1])).unwrap();
        assert_eq!((plan.strategy(), plan.sub_chunks_read()), (RebuildMethod::Decode, k * alpha));
        let chunks: Vec<&[u8]> = data.iter().chain(&parity).map(|c| &c[..]).collect();
        let inputs: Vec<&[u8]> = plan.helpers().iter().map(|h| chunks[h.chunk]).collect();
        let mut rebuilt = vec![0x5a; len];
        plan.run(&inputs, &mut [&mut rebuilt]).unwrap();
        assert!(rebuilt == data[1], "{spec}");
        let mut short = vec![0; len - alpha];
        assert!(plan.run(&inputs, &mut [&mut short]).is_err());
    }
}

//! Butterfly codes against the recursive definition of their source.

use crate::combinations::{combinations, others};
use crate::{Codec, RebuildMethod, seed};

/// A column is its sub-chunks from top to bottom, one byte each.
type Column = Vec<u8>;

fn add(a: &[u8], b: &[u8]) -> Column {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn flipped(column: &[u8]) -> Column {
    column.iter().rev().copied().collect()
}

fn horizontal(columns: &[Column]) -> Column {
    columns[1..].iter().fold(columns[0].clone(), |sum, column| add(&sum, column))
}

/// The butterfly parity as the paper defines it: by halves, the lower one upside down.
fn butterfly(columns: &[Column]) -> Column {
    if columns.len() == 1 {
        return columns[0].clone();
    }
    let half = columns[0].len() / 2;
    let (a, b) = columns[0].split_at(half);
    let upper: Vec<Column> = columns[1..].iter().map(|c| c[..half].to_vec()).collect();
    let lower: Vec<Column> = columns[1..].iter().map(|c| flipped(&c[half..])).collect();
    let top = add(&flipped(b), &butterfly(&upper));
    let bottom = add(&add(a, &horizontal(&upper)), &butterfly(&lower));
    [top, flipped(&bottom)].concat()
}

fn codec(k: usize) -> Codec {
    Codec::new(&format!("butterfly:{k}+2").parse().unwrap()).unwrap()
}

/// All chunks of a random codeword, by the recursive definition.
fn codeword(k: usize) -> Vec<Column> {
    let mut state = k as u64;
    let mut column = || (0..1 << (k - 1)).map(|_| seed::next(&mut state) as u8).collect();
    let mut chunks: Vec<Column> = (0..k).map(|_| column()).collect();
    let parities = [horizontal(&chunks), butterfly(&chunks)];
    chunks.extend(parities);
    chunks
}

/// For every k up to 10: encode is the recursion, every loss of two chunks comes back.
#[test]
fn parities_follow_the_recursion_and_every_two_losses_decode() {
    for k in 1..=10 {
        let (codec, chunks) = (codec(k), codeword(k));
        assert_eq!(codec.shape().alpha, 1 << (k - 1));
        for lost in combinations(k + 2, 2) {
            let available = others(k + 2, &lost);
            let (_, dag) = codec.dag_of(&lost, &available).unwrap();
            let byte = |at: &crate::dag::At| chunks[at.chunk as usize][at.position as usize];
            let inputs: Vec<u8> = dag.inputs().iter().map(byte).collect();
            let wanted: Vec<u8> = dag.outputs().iter().map(|(at, _)| byte(at)).collect();
            assert!(dag.eval(&inputs).unwrap() == wanted, "k {k} lost {lost:?}");
            assert_eq!(dag.work().0, 0, "XOR only");
            let most = (2 * (k - 1)) << (k - 1);
            assert!(dag.work().1 <= most, "k {k} lost {lost:?}: {} XORs", dag.work().1);
        }
    }
}

/// Every chunk but the last from half of every other: the optimum of any MDS code (d = n-1).
#[test]
fn every_chunk_but_the_last_is_rebuilt_from_halves() {
    for k in 2..=10 {
        let (codec, chunks) = (codec(k), codeword(k));
        let alpha = codec.shape().alpha;
        for lost in 0..k + 2 {
            let (choice, dag) = codec.dag_of(&[lost], &others(k + 2, &[lost])).unwrap();
            let byte = |at: &crate::dag::At| chunks[at.chunk as usize][at.position as usize];
            let inputs: Vec<u8> = dag.inputs().iter().map(byte).collect();
            assert!(dag.eval(&inputs).unwrap() == chunks[lost], "k {k} lost {lost}");
            if lost == k + 1 {
                assert_eq!((choice.strategy, inputs.len()), (RebuildMethod::Decode, k * alpha));
                continue;
            }
            assert_eq!(choice.strategy, RebuildMethod::Repair);
            assert_eq!(dag.reads().len(), k + 1);
            assert!(dag.reads().iter().all(|helper| helper.sub_chunks() == alpha / 2));
            // A line or a row is k values: at most k-1 XORs an output beside the row sums.
            assert!(dag.work().1 <= 2 * (k - 1) * alpha, "k {k} lost {lost}");
        }
        // One helper fewer than all: nothing less than k whole chunks is enough (d = k).
        let plan = codec.repair_plan(&[0], &others(k + 2, &[0, 1])).unwrap();
        assert_eq!(plan.sub_chunks_read(), k * alpha);
    }
}

/// Encoding takes k-1 XORs a parity sub-chunk, the fewest there can be.
#[test]
fn encoding_takes_the_fewest_xors() {
    for k in 2..=12 {
        let plan = codec(k).encode_plan().unwrap();
        assert_eq!(plan.dag().work(), (0, (2 * (k - 1)) << (k - 1)));
    }
}

#[test]
fn the_largest_code_works_and_the_next_is_refused() {
    assert_eq!(codec(15).shape().alpha, 16_384);
    let error = Codec::new(&"butterfly:16+2".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("at most 15 data chunks"), "{error}");
    let error = "butterfly:10+3".parse::<crate::CodeSpec>().unwrap_err().to_string();
    assert!(error.contains("butterfly:10+2"), "{error}");
}

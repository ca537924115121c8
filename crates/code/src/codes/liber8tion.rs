//! The Liber8tion code (Plank, "The RAID-6 Liber8tion Code", IJHPCA 2009): m = 2, w = 8, at most 8
//! data chunks. The blocks of Q were found by search, so they are a table.

use super::CodeFamily;
use super::xor::{self, Equations, XorCode};
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{Result, Shape};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: NAME,
    about: "Liber8tion: two parities by XOR only, 8 sub-chunks a chunk, at most 8 data chunks",
    syntax: "liber8tion:k+2[,packet=BYTES]",
    example: "liber8tion:8+2",
    examples: &["liber8tion:3+2", "liber8tion:8+2"],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        check(words)?;
        let packet: Param = xor::take_packet(words)?;
        Ok(vec![packet])
    },
    build: |spec| Ok(Box::new(XorCode::new(equations(spec.k()), xor::packet(spec)))),
};

/// Refuses numbers of chunks that the code does not have.
pub(super) fn check(words: &Words<'_>) -> Result<()> {
    xor::only_parities(words, 2)?;
    match words.k {
        ..=W => Ok(()),
        k => {
            let reason =
                format!("liber8tion has 1 to {W} data chunks; for more take liberation:{k}+2");
            Err(words.bad("k", &k.to_string(), reason))
        }
    }
}

/// The equations for at most [`W`] data chunks.
pub(super) fn equations(k: usize) -> Equations {
    Equations::of_blocks(Shape { k, m: 2, alpha: W }, |r, j, l| match r {
        0 => vec![l],
        _ => (0..W).filter(|&column| BLOCKS[j][l] >> column & 1 == 1).collect(),
    })
}

pub(super) const NAME: &str = "liber8tion";

/// Sub-chunks a chunk, and data chunks at most.
pub(super) const W: usize = 8;

/// `BLOCKS[j][l]`: the set columns of row l of Q's block for data chunk j, bit c for column c.
#[rustfmt::skip]
const BLOCKS: [[u8; W]; W] = [
    [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80],
    [0x80, 0x08, 0x01, 0x04, 0xc0, 0x02, 0x20, 0x10],
    [0x40, 0x0c, 0x10, 0x01, 0x80, 0x08, 0x02, 0x20],
    [0x04, 0x20, 0x80, 0x40, 0x01, 0x18, 0x10, 0x02],
    [0x20, 0x40, 0x03, 0x80, 0x04, 0x10, 0x08, 0x01],
    [0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x05],
    [0x08, 0x01, 0x40, 0x20, 0x02, 0x80, 0x30, 0x04],
    [0x10, 0x80, 0x02, 0x22, 0x08, 0x04, 0x01, 0x40],
];

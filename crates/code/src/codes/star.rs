//! STAR (Huang and Xu, FAST 2005): EVENODD with a third parity along diagonals of the other slope.

use super::xor::{self, XorCode};
use super::{CodeFamily, evenodd};
use crate::spec::K_PLUS_M;

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "star",
    about: "STAR: three parities by XOR only, EVENODD with the other diagonals too",
    syntax: "star:k+3[,p=PRIME][,packet=BYTES]",
    example: "star:11+3",
    examples: &["star:3+3", "star:4+3,p=7", "star:5+3"],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 3)?;
        Ok(vec![xor::take_prime(words, "p", words.k)?, xor::take_packet(words)?])
    },
    build: |spec| Ok(Box::new(XorCode::new(evenodd::equations(spec, 3)?, xor::packet(spec)))),
};

//! Replication: every chunk is a copy.

use super::{Choice, Code, CodeFamily};
use crate::dag::{At, DagBuilder, Hint};
use crate::{Dag, Result, Shape, spec::ChunkNumbers};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "rep",
    about: "Replication: whole copies, cheapest to read and repair, most space",
    syntax: "rep:COPIES",
    example: "rep:3",
    examples: &["rep:2", "rep:3", "rep:5"],
    numbers: ChunkNumbers {
        count: |numbers| match *numbers {
            [1] => Err("one copy is no replication; e.g. rep:3".into()),
            [copies] => Ok((1, copies - 1)),
            _ => Err("the number after rep is how many copies there are, e.g. rep:3".into()),
        },
        of: |k, m| match k {
            1 => Ok(vec![m.saturating_add(1)]),
            _ => Err("copies have k = 1".into()),
        },
    },
    profile: None,
    resolve: |_| Ok(Vec::new()),
    build: |spec| Ok(Box::new(Replication { shape: Shape { k: 1, m: spec.m(), alpha: 1 } })),
};

struct Replication {
    shape: Shape,
}

impl Code for Replication {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn emit(&self, choice: &Choice) -> Result<Dag> {
        let at = |chunk: usize| At { chunk: chunk as u32, position: 0 };
        let mut builder = DagBuilder::new();
        let helper = choice.helpers[0];
        let copy = builder.input(at(helper), Hint { layer: 0, column: helper as u32 });
        for &lost in &choice.lost {
            builder.output(at(lost), copy);
        }
        builder.finish()
    }
}

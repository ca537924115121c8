//! Layers as they are numbered: Ceph's order, and that of the Clay paper.

use super::{OrderKind, no_arguments};

pub(super) const KIND: OrderKind = OrderKind {
    name: "natural",
    syntax: "natural",
    about: "layers as they are numbered, as Ceph stores them",
    is_gray: false,
    needs_text: false,
    canonical: no_arguments,
    make: |layers, _| Ok((0..layers.count() as u32).collect()),
};

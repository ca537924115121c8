//! The reflected Gray code for any base (paper section III-E, "BRGC" for q = 2).

use super::{Layers, OrderKind, no_arguments};

pub(super) const KIND: OrderKind = OrderKind {
    name: "gray",
    syntax: "gray",
    about: "reflected Gray code: the fewest runs over all nodes together, half of natural's for \
            q = 2; few for the first sections, many for the last",
    is_gray: true,
    canonical: no_arguments,
    make: |layers, _| Ok(reflected(layers)),
};

/// Digit y counts up and down in turn: it goes up while the number that the digits before it form
/// is even. So where a digit before it moves on, it stands still.
fn reflected(layers: &Layers) -> Vec<u32> {
    let (q, t) = (layers.q(), layers.t());
    let layer = |position: usize| {
        (0..t).fold(0, |layer, y| {
            let digit = layers.digit(position, y);
            let before = position / layers.weight(y) / q;
            layer * q + if before.is_multiple_of(2) { digit } else { q - 1 - digit }
        })
    };
    (0..layers.count()).map(|position| layer(position) as u32).collect()
}

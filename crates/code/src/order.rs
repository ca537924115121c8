//! Orders of the layers along a chunk (Ma et al., "Repair I/O Optimization for Clay Codes via
//! Gray-Code Based Sub-Chunk Reorganization in Ceph").
//!
//! A repair of one chunk reads the layers in which the lost node has its dot. How many reads that
//! takes depends on the order in which the layers lie along a chunk: an order in which neighbours
//! differ in one digit, a Gray code, needs the fewest over all nodes together (Theorem 2).
//!
//! The paper encodes in natural order and moves sub-chunks before they are written, and back after
//! they are read. Here an order *relabels*: the sub-chunk at position p of a chunk *is* layer
//! `order[p]`. No byte moves at write or read, data chunks stay the user's bytes, and the runs are
//! the same. To add an order: write `order/x.rs` and one row in [`ORDERS`].

mod layers;
mod gray;
mod list;
mod natural;
mod recursive;
mod smooth;
mod balanced;
mod weights;
mod fewest;
mod runs;

#[cfg(test)]
mod battery;
#[cfg(test)]
mod tests;

pub(crate) use layers::LAYERS_MAX;
pub use layers::Layers;

use crate::{CodeError, Result};

/// One way to order layers: its name in a spec, and how to make it.
#[derive(Debug)]
pub struct OrderKind {
    /// The word in a spec, before any colon.
    pub name: &'static str,
    /// Syntax of the value of `order=`.
    pub syntax: &'static str,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// True if neighbours always differ in one digit, so that the sum of runs is the least.
    pub is_gray: bool,
    /// True if the name alone means nothing.
    pub needs_text: bool,
    /// Canonical text after the colon, complete and in the one way it is written; empty if nothing.
    pub(crate) canonical: fn(&str) -> Result<String, String>,
    /// The layer of every position, from canonical arguments.
    pub(crate) make: fn(&Layers, &str) -> Result<Vec<u32>, String>,
}

/// All orders; the first is the default.
pub static ORDERS: &[OrderKind] =
    &[natural::KIND, gray::KIND, fewest::KIND, balanced::KIND, recursive::KIND, list::KIND];

/// For orders that take no arguments.
fn no_arguments(arguments: &str) -> Result<String, String> {
    match arguments {
        "" => Ok(String::new()),
        _ => Err("it takes nothing after its name".into()),
    }
}

/// The kind that an order's text names, and its canonical arguments.
fn parse(text: &str) -> Result<(&'static OrderKind, String), CodeError> {
    let bad = |reason| CodeError::BadOrder { order: shorten(text), reason };
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let kind = ORDERS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<&str> = ORDERS.iter().map(|kind| kind.name).collect();
        bad(format!("no such order; known: {}", known.join(", ")))
    })?;
    Ok((kind, (kind.canonical)(arguments).map_err(bad)?))
}

/// The one way in which an order is written, e.g. in a shard.
/// Errors: no such order, or arguments that it does not take.
pub(crate) fn canonical(text: &str) -> Result<String> {
    let (kind, arguments) = parse(text)?;
    Ok(match arguments.is_empty() {
        true => kind.name.into(),
        false => format!("{}:{arguments}", kind.name),
    })
}

/// Long enough to be known again, short enough for a line.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

/// An order: which layer lies at which position of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    name: String,
    layers: Vec<u32>,
    positions: Vec<u32>,
}

impl Order {
    /// The order that a spec's `order=` names.
    ///
    /// # Errors
    /// No such order, or one that these layers do not have.
    pub fn new(layers: &Layers, text: &str) -> Result<Order> {
        let (kind, arguments) = parse(text)?;
        let bad = |reason| CodeError::BadOrder { order: shorten(text), reason };
        let list = (kind.make)(layers, &arguments).map_err(bad)?;
        Order::named(layers, canonical(text)?, list)
    }

    /// An order from a list: the layer of every position. It gets the name of the order that has
    /// this list, or one that spells it out.
    ///
    /// # Errors
    /// The list is not a permutation of the layers, or too long to be carried by a spec.
    pub fn from_list(layers: &Layers, list: Vec<u32>) -> Result<Order> {
        for plain in ["natural", "gray", "fewest", "balanced"] {
            let order = Order::new(layers, plain)?;
            if order.layers == list {
                return Ok(order);
            }
        }
        let order = Order::named(layers, list::KIND.name.into(), list)?;
        let text = list::pack(layers, &order.layers);
        if text.len() > list::TEXT_MAX {
            let reason = format!(
                "{} layers in this order take {} bytes in a spec, a shard has room for {}; orders \
                 that have a name are shorter, and those whose neighbours differ in one digit",
                layers.count(),
                text.len(),
                list::TEXT_MAX
            );
            return Err(CodeError::BadOrder { order: order.name, reason });
        }
        Ok(Order { name: format!("{}:{text}", list::KIND.name), ..order })
    }

    fn named(layers: &Layers, name: String, list: Vec<u32>) -> Result<Order> {
        let bad = |reason| CodeError::BadOrder { order: shorten(&name), reason };
        let positions = positions(&list, layers.count()).map_err(bad)?;
        Ok(Order { name, layers: list, positions })
    }

    /// Returns what comes after `order=` in a spec.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The layer of every position.
    pub fn layers(&self) -> &[u32] {
        &self.layers
    }

    /// The position of every layer.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The position of a layer, if there is such a layer.
    pub fn position(&self, layer: usize) -> Option<usize> {
        self.positions.get(layer).map(|&position| position as usize)
    }
}

/// The position of every layer, or why the list is no permutation of `count` layers.
fn positions(list: &[u32], count: usize) -> Result<Vec<u32>, String> {
    if list.len() != count {
        return Err(format!("it lists {} layers, the code has {count}", list.len()));
    }
    let mut positions = vec![u32::MAX; count];
    for (position, &layer) in list.iter().enumerate() {
        match positions.get_mut(layer as usize) {
            None => return Err(format!("there is no layer {layer}, the last is {}", count - 1)),
            Some(known) if *known != u32::MAX => {
                return Err(format!("layer {layer} is there twice"));
            }
            Some(known) => *known = position as u32,
        }
    }
    Ok(positions)
}

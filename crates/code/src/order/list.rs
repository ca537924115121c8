//! An order written out, so that a shard that carries its spec can be read without any file.
//!
//! The text is one large number in base 64, least digit first. The number is made of small ones by
//! mixed radix: first 0 or 1, then, for 0, the first layer, and for every further one which of its
//! predecessor's neighbours it is, among those that have not been yet; for 1, which of all layers
//! that have not been yet. Neighbours differ in one digit, so 0 is for Gray codes and takes about
//! two bits a layer; 1 takes the least that any permutation needs. That holds every order of up to
//! 625 layers, and Gray codes of up to about 2,000.

use super::{Layers, OrderKind, positions};

pub(super) const KIND: OrderKind = OrderKind {
    name: "list",
    syntax: "list:TEXT, or the name of a file that lists all layers",
    about: "any order that a file lists, packed into the spec, so that shards need no file",
    is_gray: false,
    needs_text: true,
    canonical: |text| match text.is_empty() || text.bytes().any(|byte| value_of(byte).is_none()) {
        true => Err("what follows 'list:' is written by kiln from a file with all layers".into()),
        false => Ok(text.into()),
    },
    make: unpack,
};

/// The longest text: with a spec's other parameters it fits into 1024 bytes.
pub(super) const TEXT_MAX: usize = 940;

const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn value_of(sign: u8) -> Option<u8> {
    SIGNS.iter().position(|&known| known == sign).map(|value| value as u8)
}

/// A whole number of any size, in base 64, least digit first, without zeros at the end.
struct Large(Vec<u8>);

impl Large {
    /// self * factor + term
    fn push(&mut self, factor: usize, term: usize) {
        let mut carry = term;
        for digit in &mut self.0 {
            carry += usize::from(*digit) * factor;
            *digit = (carry % 64) as u8;
            carry /= 64;
        }
        while carry > 0 {
            self.0.push((carry % 64) as u8);
            carry /= 64;
        }
    }

    /// Divides by `divisor`, giving the remainder.
    fn pop(&mut self, divisor: usize) -> usize {
        let mut rest = 0;
        for digit in self.0.iter_mut().rev() {
            let part = rest * 64 + usize::from(*digit);
            *digit = (part / divisor) as u8;
            rest = part % divisor;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest
    }
}

/// The layers that have not been yet and may come next.
fn free(layers: &Layers, is_gray: bool, before: Option<u32>, been: &[bool]) -> Vec<u32> {
    let Some(before) = before.filter(|_| is_gray) else {
        return (0..been.len() as u32).filter(|&layer| !been[layer as usize]).collect();
    };
    let mut free = Vec::new();
    for y in 0..layers.t() {
        let (weight, digit) = (layers.weight(y), layers.digit(before as usize, y));
        let neighbour = |x: usize| before as usize - digit * weight + x * weight;
        let others = (0..layers.q()).filter(|&x| x != digit).map(neighbour);
        free.extend(others.filter(|&layer| !been[layer]).map(|layer| layer as u32));
    }
    free
}

/// The digits of the number with their radices, or nothing when a step is to no neighbour.
fn digits(layers: &Layers, list: &[u32], is_gray: bool) -> Option<Vec<(usize, usize)>> {
    let mut been = vec![false; layers.count()];
    let mut digits = vec![(2, usize::from(!is_gray))];
    let mut before = None;
    for &layer in list {
        let free = free(layers, is_gray, before, &been);
        digits.push((free.len(), free.iter().position(|&other| other == layer)?));
        been[layer as usize] = true;
        before = Some(layer);
    }
    Some(digits)
}

/// The text of an order; it may be longer than a spec can hold.
pub(super) fn pack(layers: &Layers, list: &[u32]) -> String {
    let digits = digits(layers, list, true).or_else(|| digits(layers, list, false));
    let mut number = Large(Vec::new());
    for &(radix, digit) in digits.unwrap_or_default().iter().rev() {
        number.push(radix, digit);
    }
    match number.0.is_empty() {
        true => "A".into(),
        false => number.0.iter().map(|&digit| char::from(SIGNS[usize::from(digit)])).collect(),
    }
}

fn unpack(layers: &Layers, text: &str) -> Result<Vec<u32>, String> {
    let wrong = || "it is not the text of an order of this code".to_owned();
    if text.len() > TEXT_MAX {
        return Err(format!("{} bytes long, the limit is {TEXT_MAX}", text.len()));
    }
    let mut number = Large(text.bytes().filter_map(value_of).collect());
    let is_gray = number.pop(2) == 0;
    let mut been = vec![false; layers.count()];
    let mut list = Vec::with_capacity(layers.count());
    for _ in 0..layers.count() {
        let free = free(layers, is_gray, list.last().copied(), &been);
        if free.is_empty() {
            return Err(wrong());
        }
        let layer = free[number.pop(free.len())];
        been[layer as usize] = true;
        list.push(layer);
    }
    positions(&list, layers.count())?;
    // One order, one text: what is left over, or zeros at the end, would be another text.
    if !number.0.is_empty() || pack(layers, &list) != text { Err(wrong()) } else { Ok(list) }
}

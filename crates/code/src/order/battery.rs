//! Tests that hold for every row of [`ORDERS`], whatever the code.

use super::{Layers, ORDERS, Order, canonical};

/// Every (k, m, q) with n <= 24 and at most `most` layers.
pub(super) fn grids(most: usize) -> Vec<(usize, usize, usize)> {
    let mut grids = Vec::new();
    for n in 2..=24_usize {
        for m in 1..n {
            for q in 1..=m {
                let t = n.div_ceil(q) as u32;
                if q.checked_pow(t).is_some_and(|count| count <= most) {
                    grids.push((n - m, m, q));
                }
            }
        }
    }
    grids
}

fn digits_that_differ(layers: &Layers, a: u32, b: u32) -> usize {
    let differs = |&y: &usize| layers.digit(a as usize, y) != layers.digit(b as usize, y);
    (0..layers.t()).filter(differs).count()
}

#[test]
fn every_order_is_a_permutation_and_keeps_its_word() {
    for (k, m, q) in grids(256) {
        let layers = Layers::new(k, m, q).unwrap();
        for kind in ORDERS.iter().filter(|kind| !kind.needs_text) {
            let order = Order::new(&layers, kind.name).unwrap();
            assert_eq!(order.layers().len(), layers.count(), "{} {k}+{m} q={q}", kind.name);
            for (position, &layer) in order.layers().iter().enumerate() {
                assert_eq!(order.position(layer as usize), Some(position));
            }
            let mut steps = order.layers().windows(2);
            let single = steps.all(|pair| digits_that_differ(&layers, pair[0], pair[1]) == 1);
            assert!(single || !kind.is_gray, "{} {k}+{m} q={q}", kind.name);
        }
    }
}

#[test]
fn names_are_canonical_and_unknown_ones_list_the_known() {
    for kind in ORDERS.iter().filter(|kind| !kind.needs_text) {
        let name = canonical(kind.name).unwrap();
        assert_eq!(canonical(&name).unwrap(), name);
        let layers = Layers::new(4, 2, 2).unwrap();
        assert_eq!(Order::new(&layers, kind.name).unwrap().name(), name);
    }
    let error = canonical("spiral").unwrap_err().to_string();
    assert!(error.contains("natural, gray, fewest"), "{error}");
    for bad in ["gray:up", "gray:1.", "gray:0/1", "natural:1", "gray:+1"] {
        assert!(canonical(bad).is_err(), "{bad}");
    }
    assert_eq!(canonical("gray:02.0.1/3-0").unwrap(), "gray:2.0.1/3-0");
}

#[test]
fn lists_are_checked() {
    let layers = Layers::new(2, 2, 2).unwrap();
    for bad in [vec![], vec![0, 1, 2], vec![0, 1, 2, 2], vec![0, 1, 2, 4]] {
        let error = Order::from_list(&layers, bad).unwrap_err().to_string();
        assert!(error.contains("layer"), "{error}");
    }
    assert_eq!(Order::from_list(&layers, vec![3, 0, 2, 1]).unwrap().positions(), [1, 3, 2, 0]);
}

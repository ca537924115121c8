//! The paper's lemmas, theorems and tables, and what goes beyond them, against brute force.

use super::{Layers, Order, recursive::cube_paths, weights};
use crate::{Codec, combinations::combinations, seed};
use proptest::prelude::*;

fn layers(k: usize, m: usize, q: usize) -> Layers {
    Layers::new(k, m, q).unwrap()
}

fn order(layers: &Layers, text: &str) -> Order {
    Order::new(layers, text).unwrap()
}

fn runs(layers: &Layers, text: &str) -> Vec<usize> {
    order(layers, text).runs(layers)
}

/// Any permutation, without a name.
fn any_order(layers: &Layers, list: Vec<u32>) -> Order {
    Order::named(layers, "list".into(), list).unwrap()
}

fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let (mut list, mut state) = ((0..count as u32).collect::<Vec<_>>(), seed);
    for at in 1..count {
        list.swap(at, (seed::next(&mut state) % (at as u64 + 1)) as usize);
    }
    list
}

/// Calls `see` with every permutation of `list` (Heap's algorithm).
fn permutations(list: &mut Vec<u32>, k: usize, see: &mut impl FnMut(&[u32])) {
    if k <= 1 {
        return see(list);
    }
    for i in 0..k {
        permutations(list, k - 1, see);
        list.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
    }
}

/// Section III-B: 8 layers have 144 permutations of S_total = 10, 4 layers 8 of 5, none has less;
/// section III-D: they are the Gray codes.
#[test]
fn brute_force_finds_the_papers_numbers() {
    for (layers, s_min, count) in [(layers(4, 2, 2), 10, 144), (layers(2, 2, 2), 5, 8)] {
        let (mut least, mut found) = (usize::MAX, 0);
        let mut list: Vec<u32> = (0..layers.count() as u32).collect();
        permutations(&mut list.clone(), list.len(), &mut |list| {
            let order = any_order(&layers, list.to_vec());
            let total: usize = order.runs(&layers).iter().sum();
            let is_gray = list.windows(2).all(|pair| (pair[0] ^ pair[1]).is_power_of_two());
            assert_eq!(is_gray, total == s_min);
            if total < least {
                (least, found) = (total, 0);
            }
            found += usize::from(total == least);
        });
        assert_eq!((least, found), (s_min, count));
        assert_eq!(cube_paths(layers.t()).len() * layers.count(), count);
        list.clear();
    }
}

proptest! {
    /// Lemmas 1 and 2, theorem 1: the flips of a digit are the runs of its section's nodes.
    #[test]
    fn flips_are_runs(index in 0_usize..6, seed: u64) {
        let (k, m, q) = [(4, 2, 2), (6, 3, 3), (4, 4, 4), (10, 4, 2), (9, 3, 3), (6, 2, 2)][index];
        let layers = layers(k, m, q);
        let order = any_order(&layers, shuffled(layers.count(), seed));
        let runs = order.runs(&layers);
        let flips = order.flips(&layers);
        for (y, &count) in flips.iter().enumerate() {
            let chunks = (0..q).filter_map(|x| layers.chunk_of(x, y));
            let section: usize = chunks.map(|chunk| runs[chunk]).sum();
            prop_assert_eq!(section, count);
        }
        prop_assert_eq!(runs.iter().sum::<usize>(), flips.iter().sum::<usize>());
        // Lemma 3, theorem 2: never below S_min, and at it only with one flip a step.
        let mut steps = order.layers().windows(2);
        let single = |pair: &[u32]| {
            let differs = |&y: &usize| {
                layers.digit(pair[0] as usize, y) != layers.digit(pair[1] as usize, y)
            };
            (0..layers.t()).filter(differs).count() == 1
        };
        let is_gray = steps.all(single);
        prop_assert!(runs.iter().sum::<usize>() >= layers.s_min());
        prop_assert_eq!(is_gray, runs.iter().sum::<usize>() == layers.s_min());
    }

    /// Runs are what `reads` lists, for one chunk; for two, their layers and no others.
    #[test]
    fn reads_are_runs(seed: u64, a in 0_usize..12, b in 0_usize..12) {
        let layers = layers(9, 3, 3);
        let order = any_order(&layers, shuffled(81, seed));
        prop_assert_eq!(order.reads(&layers, &[a]).len(), order.runs(&layers)[a]);
        let read: usize = order.reads(&layers, &[a, b]).iter().map(|run| run.len()).sum();
        let (node, other) = (layers.node_of(a).unwrap(), layers.node_of(b).unwrap());
        let both = match (a == b, node.1 == other.1) {
            (true, _) => 27,
            (_, true) => 54,
            _ => 27 + 27 - 9,
        };
        prop_assert_eq!(read, both);
    }

    /// Orders from files go into a spec and come back.
    #[test]
    fn lists_come_back(seed: u64, index in 0_usize..5) {
        let (k, m, q) = [(1, 1, 2), (4, 2, 2), (9, 3, 3), (10, 4, 4), (16, 2, 2)][index];
        let layers = layers(k, m, q);
        let list = shuffled(layers.count(), seed);
        let order = Order::from_list(&layers, list.clone()).unwrap();
        prop_assert!(order.name().len() <= 950);
        let back = Order::new(&layers, order.name()).unwrap();
        prop_assert_eq!(back.layers(), &list[..]);
    }

    /// No text makes an order panic, and what is accepted is written in one way.
    #[test]
    fn no_text_makes_an_order_panic(text in "(list|gray|recursive|)[:A-Za-z0-9_./-]{0,40}") {
        let layers = layers(4, 2, 2);
        if let Ok(order) = Order::new(&layers, &text) {
            let again = Order::new(&layers, order.name()).unwrap();
            prop_assert_eq!(again, order);
        }
    }
}

/// Tables III and IV of the paper. Its balanced codes are not printed in full: ours are as even.
#[test]
fn paper_tables_3_and_4() {
    let six = layers(6, 2, 2);
    assert_eq!(runs(&six, "natural"), [1, 1, 2, 2, 4, 4, 8, 8]);
    assert_eq!(runs(&six, "gray"), [1, 1, 2, 1, 3, 2, 5, 4]);
    let papers = vec![1, 3, 7, 5, 4, 12, 14, 6, 2, 10, 11, 15, 13, 9, 8, 0];
    assert_eq!(any_order(&six, papers).runs(&six), [3, 2, 3, 2, 3, 2, 2, 2]);
    let balanced = runs(&six, "balanced");
    assert!(balanced.iter().all(|runs| (2..=3).contains(runs)), "{balanced:?}");
    assert_eq!(balanced.iter().sum::<usize>(), 19);

    let layers = layers(16, 2, 2);
    let seq: Vec<usize> = (0..18).map(|i| 1 << (i / 2)).collect();
    let brgc = [1, 1, 2, 1, 3, 2, 5, 4, 9, 8, 17, 16, 33, 32, 65, 64, 129, 128];
    let special1 = [1, 1, 2, 1, 3, 2, 5, 4, 9, 8, 17, 16, 33, 32, 117, 117, 76, 76];
    let special2 = [1, 1, 2, 1, 3, 2, 5, 4, 9, 8, 17, 16, 72, 71, 66, 65, 89, 88];
    assert_eq!(runs(&layers, "natural"), seq);
    assert_eq!(runs(&layers, "gray"), brgc);
    assert_eq!(runs(&layers, "recursive:4:2:165"), special1);
    assert_eq!(runs(&layers, "recursive:128004:3"), special2);
    let balanced = runs(&layers, "balanced");
    assert!(balanced.iter().all(|runs| (28..=30).contains(runs)), "{balanced:?}");
    let totals = |text| runs(&layers, text).iter().sum::<usize>();
    assert_eq!((totals("natural"), layers.s_seq()), (1022, 1022));
    for text in ["gray", "recursive:4:2:165", "recursive:128004:3", "balanced"] {
        assert_eq!((totals(text), layers.s_min()), (520, 520), "{text}");
    }
}

/// Figures 3 and 4, table II, experiment 4 and section III-F.
#[test]
fn papers_other_numbers() {
    let four = layers(4, 2, 2);
    let bad = any_order(&four, vec![2, 5, 0, 7, 4, 3, 6, 1]);
    assert_eq!(bad.runs(&four), [4, 3, 3, 3, 4, 4]);
    assert_eq!(order(&four, "gray").flips(&four), [2, 3, 5]);
    let nine = layers(9, 3, 3);
    assert_eq!(runs(&nine, "natural")[9..], [27, 27, 27]);
    assert_eq!(runs(&nine, "gray")[9..], [14, 27, 14]);
    let share = |k, m| layers(k, m, m).least_share();
    assert!((share(9, 3) - 0.70).abs() < 0.001);
    for (k, m, reduction) in [(16, 2, 0.491), (16, 4, 0.246), (15, 5, 0.195)] {
        assert!((1.0 - share(k, m) - reduction).abs() < 0.0005, "{k}+{m}");
        let limit = layers(k, m, m).share_limit();
        assert!(share(k, m) > limit && share(k, m) - limit < 0.02);
    }
    for (k, m, q) in super::battery::grids(4096) {
        let layers = layers(k, m, q);
        let natural: usize = runs(&layers, "natural").iter().sum();
        assert_eq!(natural, layers.s_seq());
        if q > 1 && (k + m) % q == 0 {
            let (n, q_t) = ((k + m) as f64, layers.count() as f64);
            let base = q as f64;
            assert_eq!(layers.s_seq() as f64, base * (q_t - 1.0) / (base - 1.0)); // equation 3
            let eq8 = n * (base - 1.0) / (base * base * (q_t - 1.0)) + (base - 1.0) / base;
            assert!((layers.least_share() - eq8).abs() < 1e-9, "{k}+{m} q={q}");
        }
    }
}

/// The recursion of Fig. 8 gives 4 of the 18 best orders of 8 layers that begin with layer 0, as
/// it gives 32 of all 144; with all best orders of 8 layers as its beginning it gives all 18.
#[test]
fn recursion_reaches_what_the_paper_says() {
    let four = layers(4, 2, 2);
    for (base, count) in [(2, 4), (3, 18)] {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..400 {
            seen.insert(order(&four, &format!("recursive:{seed}:{base}")).layers().to_vec());
        }
        assert_eq!(seen.len(), count);
        let wanted = [[0, 1, 3, 2, 6, 4, 5, 7], [0, 1, 3, 2, 6, 7, 5, 4]];
        assert!(wanted.iter().all(|list| seen.contains(&list[..])), "Fig. 8");
    }
}

/// The least weighted sum of runs over all orders, by dynamic programming over sets of layers.
fn exact(layers: &Layers, weights: &[Vec<f64>]) -> f64 {
    let count = layers.count();
    let dots = |z: usize| (0..layers.t()).map(move |y| (y, layers.digit(z, y)));
    let price = |from: usize, to: usize| -> f64 {
        dots(to).filter(|&(y, x)| layers.digit(from, y) != x).map(|(y, x)| weights[y][x]).sum()
    };
    let prices: Vec<f64> = (0..count * count).map(|i| price(i / count, i % count)).collect();
    let mut best = vec![f64::INFINITY; count << count];
    for z in 0..count {
        best[(1 << z) * count + z] = dots(z).map(|(y, x)| weights[y][x]).sum();
    }
    for set in 1_usize..1 << count {
        for last in (0..count).filter(|last| set >> last & 1 == 1) {
            let cost = best[set * count + last];
            for next in (0..count).filter(|next| set >> next & 1 == 0) {
                let there = &mut best[(set | 1 << next) * count + next];
                *there = there.min(cost + prices[last * count + next]);
            }
        }
    }
    let all = (1 << count) - 1;
    best[all * count..].iter().copied().fold(f64::INFINITY, f64::min)
}

/// If virtual nodes need no reads, `fewest` is the best of all orders, by exact search where
/// that is possible, by the proof in `fewest.rs` elsewhere; never worse than `gray`.
#[test]
fn fewest_is_the_least_there_is() {
    for (k, m, q) in [(1, 2, 2), (3, 2, 2), (1, 3, 3), (2, 3, 3), (1, 4, 4), (2, 4, 4), (3, 4, 4)] {
        let layers = layers(k, m, q);
        let stored = weights::by_node(&layers, |_| 1.0);
        assert_eq!(exact(&layers, &stored), layers.s_min() as f64, "{k}+{m} q={q}");
    }
    for (k, m, q) in super::battery::grids(16_384) {
        let layers = layers(k, m, q);
        let total = |text| runs(&layers, text).iter().sum::<usize>();
        let (fewest, gray) = (total("fewest"), total("gray"));
        let odd_pair = q % 2 == 1 && super::fewest::short_sections(&layers).len() == 2;
        assert_eq!(fewest, layers.s_min() + usize::from(odd_pair), "{k}+{m} q={q}");
        assert!(fewest <= gray);
        if (k + m) % q == 0 {
            assert_eq!(fewest, gray);
            assert_eq!(fewest, layers.count() + layers.t() - 1);
        }
    }
    // Beyond the paper's bound of one q-th: 10+4 with 13 helpers.
    let layers = layers(10, 4, 4);
    assert_eq!(
        (layers.s_seq(), runs(&layers, "gray").iter().sum(), layers.s_min()),
        (308, 235, 131)
    );
}

/// S_total = S_min for `balanced` too, and no two nodes differ by more than one run.
#[test]
fn balanced_is_even_and_least_where_the_grid_is_full() {
    for (k, m, q) in super::battery::grids(16_384) {
        // The order depends on the grid alone: of all k + m one is enough.
        if q < 2 || (k + m) % q != 0 || m != q.max((k + m) / 2) {
            continue;
        }
        let layers = layers(k, m, q);
        let runs = runs(&layers, "balanced");
        assert_eq!(runs.iter().sum::<usize>(), layers.s_min(), "{k}+{m} q={q}");
        let (low, high) = (runs.iter().min().unwrap(), runs.iter().max().unwrap());
        assert!(high - low <= 1, "{k}+{m} q={q}: {low} to {high}");
    }
}

/// If the chunks of each section weigh the same, no order is better than `weighted`; else it is
/// no worse than others that have names, and not below the bound.
#[test]
fn weighted_orders_are_the_best() {
    let mut state = 5;
    for (k, m, q) in [(2, 2, 2), (4, 2, 2), (5, 2, 2), (6, 2, 2), (3, 3, 3), (4, 4, 4)] {
        let layers = layers(k, m, q);
        for round in 0..6 {
            let of_section: Vec<f64> =
                (0..layers.t()).map(|_| (seed::next(&mut state) % 20) as f64).collect();
            let of_chunk: Vec<f64> = (0..k + m)
                .map(|chunk| match round % 2 {
                    0 => of_section[layers.node_of(chunk).unwrap().1],
                    _ => (seed::next(&mut state) % 20) as f64,
                })
                .collect();
            let best = Order::weighted(&layers, &of_chunk).unwrap();
            let total = |order: &Order| order.weighted_total(&layers, &of_chunk).unwrap();
            let by_node = weights::by_node(&layers, |chunk| of_chunk[chunk]);
            let least = exact(&layers, &by_node);
            assert!(layers.weighted_bound(&of_chunk).unwrap() <= least + 1e-9);
            assert!(total(&best) >= least - 1e-9);
            if round % 2 == 0 && (k + m) % q == 0 {
                assert!((total(&best) - least).abs() < 1e-9, "{k}+{m} {of_chunk:?}");
            }
            for text in ["natural", "gray"] {
                assert!(total(&best) <= total(&order(&layers, text)) + 1e-9);
            }
            assert_eq!(order(&layers, best.name()), best);
        }
    }
    assert!(Order::weighted(&layers(4, 2, 2), &[1.0; 5]).is_err());
    assert!(Order::weighted(&layers(4, 2, 2), &[f64::NAN; 6]).is_err());
}

/// The sum over all pairs of lost chunks of the runs that hold the layers of either: a step that
/// changes h digits costs h (n - t) - h (h + 1) / 2 pairs, so Gray codes have the least of that sum
/// too, all the same.
#[test]
fn gray_codes_are_the_best_for_two_losses() {
    let pairs = |layers: &Layers, order: &Order| {
        let lost = combinations(layers.chunks(), 2);
        lost.map(|lost| order.reads(layers, &lost).len()).sum::<usize>()
    };
    for (k, m, q) in [(4, 2, 2), (6, 2, 2), (6, 3, 3), (4, 4, 4), (10, 4, 2)] {
        let layers = layers(k, m, q);
        let (n, t, alpha) = (k + m, layers.t(), layers.count());
        let choose = |n: usize| n * (n - 1) / 2;
        let least = (alpha - 1) * (n - t - 1) + choose(n) - choose(n - t);
        for text in ["gray", "balanced", "recursive:7"] {
            assert_eq!(pairs(&layers, &order(&layers, text)), least, "{text} {k}+{m}");
        }
        assert!(pairs(&layers, &order(&layers, "natural")) > least);
        for seed in 0..20 {
            assert!(pairs(&layers, &any_order(&layers, shuffled(alpha, seed))) >= least);
        }
    }
}

/// Stripes one behind the other: counted on the row of all their layers.
#[test]
fn runs_go_on_in_the_next_stripe() {
    for text in ["natural", "gray", "balanced", "fewest"] {
        let layers = layers(10, 4, 4);
        let order = order(&layers, text);
        for (stripes, turned) in [(1, false), (2, false), (2, true), (5, true), (6, true)] {
            let mut row = Vec::new();
            for stripe in 0..stripes {
                let mut list = order.layers().to_vec();
                if turned && stripe % 2 == 1 {
                    list.reverse();
                }
                row.extend(list);
            }
            let counted = order.runs_of_stripes(&layers, stripes, turned);
            for (chunk, &runs) in counted.iter().enumerate() {
                let (x, y) = layers.node_of(chunk).unwrap();
                let needed = |layer: u32| layers.digit(layer as usize, y) == x;
                let inside = row.windows(2).filter(|pair| !needed(pair[0]) && needed(pair[1]));
                assert_eq!(inside.count() + usize::from(needed(row[0])), runs, "{text} {chunk}");
            }
        }
    }
}

/// The counts of this module are what plans of the code read, helper by helper.
#[test]
fn plans_read_what_is_counted() {
    let codes = ["4+2", "6+3", "10+4", "10+4,d=11", "10+4,d=12", "9+3", "7+6,d=10", "16+2"];
    for code in codes {
        for text in ["natural", "gray", "fewest", "balanced", "recursive:3"] {
            let spec = format!("clay:{code},order={text}");
            let codec = Codec::new(&spec.parse().unwrap()).unwrap();
            let layers = codec.layers().unwrap();
            let order = Order::new(layers, codec.order()).unwrap();
            let n = codec.shape().n();
            for lost in (0..n).step_by(if n > 12 { 3 } else { 1 }) {
                let available: Vec<usize> = (0..n).filter(|&chunk| chunk != lost).collect();
                let (_, dag) = codec.dag_of(&[lost], &available).unwrap();
                let wanted = order.reads(layers, &[lost]);
                for helper in dag.reads() {
                    let same = helper.runs.iter().map(|r| r.start as usize..r.end as usize);
                    assert!(same.eq(wanted.iter().cloned()), "{spec} lost {lost}");
                }
            }
        }
    }
}

/// Shards name their order: what a name means must never change. FNV-1a over all layers.
#[test]
fn what_a_name_means_never_changes() {
    let digest = |list: &[u32]| {
        let step =
            |hash: u64, layer: &u32| (hash ^ u64::from(*layer)).wrapping_mul(0x100_0000_01b3);
        list.iter().fold(0xcbf2_9ce4_8422_2325, step)
    };
    let mut got = Vec::new();
    for text in ["natural", "gray", "fewest", "balanced", "recursive", "recursive:9:3:40"] {
        let grids = [(6, 2, 2), (16, 2, 2), (10, 4, 4), (12, 4, 3), (7, 6, 4), (15, 5, 5)];
        let digests = grids.map(|(k, m, q)| {
            let layers = layers(k, m, q);
            digest(order(&layers, text).layers())
        });
        got.push((text, digests.iter().fold(0, |sum: u64, digest| sum.rotate_left(7) ^ digest)));
    }
    let wanted: [(&str, u64); 6] = [
        ("natural", 0x74ea_f873_48a3_bb85),
        ("gray", 0xb3c6_4cca_e74b_036c),
        ("fewest", 0x8a9f_bbcc_5a25_430b),
        ("balanced", 0xda2b_b04a_9b0a_946b),
        ("recursive", 0x1670_896e_75ef_f83f),
        ("recursive:9:3:40", 0x20a2_3582_5a0b_7beb),
    ];
    assert_eq!(got, wanted);
}

/// Orders that do not fit into a spec are refused, with the reason.
#[test]
fn long_lists_are_refused() {
    let large = layers(18, 4, 2); // 2048 layers
    let error = Order::from_list(&large, shuffled(2048, 1)).unwrap_err().to_string();
    assert!(error.contains("a shard has room for"), "{error}");
    // A Gray code of as many layers fits.
    let some = order(&large, "recursive:5");
    let listed = Order::from_list(&large, some.layers().to_vec()).unwrap();
    assert!(listed.name().starts_with("list:"), "{}", listed.name().len());
    assert_eq!(order(&large, listed.name()).layers(), some.layers());
    let any = layers(15, 5, 5); // 625 layers
    let listed = Order::from_list(&any, shuffled(625, 2)).unwrap();
    assert_eq!(order(&any, listed.name()).layers(), listed.layers());
    // A list that has a name gets it.
    let named = Order::from_list(&any, order(&any, "balanced").layers().to_vec()).unwrap();
    assert_eq!(named.name(), "balanced");
}

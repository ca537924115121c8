//! Reads with helpers: what they rebuild, what they fail at, and what they get wrong.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use kiln_pool::layout::{Body, Class};
use kiln_pool::{Degraded, GetReport, GetRequest, Helpers, Policy, Rebuilt};
use kiln_stripe::PoolError;

use crate::world::*;

/// Helpers that know the object, and how they go wrong.
struct Knowing<'a> {
    bytes: &'a [u8],
    /// Stripes after which they fail, and after which they lie.
    fails: u64,
    lies: u64,
    insists: bool,
    asked: RefCell<Vec<Degraded>>,
    given: Cell<u64>,
}

struct Giving<'a>(&'a Knowing<'a>, Degraded, u64);

impl Helpers for Knowing<'_> {
    fn begin(&self, ask: &Degraded) -> Result<Box<dyn Rebuilt + '_>, String> {
        self.asked.borrow_mut().push(ask.clone());
        Ok(Box::new(Giving(self, ask.clone(), ask.stripes.start)))
    }

    fn insists(&self) -> bool {
        self.insists
    }
}

impl Rebuilt for Giving<'_> {
    fn next(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let Giving(knowing, ask, stripe) = self;
        if knowing.given.get() >= knowing.fails {
            return Err("nobody is left".to_owned());
        }
        let layout = ask.info.layout().unwrap();
        let sub_len = layout.sub_len(*stripe);
        let start = (0..*stripe).map(|s| layout.stripe_bytes(s)).sum::<u64>() as usize;
        let part = |(chunk, run): &(usize, Range<u32>)| {
            let at = start + chunk * layout.chunk_len(*stripe) + run.start as usize * sub_len;
            let mut part = vec![0; run.len() * sub_len];
            let there = &knowing.bytes[at.min(knowing.bytes.len())..];
            let len = there.len().min(part.len());
            part[..len].copy_from_slice(&there[..len]);
            if knowing.given.get() >= knowing.lies {
                part[0] ^= 1;
            }
            part
        };
        let parts = ask.wanted.iter().map(part).collect();
        *stripe += 1;
        knowing.given.set(knowing.given.get() + 1);
        Ok(parts)
    }

    fn received(&self) -> u64 {
        1
    }

    fn strategy(&self) -> &str {
        "known"
    }
}

fn knowing(bytes: &[u8]) -> Knowing<'_> {
    let (asked, given) = (RefCell::default(), Cell::new(0));
    Knowing { bytes, fails: u64::MAX, lies: u64::MAX, insists: false, asked, given }
}

fn read(
    world: &World,
    helpers: &Knowing<'_>,
    range: Option<Range<u64>>,
) -> Result<(Vec<u8>, GetReport), PoolError> {
    let (mut out, req) = (Vec::new(), GetRequest { name: "x", range });
    let report = world.pool().reader().read_with(&req, Some(helpers), &mut out, &settings())?;
    Ok((out, report))
}

/// A pool with an object of which data chunk 1 is gone; its bytes.
fn world(len: usize, sub_chunk: u32) -> (World, Vec<u8>) {
    let class = Class { below: None, code: "clay:4+2".to_owned(), sub_chunk: Some(sub_chunk) };
    let policy = Policy { manifest_copies: 3, missing_at_put: 0, class: vec![class] };
    let mut world = World::with_policy(policy, 9);
    let bytes = data(len, 3);
    world.put("x", &bytes).unwrap();
    let Body::Shards(placed) = world.pool().manifest("x").unwrap().body else { unreachable!() };
    world.away.insert(world.config.position(&placed.places[1].node).unwrap());
    (world, bytes)
}

#[test]
fn helpers_are_asked_for_what_is_lost_and_for_no_more() {
    // Stripes of 2048 bytes, chunks of 512, sub-chunks of 64; the last stripe is short.
    let (world, bytes) = world(50_000, 64);
    for (range, wanted) in [
        (0..512, None),
        (512..513, Some((0..1, 0..1))),
        (2048 + 600..2048 + 900, Some((1..2, 1..7))),
        (512..4096 + 600, Some((0..2, 0..8))),
    ] {
        let helpers = knowing(&bytes);
        let (out, report) = read(&world, &helpers, Some(range.clone())).unwrap();
        assert!(out == bytes[range.start as usize..range.end as usize], "{range:?}");
        let asked = helpers.asked.borrow();
        assert_eq!(report.degraded, wanted.is_some());
        assert_eq!(report.strategy, if wanted.is_some() { "known" } else { "direct" });
        assert_eq!(report.bytes_received, report.bytes_read + asked.len() as u64);
        let Some((stripes, run)) = wanted else { continue };
        assert_eq!((&asked[0].stripes, &asked[0].wanted[..]), (&stripes, &[(1, run)][..]));
        assert!(asked[0].sources.len() == 5 && asked[0].here > 0, "{:?}", asked[0]);
    }
    // A whole object asks nobody who does not insist.
    let helpers = knowing(&bytes);
    assert!(read(&world, &helpers, None).unwrap().0 == bytes && helpers.asked.borrow().is_empty());
    let helpers = Knowing { insists: true, ..knowing(&bytes) };
    let (out, report) = read(&world, &helpers, None).unwrap();
    assert!(out == bytes && report.strategy == "known", "{report:?}");
}

#[test]
fn what_helpers_fail_at_is_decoded_here_once() {
    let (world, bytes) = world(50_000, 64);
    for fails in [0, 1, 7, 24] {
        let helpers = Knowing { fails, ..knowing(&bytes) };
        let (out, report) = read(&world, &helpers, Some(10..49_990)).unwrap();
        assert!(out == bytes[10..49_990], "{fails}");
        let strategy = if fails == 0 { "central" } else { "mixed" };
        assert_eq!((&report.strategy[..], report.notes.len()), (strategy, 1), "{report:?}");
        assert!(report.notes[0].contains("nobody is left"));
    }
}

#[test]
fn a_shard_that_is_not_what_was_recorded_is_not_handed_out_as_whole() {
    // Of one stripe: nothing was handed out, so it is decoded here.
    let (one, bytes) = world(30_000, 1024);
    let helpers = Knowing { lies: 0, insists: true, ..knowing(&bytes) };
    let (out, report) = read(&one, &helpers, None).unwrap();
    assert!(out == bytes && report.bytes_from_helpers == 0, "{report:?}");
    assert!(report.notes[0].contains("digest"), "{report:?}");
    // Of several: whoever got the first ones is told not to use them.
    let (several, bytes) = world(20_000, 64);
    let helpers = Knowing { lies: 3, insists: true, ..knowing(&bytes) };
    let error = read(&several, &helpers, None).unwrap_err();
    assert!(matches!(error, PoolError::Mismatch { index: 1, .. }), "{error}");
}

//! Code that an object gets: by its size.
//!
//! A code with many sub-chunks repairs with few bytes, but only when its sub-chunks are long enough
//! to be read at a disk's pace; a small object cut into thousands of pieces is all overhead. So, as
//! geometric partitioning does within an object, a pool gives small objects a simple code (or no
//! code at all: whole copies in the manifest) and large ones the code with the cheap repair.

use kiln_code::{Codec, Shape};
use kiln_store::{Digest, SumKind, segment_stripes};
use kiln_stripe::{PoolError, Result, default_sub_chunk, geometry::most_sub_chunk};
use serde::{Deserialize, Serialize};

use crate::Manifest;
use crate::layout::manifest::{MAX_COPIES, MAX_INLINE};
use crate::layout::{Body, DiskUsage, Place, Placed};

/// Most classes of sizes.
const MAX_CLASSES: usize = 16;
/// The code's name that means: in the manifest.
pub const INLINE: &str = "inline";
/// Limits of sizes are multiples of this: names that are longer than [`NAME`] then still fit.
const STEP: u64 = 1 << 10;
/// Bytes of an object's name and of a node's id that the cheapest representation is computed for.
const NAME: usize = 64;
const NODE_ID: usize = 8;
/// Below this a chunk of clay:10+4 has sub-chunks of less than 2 KiB, and reading a few of them
/// costs a disk as much as reading the chunk.
const PLAIN_BELOW: u64 = 4 << 20;
/// Sub-chunks of the plain code for objects below [`PLAIN_BELOW`]: what a short range read costs.
const PLAIN_SUB_CHUNK: u32 = 64 << 10;

/// The rules of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Nodes that hold a copy of each manifest: more than any code's m, so that the manifest
    /// survives whatever the data survives.
    pub manifest_copies: usize,
    /// Shards that a put may leave out because their nodes are unavailable; a repair adds them
    /// later.
    pub missing_at_put: usize,
    /// By size, the smallest first; the last one is for all that is larger.
    pub class: Vec<Class>,
}

/// A class of sizes and its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Objects of fewer bytes; `None` in the last class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<u64>,
    /// A code's spec, or `inline`.
    pub code: String,
    /// Bytes of a sub-chunk; `None` for the code's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_chunk: Option<u32>,
}

impl Class {
    /// Returns whether its objects lie in their manifests.
    pub fn is_inline(&self) -> bool {
        self.code == INLINE
    }
}

impl Policy {
    /// The usual rules around a code: the smallest objects in their manifests, as long as that
    /// takes no more bytes on disk than shards do, small ones by Reed-Solomon of the same k and m,
    /// the others by the code itself.
    /// Errors: the code is unknown or impossible.
    pub fn for_code(spec: &str) -> Result<Policy> {
        let codec = Codec::new(&spec.parse()?)?;
        let (spec, Shape { k, m, alpha }) = (codec.spec(), codec.shape());
        let mut class = Vec::new();
        // A code without sub-chunks has nothing that would get too small.
        if alpha > 1 {
            class.push(Class {
                below: Some(PLAIN_BELOW),
                code: format!("rs:{k}+{m}"),
                sub_chunk: Some(PLAIN_SUB_CHUNK),
            });
        }
        class.push(Class { below: None, code: spec.to_string(), sub_chunk: None });
        if let Some(below) = inline_below(m + 1, &class[0])? {
            class.insert(0, Class { below: Some(below), code: INLINE.into(), sub_chunk: None });
        }
        let missing_at_put = codec.margin(&[]) as usize / 2;
        let policy = Policy { manifest_copies: m + 1, missing_at_put, class };
        policy.check()?;
        Ok(policy)
    }

    /// The usual rules around another code, with no fewer copies of manifests than now: what is
    /// stored by the rules of now may need them.
    pub fn with_code(&self, spec: &str) -> Result<Policy> {
        let usual = Policy::for_code(spec)?;
        let manifest_copies = usual.manifest_copies.max(self.manifest_copies);
        Ok(Policy { manifest_copies, ..usual })
    }

    /// The class of an object of this size.
    pub fn class_of(&self, size: u64) -> &Class {
        let fits = |class: &&Class| class.below.is_none_or(|below| size < below);
        // A policy that was checked has a last class without a limit.
        self.class.iter().find(fits).unwrap_or(&self.class[self.class.len() - 1])
    }

    /// The size from which on all objects are of the last class.
    pub fn largest_limit(&self) -> u64 {
        self.class.iter().filter_map(|class| class.below).max().unwrap_or(0)
    }

    /// Refuses rules that cannot be kept.
    /// Errors: [`PoolError::Usage`] with the rule that is broken; the code's own reason.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(PoolError::Usage { what: format!("pool policy: {what}") });
        if self.class.is_empty() || self.class.len() > MAX_CLASSES {
            return wrong(format!("there must be 1 to {MAX_CLASSES} classes"));
        }
        let (mut last, mut most_m, mut most_margin) = (0, 0, 0);
        for (at, class) in self.class.iter().enumerate() {
            match (class.below, at + 1 == self.class.len()) {
                (None, true) => {}
                (Some(below), false) if below > last && below <= 1 << 30 => last = below,
                (Some(_), false) => {
                    return wrong("'below' must grow from class to class, to 1 GiB at most".into());
                }
                _ => return wrong("the last class, and no other, must be without 'below'".into()),
            }
            if class.is_inline() {
                if class.below.is_none_or(|below| below > MAX_INLINE as u64) {
                    return wrong(format!(
                        "inline is for objects below {MAX_INLINE} bytes at most"
                    ));
                }
                continue;
            }
            let codec = Codec::new(&class.code.parse()?)?;
            let shape = codec.shape();
            most_m = most_m.max(shape.m);
            most_margin = most_margin.max(codec.margin(&[]) as usize);
            let sub_chunk = class.sub_chunk.map_or(1, u64::from);
            if sub_chunk == 0 || sub_chunk > most_sub_chunk(shape) {
                return wrong(format!("sub_chunk = {sub_chunk} is impossible for {}", class.code));
            }
        }
        if self.manifest_copies <= most_m || self.manifest_copies > MAX_COPIES {
            let (least, copies) = (most_m + 1, self.manifest_copies);
            return wrong(format!(
                "manifest_copies = {copies}, and a code of it may lose {most_m} shards: write \
                 {least} to {MAX_COPIES}, or have kiln pool recode --new-objects write all of it"
            ));
        }
        if self.missing_at_put >= most_margin.max(1) {
            return wrong(format!(
                "missing_at_put must be less than the losses that any code of it stands, which is \
                 {most_margin}"
            ));
        }
        Ok(())
    }
}

/// Below which size copies in so many manifests take no more on disk than shards of a class, to the
/// KiB; `None`: shards are cheaper from the start.
fn inline_below(copies: usize, shards: &Class) -> Result<Option<u64>> {
    let mut below = None;
    for limit in (1..=MAX_INLINE as u64 / STEP).map(|step| step * STEP) {
        let inline = sample(copies, limit - 1, Body::Inline(vec![0; limit as usize - 1]));
        let in_shards = sample(copies, limit - 1, Body::Shards(placed(shards)?));
        // Where both take the same, the one of fewer files is less.
        if DiskUsage::of(&inline)? > DiskUsage::of(&in_shards)? {
            break;
        }
        below = Some(limit);
    }
    Ok(below)
}

/// A manifest with texts of usual lengths.
fn sample(copies: usize, size: u64, body: Body) -> Manifest {
    let copies = vec!["n".repeat(NODE_ID); copies];
    let name = "o".repeat(NAME);
    let (pool, run, version, created_ms, kept) = ([0; 16], [0; 16], 1, 0, None);
    Manifest { pool, name, version, run, created_ms, size, copies, body, kept, key: None }
}

/// Shards of a class, wherever they are.
fn placed(class: &Class) -> Result<Placed> {
    let codec = Codec::new(&class.code.parse()?)?;
    let shape = codec.shape();
    let sub_chunk = class.sub_chunk.unwrap_or_else(|| default_sub_chunk(shape));
    let digest = Digest::new(SumKind::Crc32c, &[0; 16]);
    let digest = digest.ok_or_else(|| PoolError::Internal { what: "a digest".into() })?;
    let place = Place { node: "n".repeat(NODE_ID), digest };
    Ok(Placed {
        spec: codec.spec().explicit(),
        k: shape.k as u16,
        alpha: shape.alpha as u32,
        sub_chunk,
        segment_stripes: segment_stripes(shape.alpha as u32, sub_chunk),
        sums: SumKind::Crc32c,
        places: vec![place; shape.n()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_are_inline_as_long_as_that_is_cheapest() {
        // What shards would take at this size and just above, and so the limit.
        for (code, below) in
            [("clay:10+4", 23), ("rs:10+4", 23), ("clay:4+2", 27), ("rs:2+1", 43), ("rep:3", 64)]
        {
            let policy = Policy::for_code(code).unwrap();
            assert_eq!(policy.class[0].below, Some(below << 10), "{code}");
            assert!(policy.class[0].is_inline() && !policy.class[1].is_inline());
        }
        let policy = Policy::for_code("clay:10+4").unwrap();
        let inline = sample(5, 5 << 10, Body::Inline(vec![0; 5 << 10]));
        assert_eq!(DiskUsage::of(&inline).unwrap(), DiskUsage { bytes: 8 * (5 << 10), files: 5 });
        let shards = sample(5, 5 << 10, Body::Shards(placed(&policy.class[1]).unwrap()));
        let usage = DiskUsage { bytes: 14 * 8192 + 5 * 4096, files: 19 };
        assert_eq!(DiskUsage::of(&shards).unwrap(), usage);
    }

    #[test]
    fn rules_that_cannot_be_kept_are_refused() {
        let good = Policy::for_code("clay:4+2").unwrap();
        assert_eq!(good.largest_limit(), 4 << 20);
        type Change<'a> = &'a dyn Fn(&mut Policy);
        let cases: [(&str, Change<'_>); 8] = [
            ("classes", &|p| p.class.clear()),
            ("grow", &|p| p.class[1].below = Some(1)),
            ("last class", &|p| p.class[2].below = Some(1 << 25)),
            ("last class", &|p| p.class[0].below = None),
            ("inline", &|p| p.class[0].below = Some(1 << 17)),
            ("manifest_copies", &|p| p.manifest_copies = 2),
            ("missing_at_put", &|p| p.missing_at_put = 2),
            ("sub_chunk", &|p| p.class[1].sub_chunk = Some(0)),
        ];
        for (word, change) in cases {
            let mut policy = good.clone();
            change(&mut policy);
            let error = policy.check().unwrap_err().to_string();
            assert!(error.contains(word), "{word}: {error}");
        }
        assert!(Policy::for_code("rs:0+4").is_err());
        assert!(Policy::for_code("magic:3+2").is_err());
    }

    #[test]
    fn copies_and_plain_codes_need_no_class_between() {
        for code in ["rs:4+2", "rep:3"] {
            let policy = Policy::for_code(code).unwrap();
            assert_eq!(policy.class.len(), 2, "{code}");
        }
        assert_eq!(Policy::for_code("rep:3").unwrap().manifest_copies, 3);
    }
}

//! The ratios kiln promises: each the worst of its row, from whatever cells were measured.

use crate::cell::{Cell, Footprint, Rate};
use crate::engine::{Family, Operation};
use crate::isa;
use crate::kiln::Kiln;
use crate::threads::TwoThreads;

/// One promise.
pub struct Promise {
    /// Key in the JSON line.
    pub key: &'static str,
    /// What it should be at least; none where it is not promised.
    bars: Bars,
    /// The ratio of a cell, `None` if the cell is none of this row.
    ratio: fn(&Cell) -> Option<f64>,
}

/// The bar on whatever the machine has, and that with everybody held to AVX2.
#[derive(Debug, Clone, Copy)]
pub struct Bars {
    /// With all that the machine has.
    pub all: Option<f64>,
    /// Held to AVX2.
    pub avx2: Option<f64>,
}

impl Bars {
    /// Only on whatever the machine has.
    pub const fn all(bar: f64) -> Bars {
        Bars { all: Some(bar), avx2: None }
    }

    /// Only held to AVX2.
    pub const fn avx2(bar: f64) -> Bars {
        Bars { all: None, avx2: Some(bar) }
    }

    /// Both.
    pub const fn both(all: f64, avx2: f64) -> Bars {
        Bars { all: Some(all), avx2: Some(avx2) }
    }

    /// The key and the bar of this run.
    pub fn of_run(self, key: &str) -> Option<(String, f64)> {
        match isa::held() {
            Some(class) => Some((format!("{key}_{class}"), self.avx2?)),
            None => Some((key.to_owned(), self.all?)),
        }
    }
}

/// All promises but the one about threads.
pub const PROMISES: &[Promise] = &[
    Promise {
        key: "rs_dram_over_klauspost",
        bars: Bars::both(1.2, 1.2),
        ratio: |cell| rs(cell, dram(cell) && !huge(cell), KLAUSPOST),
    },
    Promise {
        key: "rs_dram_over_isal",
        bars: Bars::all(2.0),
        ratio: |cell| rs(cell, dram(cell) && !huge(cell), &["isal"]),
    },
    Promise {
        key: "rs_dram_over_isal_next",
        bars: Bars::both(1.2, 1.2),
        ratio: |cell| rs(cell, dram(cell) && !huge(cell), &["isal-next"]),
    },
    Promise {
        key: "rs_cache_over_best_peer",
        bars: Bars::both(0.97, 1.1),
        ratio: |cell| rs(cell, cache(cell), ALL),
    },
    Promise {
        key: "clay_dram_over_own_rs",
        bars: Bars::both(0.6, 0.65),
        ratio: |cell| clay(cell, dram(cell) && !huge(cell), &[(10, 4)], &["kiln"], Family::Rs),
    },
    Promise {
        key: "clay_over_ceph_clay_16mib",
        bars: Bars::avx2(2.0),
        ratio: |cell| clay(cell, huge(cell), &[(10, 4)], &["ceph-clay-isa"], Family::Clay),
    },
    Promise {
        key: "clay_dram_over_klauspost_rs",
        bars: Bars::all(0.8),
        ratio: |cell| clay(cell, dram(cell) && !huge(cell), WIDE, KLAUSPOST, Family::Rs),
    },
    Promise {
        key: "clay_16mib_over_klauspost_rs",
        bars: Bars::all(0.75),
        ratio: |cell| clay(cell, huge(cell), WIDE, KLAUSPOST, Family::Rs),
    },
    Promise {
        key: "clay_over_ceph_clay",
        bars: Bars::both(6.0, 4.0),
        ratio: |cell| {
            clay(cell, dram(cell) && !huge(cell), &[(10, 4)], &["ceph-clay-isa"], Family::Clay)
        },
    },
    Promise {
        key: "clay_cache_over_own_rs",
        bars: Bars::both(0.5, 0.55),
        ratio: |cell| clay(cell, cache(cell), &[(10, 4)], &["kiln"], Family::Rs),
    },
    Promise {
        key: "clay_repair_over_rs_decode",
        bars: Bars::both(1.6, 1.4),
        ratio: |cell| repair(cell, 1, dram(cell) && !huge(cell)),
    },
    Promise {
        key: "clay_repair_two_over_rs_decode",
        bars: Bars::both(0.5, 0.5),
        ratio: |cell| repair(cell, 2, cache(cell)),
    },
];

/// Key and bar of the promise about threads.
const TWO_THREADS: (&str, Bars) = ("two_threads", Bars::all(1.8));

const KLAUSPOST: &[&str] = &["klauspost", "klauspost-2"];
const ALL: &[&str] =
    &["klauspost", "klauspost-2", "isal", "isal-next", "isal-cauchy", "jerasure", "ceph-isa"];
const WIDE: &[(usize, usize)] = &[(8, 4), (10, 4), (16, 4)];

fn dram(cell: &Cell) -> bool {
    matches!(cell.footprint, Footprint::Dram(_))
}

fn huge(cell: &Cell) -> bool {
    matches!(cell.footprint, Footprint::Dram(chunk) if chunk > 1 << 20)
}

fn cache(cell: &Cell) -> bool {
    matches!(cell.footprint, Footprint::Cache(_))
}

/// kiln against the fastest of some engines.
fn over(cell: &Cell, family: Family, peers: &[&str], theirs: Family) -> Option<f64> {
    let ours = cell.rate("kiln", family)?;
    let found = peers.iter().filter_map(|name| cell.rate(name, theirs));
    let best = |a: &&Rate, b: &&Rate| a.rate.median.total_cmp(&b.rate.median);
    Some(cell.ratio(ours, found.max_by(best)?))
}

fn rs(cell: &Cell, wanted: bool, peers: &[&str]) -> Option<f64> {
    let job = cell.job;
    let listed = [(6, 3), (10, 4), (16, 4)].contains(&(job.k, job.m));
    let encode = job.family == Family::Rs && job.operation == Operation::Encode;
    (wanted && listed && encode).then(|| over(cell, Family::Rs, peers, Family::Rs))?
}

fn clay(
    cell: &Cell,
    wanted: bool,
    codes: &[(usize, usize)],
    peers: &[&str],
    theirs: Family,
) -> Option<f64> {
    let job = cell.job;
    let encode = job.family == Family::Clay && job.operation == Operation::Encode;
    let wanted = wanted && encode && codes.contains(&(job.k, job.m));
    wanted.then(|| over(cell, Family::Clay, peers, theirs))?
}

fn repair(cell: &Cell, lost: usize, wanted: bool) -> Option<f64> {
    let job = cell.job;
    let repair = job.family == Family::Clay && job.operation == Operation::Repair(lost);
    let wanted = wanted && repair && WIDE.contains(&(job.k, job.m));
    wanted.then(|| over(cell, Family::Clay, &["kiln"], Family::Rs))?
}

/// What came of a promise: key, bar, and the worst ratio of the cells, if any was measured.
pub type Kept = (String, f64, Option<f64>);

/// What came of all promises of this run.
pub fn headline(cells: &[Cell], threads: &[TwoThreads]) -> Vec<Kept> {
    let worst = |ratios: Vec<f64>| ratios.into_iter().min_by(f64::total_cmp);
    let kept = |promise: &Promise| {
        let (key, bar) = promise.bars.of_run(promise.key)?;
        Some((key, bar, worst(cells.iter().filter_map(promise.ratio).collect())))
    };
    let two = TWO_THREADS
        .1
        .of_run(TWO_THREADS.0)
        .map(|(key, bar)| (key, bar, worst(threads.iter().map(|threads| threads.ratio).collect())));
    PROMISES.iter().filter_map(kept).chain(two).collect()
}

/// The most by which a way to run that kiln's rules did not choose was faster than the one they
/// chose, with the cell and the way; `None` where no such way was measured.
pub fn rule_beaten_by(cells: &[Cell]) -> Option<(f64, String)> {
    let of_cell = |cell: &Cell| {
        let ours = cell.rate("kiln", cell.job.family)?;
        let variant = |name| Some((cell.ratio(cell.rate(name, cell.job.family)?, ours), name));
        let (ratio, name) = Kiln::variant_names()
            .filter(|name| !Kiln::is_chosen(name, &cell.job, cell.footprint.is_memory()))
            .filter_map(variant)
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let Cell { job, footprint, .. } = cell;
        Some((ratio, format!("{} {}, {footprint}: {name}", job.code(), job.operation)))
    };
    cells.iter().filter_map(of_cell).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The headline as one line of JSON; what was not measured is null.
pub fn line(headline: &[Kept], beaten: Option<&(f64, String)>) -> String {
    let number = |ratio: Option<f64>| ratio.map_or("null".into(), |r| format!("{r:.3}"));
    let entries = headline.iter().map(|(key, _, ratio)| format!("\"{key}\": {}", number(*ratio)));
    let beaten = beaten.into_iter().flat_map(|(ratio, cell)| {
        [format!("\"rule_beaten_by\": {ratio:.3}"), format!("\"rule_beaten_in\": \"{cell}\"")]
    });
    format!("{{{}}}", entries.chain(beaten).collect::<Vec<_>>().join(", "))
}

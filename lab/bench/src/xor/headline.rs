//! The ratios that are promised, each the worst over the codes it is about.

use super::Report;
use super::codes::{CODES, Code};
use super::contest::{Point, Who};
use super::fixture::Place;
use crate::headline::{Bars, Kept, line};
use crate::measure::paired_ratio;

/// One promise.
pub struct Promise {
    /// Key in the JSON line.
    pub key: &'static str,
    /// What it should be at least.
    pub bars: Bars,
    ratio: fn(&Report, &Code) -> Option<f64>,
}

/// All promises.
pub const PROMISES: &[Promise] = &[
    Promise {
        key: "alg2_over_alg1_u64",
        bars: Bars::all(1.21),
        // peak of Algorithm 2 over that of Algorithm 1, 64-bit words, in cache or the paper's
        // buffer, every code
        ratio: |report, code| {
            let at = |place, who| report.peak(code, "encode", place, &[who]).map(rate);
            let peak = |who| {
                let places = [Place::Cache, Place::Paper].into_iter();
                places.filter_map(|place| at(place, who)).max_by(f64::total_cmp)
            };
            Some(peak(Who::ByWordWords)? / peak(Who::TraditionalWords)?)
        },
    },
    Promise {
        key: "best_over_jerasure_cache",
        bars: Bars::both(3.5, 4.0),
        // kiln's peak over Jerasure's in cache, Liberation 11+2 and Blaum-Roth 10+2
        ratio: |report, code| jerasure(report, code, Place::Cache),
    },
    Promise {
        key: "best_over_jerasure_dram",
        bars: Bars::both(2.0, 2.0),
        // the same from DRAM
        ratio: |report, code| jerasure(report, code, Place::Dram),
    },
    Promise {
        key: "best_over_paper_orders_vector",
        bars: Bars::both(1.5, 1.3),
        // kiln's peak over the better of the paper's orders with vectors, in cache, every code
        ratio: |report, code| {
            let orders = [Who::TraditionalVectors, Who::ByWordVectors];
            let ours = report.peak(code, "encode", Place::Cache, &[Who::Kiln])?;
            Some(over(ours, report.peak(code, "encode", Place::Cache, &orders)?))
        },
    },
    Promise {
        key: "decode2_over_encode",
        bars: Bars::all(0.6),
        // kiln's peak at decoding two lost data chunks over that at encoding, in cache, every
        // code
        ratio: |report, code| {
            let peak = |operation| report.peak(code, operation, Place::Cache, &[Who::Kiln]);
            Some(rate(peak("decode 2")?) / rate(peak("encode")?))
        },
    },
];

fn rate(point: &Point) -> f64 {
    point.rate.median
}

fn jerasure(report: &Report, code: &Code, place: Place) -> Option<f64> {
    if !code.bar {
        return None;
    }
    let theirs = [Who::JerasureDumb, Who::JerasureSmart];
    let ours = report.peak(code, "encode", place, &[Who::Kiln])?;
    Some(over(ours, report.peak(code, "encode", place, &theirs)?))
}

/// The ratio of two peaks: by rounds where both have the same rounds.
fn over(ours: &Point, theirs: &Point) -> f64 {
    match ours.packet == theirs.packet {
        true => paired_ratio(&theirs.seconds, &ours.seconds),
        false => rate(ours) / rate(theirs),
    }
}

impl Report {
    /// The fastest point of some contenders, over all sizes of packets.
    pub fn peak(&self, code: &Code, operation: &str, place: Place, who: &[Who]) -> Option<&Point> {
        let points = self.points.iter().filter(|point| {
            point.code == code.spec
                && point.operation == operation
                && point.place == place
                && who.contains(&point.who)
        });
        points.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// A promise's ratio, of each code that it is about.
    pub fn ratios(&self, promise: &Promise) -> Vec<(&'static str, f64)> {
        let ratio = |code: &'static Code| Some((code.spec, (promise.ratio)(self, code)?));
        CODES.iter().filter_map(ratio).collect()
    }

    /// The worst ratio of every promise as one line of JSON; what was not measured is null.
    pub fn headline(&self) -> String {
        let worst = |promise: &Promise| {
            let (key, bar) = promise.bars.of_run(promise.key)?;
            let ratios = self.ratios(promise).into_iter().map(|(_, ratio)| ratio);
            Some((key, bar, ratios.min_by(f64::total_cmp)))
        };
        line(&PROMISES.iter().filter_map(worst).collect::<Vec<Kept>>(), None)
    }
}

//! The report as Markdown: bars, peaks, and the paper's Table 5; Table 8 is in a picture.

use super::Report;
use super::codes::{CODES, Code};
use super::contest::{Point, Who};
use super::fixture::Place;
use super::headline::{PROMISES, Promise};
use crate::page::{cells, size, table};

/// Places in the order of the page.
const PLACES: [Place; 4] = [Place::Paper, Place::Cache, Place::Dram, Place::Tiny];

impl Report {
    /// Tables for people.
    pub fn markdown(&self) -> String {
        let jerasure = match &self.jerasure {
            Ok(version) => version.clone(),
            Err(reason) => format!("**Jerasure is missing**: {reason}"),
        };
        let promise = |promise: &Promise| {
            let (key, bar) = promise.bars.of_run(promise.key)?;
            let ratios = self.ratios(promise);
            let worst = ratios.iter().map(|(_, ratio)| *ratio).min_by(f64::total_cmp);
            let worst = worst.map_or("not measured".into(), |ratio| format!("**{ratio:.2}**"));
            let each = ratios.iter().map(|(spec, r)| format!("{} {r:.2}", short(spec)));
            let each = each.collect::<Vec<_>>().join(", ");
            let about = promise.about;
            Some(format!("`{key}`: {about} | {bar} | {worst} | {each}"))
        };
        let mut out = format!("{}. {jerasure}.\n", self.machine.line());
        out += &table("promise | bar | worst | of each code", PROMISES.iter().filter_map(promise));
        for operation in ["encode", "decode 2"] {
            out.extend(PLACES.map(|place| self.peaks(operation, place)));
        }
        out + &self.table_5()
    }

    /// The peak of everybody over all sizes of packets.
    fn peaks(&self, operation: &str, place: Place) -> String {
        let here = |who: &Who| {
            let mut points = self.points.iter();
            points.any(|p| p.place == place && p.operation == operation && p.who == *who)
        };
        let who: Vec<Who> = Who::ALL.into_iter().filter(here).collect();
        if who.is_empty() {
            return String::new();
        }
        let row = |code: &Code| {
            let peak = |who: &Who| self.peak(code, operation, place, &[*who]);
            let cell = |p: &Point| format!("{:.1} ({})", p.rate.median, size(p.packet as u64));
            let peaks = who.iter().map(|who| peak(who).map_or(String::new(), cell));
            format!("{} | {}", code.spec, cells(peaks))
        };
        let head = format!("code | {}", cells(who.iter().map(|who| who.name())));
        format!(
            "\n**{operation}, {}**: peak GB/s of data (packet of the peak)\n{}",
            place.name(),
            table(&head, CODES.iter().map(row))
        )
    }

    fn pair(&self, code: &Code, place: Place, who: [Who; 2]) -> Option<[f64; 2]> {
        let rate = |who| Some(self.peak(code, "encode", place, &[who])?.rate.median);
        Some([rate(who[0])?, rate(who[1])?])
    }

    fn table_5(&self) -> String {
        let mut rows = Vec::new();
        for code in CODES {
            for (words, who) in [
                ("64-bit", [Who::ByWordWords, Who::TraditionalWords]),
                ("vectors", [Who::ByWordVectors, Who::TraditionalVectors]),
            ] {
                if let Some([new, old]) = self.pair(code, Place::Paper, who) {
                    let (spec, gain) = (code.spec, (new / old - 1.0) * 100.0);
                    rows.push(format!("{spec} | {words} | {new:.2} | {old:.2} | {gain:.0}%"));
                }
            }
        }
        format!(
            "\n**Table 5, redrawn**: peak encoding bandwidth, GB/s, a buffer of 20 MB\n{}",
            table("code | words | Algorithm 2 | Algorithm 1 | improvement", rows)
        )
    }
}

/// `liberation 11+2`.
pub fn short(spec: &str) -> String {
    spec.split(',').next().unwrap_or_default().replace(':', " ")
}

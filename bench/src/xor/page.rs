//! The report as Markdown: bars, the paper's tables redrawn, and its figures as pictures.

use super::Report;
use super::codes::{CODES, Code};
use super::contest::Who;
use super::ground::Place;
use super::headline::PROMISES;
use crate::figures::{links, size};
use std::fmt::Write;

/// Places in the order of the page.
const PLACES: [Place; 4] = [Place::Paper, Place::Cache, Place::Dram, Place::Tiny];

impl Report {
    /// Tables for people.
    pub fn markdown(&self, name: &str) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_markdown(&mut out);
        out + &links(name, self)
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        let jerasure = match &self.jerasure {
            Ok(version) => version.clone(),
            Err(reason) => format!("**Jerasure is missing**: {reason}"),
        };
        writeln!(out, "{}. {jerasure}.\n", self.machine.line())?;
        writeln!(out, "| promise | bar | worst | of each code |\n|---|---|---|---|")?;
        for promise in PROMISES {
            let ratios = self.ratios(promise);
            let worst = ratios.iter().map(|(_, ratio)| *ratio).min_by(f64::total_cmp);
            let worst = worst.map_or("not measured".into(), |ratio| format!("**{ratio:.2}**"));
            let each: Vec<String> =
                ratios.iter().map(|(spec, r)| format!("{} {r:.2}", short(spec))).collect();
            let each = each.join(", ");
            writeln!(
                out,
                "| `{}`: {} | {} | {worst} | {each} |",
                promise.key, promise.about, promise.bar
            )?;
        }
        for operation in ["encode", "decode 2"] {
            for place in PLACES {
                self.peaks(out, operation, place)?;
            }
        }
        self.table_5(out)?;
        self.table_7(out)?;
        self.table_8(out)
    }

    /// The peak of everybody over all sizes of packets.
    fn peaks(&self, out: &mut String, operation: &str, place: Place) -> std::fmt::Result {
        let here = |who: &Who| {
            let mut points = self.points.iter();
            points.any(|p| p.place == place && p.operation == operation && p.who == *who)
        };
        let who: Vec<Who> = Who::ALL.into_iter().filter(here).collect();
        if who.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = who.iter().map(|who| who.name()).collect();
        writeln!(
            out,
            "\n**{operation}, {}**: peak GB/s of data (packet of the peak)\n",
            place.name()
        )?;
        writeln!(out, "| code | {} |\n|---|{}", names.join(" | "), "---|".repeat(who.len()))?;
        for code in CODES {
            write!(out, "| {} |", code.spec)?;
            for who in &who {
                match self.peak(code, operation, place, &[*who]) {
                    Some(p) => write!(out, " {:.1} ({}) |", p.rate.median, size(p.packet as u64))?,
                    None => write!(out, " |")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn pair(&self, code: &Code, place: Place, who: [Who; 2]) -> Option<[f64; 2]> {
        let rate = |who| Some(self.peak(code, "encode", place, &[who])?.rate.median);
        Some([rate(who[0])?, rate(who[1])?])
    }

    fn table_5(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\n**Table 5, redrawn**: peak encoding bandwidth, GB/s, a buffer of 20 MB\n"
        )?;
        writeln!(out, "| code | words | Algorithm 2 | Algorithm 1 | improvement |")?;
        writeln!(out, "|---|---|---|---|---|")?;
        for code in CODES {
            for (words, who) in [
                ("64-bit", [Who::ByWordWords, Who::TraditionalWords]),
                ("vectors", [Who::ByWordVectors, Who::TraditionalVectors]),
            ] {
                if let Some([new, old]) = self.pair(code, Place::Paper, who) {
                    let (spec, gain) = (code.spec, (new / old - 1.0) * 100.0);
                    writeln!(out, "| {spec} | {words} | {new:.2} | {old:.2} | {gain:.0}% |")?;
                }
            }
        }
        Ok(())
    }

    fn table_7(&self, out: &mut String) -> std::fmt::Result {
        let Some(code) = CODES.iter().find(|code| code.spec.starts_with("rdp")) else {
            return Ok(());
        };
        let rate = |who| self.peak(code, "encode", Place::Paper, &[who]).map(|p| p.rate.median);
        if let (Some(words), Some(kiln)) = (rate(Who::ByWordWords), rate(Who::Kiln)) {
            writeln!(
                out,
                "\n**Table 7, redrawn**: RDP 10+2, GB/s: Algorithm 2 with 64-bit words here \
                 {words:.2}, kiln here {kiln:.2}; in the paper 1.349, and 1.55 reported by \
                 Corbett et al. for a Pentium 4 of 2004."
            )?;
        }
        Ok(())
    }

    fn table_8(&self, out: &mut String) -> std::fmt::Result {
        let Some(disk) = self.disk else { return Ok(()) };
        writeln!(
            out,
            "\n**Table 8, redrawn**: encoding and then writing, GB/s. The disk under the report \
             wrote a new file of 256 MiB, synced, at {:.2} GB/s.\n",
            disk.write
        )?;
        writeln!(out, "| code | new | traditional | write | improvement |\n|---|---|---|---|---|")?;
        for code in CODES {
            for who in [
                [Who::ByWordWords, Who::TraditionalWords],
                [Who::Kiln, Who::TraditionalVectors],
                [Who::Kiln, Who::TraditionalWords],
            ] {
                let Some([new, old]) = self.pair(code, Place::Paper, who) else { continue };
                let gain = (1.0 / old + 1.0 / disk.write) / (1.0 / new + 1.0 / disk.write) - 1.0;
                writeln!(
                    out,
                    "| {} | {new:.2} ({}) | {old:.2} ({}) | {:.2} | {:.1}% |",
                    code.spec,
                    who[0].name(),
                    who[1].name(),
                    disk.write,
                    gain * 100.0
                )?;
            }
        }
        Ok(())
    }
}

/// `liberation 11+2`.
pub fn short(spec: &str) -> String {
    spec.split(',').next().unwrap_or_default().replace(':', " ")
}

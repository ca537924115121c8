//! The tables of the page.

use super::Report;
use super::codes::Code;
use super::recovery::ALONE;
use std::fmt::Write;

impl Report {
    /// Worst load, bandwidth and time of every code, and how far recoveries are above their bounds.
    pub(super) fn headline(&self) -> String {
        let rows = self.codes.iter().map(|code| {
            let (load, bandwidth) =
                (code.range(|block| block.load_mib).1, code.range(|block| block.bandwidth_mib).1);
            let ms = code.range(|block| block.dag_ms + block.plan_ms).1;
            (code.code.clone(), serde_json::json!([load, bandwidth, ms]))
        });
        let recoveries = self.recoveries.iter().map(|found| {
            let name = format!("{} over {} to {}", found.code, found.survivors, found.to());
            (format!("{name}, {} stripes", found.stripes), serde_json::json!(found.above()))
        });
        serde_json::Value::Object(rows.chain(recoveries).collect()).to_string()
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!("{}.\n\n", self.machine.line());
        for table in [Self::codes, Self::misses, Self::others, Self::frontiers, Self::brute] {
            // Writing to a string does not fail.
            let _ = table(self, &mut text);
            text.push('\n');
        }
        let _ = self.recoveries(&mut text);
        text + &crate::figures::links("plan", self)
    }

    /// Table 2 of the paper, over all blocks.
    fn codes(&self, text: &mut String) -> std::fmt::Result {
        *text += "| code | blocks | maximum load | bandwidth | bound at load 256 | above | \
                  DAG + plan, worst (ms) | by | pareto in that time: load | bandwidth | paper |\n\
                  |---|---|---|---|---|---|---|---|---|---|---|\n";
        for code in &self.codes {
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {:.1} | {} | {} | {} | {} |",
                code.code,
                code.blocks.len(),
                span(code.range(|block| block.load_mib)),
                span(code.range(|block| block.bandwidth_mib)),
                bounds(code),
                code.above().map_or("-".into(), |above| format!("{:.2}%", above * 100.0)),
                code.range(|block| block.dag_ms + block.plan_ms).1,
                names(code),
                span(code.range(|block| block.pareto.0)),
                span(code.range(|block| block.pareto.1)),
                code.paper.map_or("-".into(), |(load, all)| format!("({load}, {all})")),
            )?;
        }
        Ok(())
    }

    /// Blocks above their bound, one by one.
    fn misses(&self, text: &mut String) -> std::fmt::Result {
        *text +=
            "Blocks that are not on the bound, as block: (maximum load, bandwidth), bound:\n\n";
        for code in &self.codes {
            let above = |block: &&super::codes::Block| {
                block.bound_mib.is_none_or(|bound| block.bandwidth_mib > bound + 1e-6)
            };
            let rows: Vec<String> = code
                .blocks
                .iter()
                .filter(above)
                .map(|block| {
                    let bound = block.bound_mib.map_or("-".into(), |bound| format!("{bound:.0}"));
                    let (load, all) = (block.load_mib, block.bandwidth_mib);
                    format!("{}: ({load:.0}, {all:.1}), {bound}", block.lost)
                })
                .collect();
            if !rows.is_empty() {
                writeln!(text, "- {}: {}", code.code, rows.join("; "))?;
            }
        }
        Ok(())
    }

    fn others(&self, text: &mut String) -> std::fmt::Result {
        *text += "| code, block 0 | central | pipeline | pareto, longer | anneal |\n\
                  |---|---|---|---|---|\n";
        for code in &self.codes {
            write!(text, "| {} |", code.code)?;
            for found in &code.others {
                let aside = if found.note.is_some() { ", fell back" } else { "" };
                let (load, all) = (found.load_mib, found.bandwidth_mib);
                write!(text, " ({load:.0}, {all:.0}) {:.3} s{aside} |", found.seconds)?;
            }
            text.push('\n');
        }
        Ok(())
    }

    fn frontiers(&self, text: &mut String) -> std::fmt::Result {
        *text += "Frontiers (maximum load, bandwidth) of block 0:\n\n";
        for code in self.codes.iter().filter(|code| !code.frontier.is_empty()) {
            let points = code.frontier.iter().map(|(load, all)| format!("({load:.1}, {all:.1})"));
            writeln!(text, "- {}: {}", code.code, points.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }

    /// The paper's small points.
    fn brute(&self, text: &mut String) -> std::fmt::Result {
        *text += "| all placements of | block | frontier in sub-chunks | different pairs | paper | \
                  best with partial sums |\n|---|---|---|---|---|---|\n";
        for small in &self.small {
            let points = small.frontier.iter().map(|(load, all)| format!("({load}, {all})"));
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | ({}, {}) |",
                small.code,
                small.lost,
                points.collect::<Vec<_>>().join(", "),
                small.pairs,
                small.paper,
                small.best.0,
                small.best.1
            )?;
        }
        Ok(())
    }

    fn recoveries(&self, text: &mut String) -> std::fmt::Result {
        *text += "| code | survivors | stripes | to | bound | together | above | planned in (s) | \
                  process at most (MiB) |";
        ALONE.iter().try_for_each(|name| write!(text, " alone: {name} |"))?;
        *text += "\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for found in &self.recoveries {
            write!(
                text,
                "| {} | {} | {} | {} | {:.0} | {:.0} | {:.2}% | {:.2} | {} |",
                found.code,
                found.survivors,
                found.stripes,
                found.to(),
                found.bound_mib,
                found.makespan_mib,
                found.above() * 100.0,
                found.plan_seconds,
                found.peak_memory_mib.map_or("-".into(), |memory| format!("{memory:.0}")),
            )?;
            found.alone_mib.iter().try_for_each(|(_, alone)| write!(text, " {alone:.0} |"))?;
            text.push('\n');
        }
        Ok(())
    }
}

fn span((low, high): (f64, f64)) -> String {
    match high - low < 0.05 {
        true => format!("{high:.1}"),
        false => format!("{low:.1}-{high:.1}"),
    }
}

fn bounds(code: &Code) -> String {
    match code.blocks.iter().all(|block| block.bound_mib.is_some()) {
        true => span(code.range(|block| block.bound_mib.unwrap_or(0.0))),
        false => "-".into(),
    }
}

/// The strategies that found the plans.
fn names(code: &Code) -> String {
    let mut names: Vec<&str> = code.blocks.iter().map(|block| &block.strategy[..]).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

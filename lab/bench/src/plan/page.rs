//! The tables of the page.

use super::Report;
use super::codes::{Code, Found};
use super::recovery::{ALONE, Recovery};
use super::small::Small;
use crate::page::{cells, or_dash, table};

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
        let mut text = format!("{}.\n", self.machine.line());
        for table in [Self::codes, Self::misses, Self::others, Self::frontiers, Self::brute] {
            text += &table(self);
        }
        text + &self.recoveries() + &crate::figures::links("plan", self)
    }

    /// Table 2 of the paper, over all blocks.
    fn codes(&self) -> String {
        let head = "code | blocks | maximum load | bandwidth | bound at load 256 | above | DAG + \
                    plan, worst (ms) | by | pareto in that time: load | bandwidth | paper";
        let row = |code: &Code| {
            cells([
                code.code.clone(),
                code.blocks.len().to_string(),
                span(code.range(|block| block.load_mib)),
                span(code.range(|block| block.bandwidth_mib)),
                bounds(code),
                code.above().map_or("-".into(), |above| format!("{:.2}%", above * 100.0)),
                format!("{:.1}", code.range(|block| block.dag_ms + block.plan_ms).1),
                names(code),
                span(code.range(|block| block.pareto.0)),
                span(code.range(|block| block.pareto.1)),
                code.paper.map_or("-".into(), |(load, all)| format!("({load}, {all})")),
            ])
        };
        table(head, self.codes.iter().map(row))
    }

    /// Blocks above their bound, one by one.
    fn misses(&self) -> String {
        let mut text = String::from(
            "\nBlocks that are not on the bound, as block: (maximum load, bandwidth), bound:\n\n",
        );
        for code in &self.codes {
            let above = |block: &&super::codes::Block| {
                block.bound_mib.is_none_or(|bound| block.bandwidth_mib > bound + 1e-6)
            };
            let row = |block: &super::codes::Block| {
                let (load, all) = (block.load_mib, block.bandwidth_mib);
                format!("{}: ({load:.0}, {all:.1}), {}", block.lost, or_dash(block.bound_mib, 0))
            };
            let rows: Vec<String> = code.blocks.iter().filter(above).map(row).collect();
            if !rows.is_empty() {
                text += &format!("- {}: {}\n", code.code, rows.join("; "));
            }
        }
        text
    }

    fn others(&self) -> String {
        let cell = |found: &Found| {
            let aside = if found.note.is_some() { ", fell back" } else { "" };
            let (load, all) = (found.load_mib, found.bandwidth_mib);
            format!("({load:.0}, {all:.0}) {:.3} s{aside}", found.seconds)
        };
        let rows = self.codes.iter();
        let rows = rows.map(|row| format!("{} | {}", row.code, cells(row.others.iter().map(cell))));
        table("code, block 0 | central | pipeline | pareto, longer | anneal | vertices", rows)
    }

    fn frontiers(&self) -> String {
        let mut text = String::from("\nFrontiers (maximum load, bandwidth) of block 0:\n\n");
        for code in self.codes.iter().filter(|code| !code.frontier.is_empty()) {
            let points = code.frontier.iter().map(|(load, all)| format!("({load:.1}, {all:.1})"));
            text += &format!("- {}: {}\n", code.code, points.collect::<Vec<_>>().join(", "));
        }
        text
    }

    /// The paper's small points.
    fn brute(&self) -> String {
        let row = |small: &Small| {
            let points = small.frontier.iter().map(|(load, all)| format!("({load}, {all})"));
            let points = points.collect::<Vec<_>>().join(", ");
            let (place, (load, all)) = (format!("{} | {}", small.code, small.lost), small.best);
            format!("{place} | {points} | {} | {} | ({load}, {all})", small.pairs, small.paper)
        };
        let head = "all placements of | block | frontier in sub-chunks | different pairs | paper | \
                    best with partial sums";
        table(head, self.small.iter().map(row))
    }

    fn recoveries(&self) -> String {
        let head = "code | survivors | stripes | to | bound | together | above | planned in (s) | \
                    process at most (MiB)";
        let row = |found: &Recovery| {
            let alone = found.alone_mib.iter().map(|(_, alone)| format!("{alone:.0}"));
            format!(
                "{} | {} | {} | {} | {:.0} | {:.0} | {:.2}% | {:.2} | {} | {}",
                found.code,
                found.survivors,
                found.stripes,
                found.to(),
                found.bound_mib,
                found.makespan_mib,
                found.above() * 100.0,
                found.plan_seconds,
                or_dash(found.peak_memory_mib, 0),
                cells(alone),
            )
        };
        let alone = cells(ALONE.map(|name| format!("alone: {name}")));
        table(&format!("{head} | {alone}"), self.recoveries.iter().map(row))
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

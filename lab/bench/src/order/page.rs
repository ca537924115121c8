//! The report as Markdown.

use super::Report;
use super::coding::Coding;
use super::moving::Moving;
use super::tables::{Code, Counts, Stripes, Table};
use crate::page::{cells, or_dash, table};

impl Report {
    /// Tables for people.
    pub fn markdown(&self) -> String {
        let moving = |row: &Moving| {
            format!("{} | {} | {:.2} | {:+.1} %", row.work, row.how, row.rate, row.slower)
        };
        let coding = |row: &Coding| {
            let encode = format!("{:.2} | {:.2}", row.encode.median, row.encode_over_natural);
            let repair = format!("{:.2} | {:.2}", row.repair.median, row.repair_over_natural);
            format!("{} | {} | {encode} | {repair}", row.code, row.order)
        };
        format!(
            "{}\n## What an order costs at write and read (experiment 6)\n\n\
             Measured: {}. 16+2, 2 MiB chunks; encode with the checksums of all 18 chunks, read \
             with those of the 16 data chunks; in memory, and with a file for each chunk: written \
             and synced, read not from the page cache. GB/s of object bytes, median (quarter to \
             three quarters); slower: median over rounds against natural in the same round.\n{}\n\
             ## Encode and repair in each order\n\n\
             4 KiB sub-chunks, 8 stripes in turn, one thread; encode: data, repair of the last \
             chunk: rebuilt bytes, GB/s. Beside: median over rounds of the speed over natural \
             order's; natural stands there twice, to show what is noise.\n{}",
            self.counts.markdown(),
            self.machine.line(),
            table("work | order | GB/s | slower than natural", self.moving.iter().map(moving)),
            table(
                "code | order | encode | of natural | repair | of natural",
                self.coding.iter().map(coding)
            )
        )
    }
}

impl Counts {
    fn markdown(&self) -> String {
        let tables = runs(&self.table_3) + &runs(&self.table_4);
        let text = format!("## Tables III and IV: runs by lost chunk\n{tables}\n");
        text + &self.codes() + &self.census() + &self.stripes()
    }

    fn codes(&self) -> String {
        const NAMES: [&str; 4] = ["natural", "gray", "fewest", "balanced"];
        let row = |code: &Code| {
            let find = |name: &str| code.orders.iter().find(|row| row.order == name);
            let total = NAMES.map(|name| match find(name) {
                Some(row) => format!("{} ({}-{})", row.s_total, row.range.0, row.range.1),
                None => "-".into(),
            });
            let pairs = NAMES.map(|name| or_dash(find(name).and_then(|row| row.pair_runs), 1));
            let head = format!("{} | {} | {}", code.code, code.alpha, code.virtuals);
            let count = code.orders.first().map_or(0, |row| row.pairs);
            format!("{head} | {} | {} | {count} | {}", code.s_min, cells(total), cells(pairs))
        };
        let names = cells(NAMES);
        let head = format!("code | alpha | virtual | least | {names} | pairs | {names}");
        format!(
            "## Other codes\n\nRuns over all losses (fewest-most for one chunk); pair: mean runs \
             over the pairs of losses that are repaired with less than k chunks read. A name that \
             is missing has the same order as one before it.\n{}\n",
            table(&head, self.codes.iter().map(row))
        )
    }

    fn census(&self) -> String {
        let census = &self.census;
        let row = |m: usize| {
            let points = self.reductions.iter().filter(|point| point.0 == m);
            let points = points.map(|(_, digits, share)| format!("{digits}: {:.1}", 100.0 * share));
            let points = points.collect::<Vec<_>>().join(", ");
            format!("{m} | {points} | {:.1}", 100.0 / m as f64)
        };
        format!(
            "Of all (k, m, d) with k+m <= 24 and at most 16,384 layers: {} without virtual nodes, \
             of which `gray`, `fewest` and `balanced` are at S_min in {}, and no two nodes of \
             `balanced` differ by more than {} runs; {} with virtual nodes, of which `fewest` is \
             at the lower bound in {} and one run above in {}. There, on average, `gray` leaves \
             {:.1} % of natural order's runs and `fewest` {:.1} %.\n\n\
             Fig. 6, reduction by Gray codes in percent:\n{}\n",
            census.full,
            census.full_at_bound,
            census.balanced_spread,
            census.short,
            census.short_at_bound,
            census.short_one_above,
            100.0 * census.gray_share,
            100.0 * census.fewest_share,
            table("m | digits: reduction | limit", (2..=5).map(row))
        )
    }

    fn stripes(&self) -> String {
        let row = |row: &Stripes| {
            let runs = [row.in_a_row, row.turned, row.grouped].map(|runs| format!("{runs:.1}"));
            format!("{} | {} | {:.0} | {}", row.code, row.order, row.alone, cells(runs))
        };
        let head = "code | order | each alone | merged with the next | every other backwards | \
                    4 side by side";
        format!(
            "## Stripes one behind the other\n\nRuns a stripe over all losses, when a whole shard \
             is read at full-node recovery.\n{}\n",
            table(head, self.stripes.iter().map(row))
        )
    }
}

fn runs(of: &Table) -> String {
    let chunks = of.columns.first().map_or(0, |(_, runs)| runs.len());
    let row =
        |chunk| format!("{chunk} | {}", cells(of.columns.iter().map(|(_, runs)| runs[chunk])));
    let sum = |(_, runs): &(String, Vec<usize>)| format!("**{}**", runs.iter().sum::<usize>());
    let sums = format!("**sum** | {}", cells(of.columns.iter().map(sum)));
    let names = cells(of.columns.iter().map(|(name, _)| name));
    table(&format!("{} lost | {names}", of.code), (0..chunks).map(row).chain([sums]))
}

//! The report as Markdown.

use super::Report;
use super::tables::{Counts, Table};
use std::fmt::{Result, Write};

impl Report {
    /// Tables for people.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.counts.write(&mut out);
        let _ = self.write_measured(&mut out);
        out
    }

    fn write_measured(&self, out: &mut String) -> Result {
        writeln!(out, "## What an order costs at write and read (experiment 6)\n")?;
        writeln!(
            out,
            "Measured: {}. 16+2, 2 MiB chunks; encode with the checksums of all 18 chunks, read with those of \
             the 16 data chunks; in memory, and with a file for each chunk: written and synced, \
             read not from the page cache. GB/s of object bytes, median (quarter to three \
             quarters); slower: median over rounds against natural in the same round.\n",
            self.machine.line()
        )?;
        writeln!(out, "| work | order | GB/s | slower than natural |\n|---|---|---|---|")?;
        for row in &self.moving {
            let rate = row.rate;
            let (work, how) = (row.work, row.how);
            writeln!(
                out,
                "| {work} | {how} | {:.2} ({:.2}-{:.2}) | {:+.1} % |",
                rate.median, rate.p25, rate.p75, row.slower
            )?;
        }
        writeln!(out, "\n## Encode and repair in each order\n")?;
        writeln!(
            out,
            "4 KiB sub-chunks, 8 stripes in turn, one thread; encode: data, repair of the last \
             chunk: rebuilt bytes, GB/s. Beside: median over rounds of the speed over natural \
             order's; natural stands there twice, to show what is noise.\n"
        )?;
        writeln!(out, "| code | order | encode | of natural | repair | of natural |")?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for row in &self.coding {
            let (code, order) = (row.code, row.order);
            writeln!(
                out,
                "| {code} | {order} | {:.2} | {:.2} | {:.2} | {:.2} |",
                row.encode.median,
                row.encode_over_natural,
                row.repair.median,
                row.repair_over_natural
            )?;
        }
        Ok(())
    }
}

impl Counts {
    fn write(&self, out: &mut String) -> Result {
        writeln!(out, "## Tables III and IV: runs by lost chunk\n")?;
        write_table(out, &self.table_3)?;
        write_table(out, &self.table_4)?;
        self.write_codes(out)?;
        self.write_census(out)?;
        self.write_stripes(out)
    }

    fn write_codes(&self, out: &mut String) -> Result {
        writeln!(out, "## Other codes\n")?;
        writeln!(
            out,
            "Runs over all losses (fewest-most for one chunk); pair: mean runs over the pairs of \
             losses that are repaired with less than k chunks read. A name that is missing has \
             the same order as one before it.\n"
        )?;
        writeln!(
            out,
            "| code | alpha | virtual | least | natural | gray | fewest | balanced | pairs | \
             natural | gray | fewest | balanced |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|"
        )?;
        for code in &self.codes {
            let find = |name: &str| code.orders.iter().find(|row| row.order == name);
            let total = |name: &str| match find(name) {
                Some(row) => format!("{} ({}-{})", row.s_total, row.range.0, row.range.1),
                None => "-".into(),
            };
            let pair = |name: &str| match find(name).and_then(|row| row.pair_runs) {
                Some(runs) => format!("{runs:.1}"),
                None => "-".into(),
            };
            let names = ["natural", "gray", "fewest", "balanced"];
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                code.code,
                code.alpha,
                code.virtuals,
                code.s_min,
                names.map(total).join(" | "),
                code.orders.first().map_or(0, |row| row.pairs),
                names.map(pair).join(" | ")
            )?;
        }
        writeln!(out)
    }

    fn write_census(&self, out: &mut String) -> Result {
        let census = &self.census;
        writeln!(
            out,
            "Of all (k, m, d) with k+m <= 24 and at most 16,384 layers: {} without virtual nodes, \
             of which `gray`, `fewest` and `balanced` are at S_min in {}, and no two nodes of \
             `balanced` differ by more than {} runs; {} with virtual nodes, of which `fewest` is \
             at the lower bound in {} and one run above in {}. There, on average, `gray` leaves \
             {:.1} % of natural order's runs and `fewest` {:.1} %.\n",
            census.full,
            census.full_at_bound,
            census.balanced_spread,
            census.short,
            census.short_at_bound,
            census.short_one_above,
            100.0 * census.gray_share,
            100.0 * census.fewest_share
        )?;
        writeln!(out, "Fig. 6, reduction by Gray codes in percent:\n")?;
        writeln!(out, "| m | digits: reduction | limit |\n|---|---|---|")?;
        for m in 2..=5 {
            let points = self.reductions.iter().filter(|point| point.0 == m);
            let points = points.map(|(_, digits, share)| format!("{digits}: {:.1}", 100.0 * share));
            let points: Vec<String> = points.collect();
            writeln!(out, "| {m} | {} | {:.1} |", points.join(", "), 100.0 / m as f64)?;
        }
        writeln!(out)
    }

    fn write_stripes(&self, out: &mut String) -> Result {
        writeln!(out, "## Stripes one behind the other\n")?;
        writeln!(
            out,
            "Runs a stripe over all losses, when a whole shard is read at full-node recovery.\n"
        )?;
        writeln!(
            out,
            "| code | order | each alone | merged with the next | every other backwards | \
             4 side by side |\n|---|---|---|---|---|---|"
        )?;
        for row in &self.stripes {
            let (code, order) = (row.code, row.order);
            writeln!(
                out,
                "| {code} | {order} | {:.0} | {:.1} | {:.1} | {:.1} |",
                row.alone, row.in_a_row, row.turned, row.grouped
            )?;
        }
        writeln!(out)
    }
}

fn write_table(out: &mut String, table: &Table) -> Result {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| &name[..]).collect();
    writeln!(out, "| {} lost | {} |", table.code, names.join(" | "))?;
    writeln!(out, "|---|{}", "---|".repeat(names.len()))?;
    let chunks = table.columns.first().map_or(0, |(_, runs)| runs.len());
    for chunk in 0..chunks {
        let cells = table.columns.iter().map(|(_, runs)| runs[chunk].to_string());
        writeln!(out, "| {chunk} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    let sum = |(_, runs): &(String, Vec<usize>)| format!("**{}**", runs.iter().sum::<usize>());
    let sums: Vec<String> = table.columns.iter().map(sum).collect();
    writeln!(out, "| **sum** | {} |\n", sums.join(" | "))
}

//! The report as Markdown.

use super::operations::{CODE, Cost, SIZE};
use super::{REPORT, Report};
use crate::figures;
use crate::page::{or_dash, table};

impl Report {
    /// Tables for people.
    pub fn markdown(&self) -> String {
        let cost = |cost: &Cost| {
            let most = format!("{} | {:.1} | {}", cost.put_most, cost.get, cost.get_most);
            format!("{} | {} | {:.1} | {most}", cost.nodes, cost.objects, cost.put)
        };
        let count = |count: Option<u64>| or_dash(count.map(|count| count as f64), 0);
        let proof = &self.proof;
        format!(
            "# What pools cost\n\n`make bench-pool`: {}.\n\n## Operations\n\nFile operations and \
             locks on all nodes together for an object of {SIZE} bytes in a pool of {CODE}, in \
             memory.\n{}\n## Small files\n\n{}\n## Proofs\n\nSeeds of the simulator: {}. Faults \
             tried: {}, with something wrong afterwards: {}.\n{}",
            self.machine.line(),
            table("nodes | objects | put | most | get | most", self.pools.iter().map(cost)),
            self.small(),
            count(proof.seeds),
            count(proof.faults_tried),
            count(proof.faults_wrong),
            figures::links(REPORT, self)
        )
    }

    fn small(&self) -> String {
        let Some(small) = &self.small else {
            return "**Skipped**: there is no program to measure.\n".into();
        };
        let rows = [
            ("kiln cp, into the pool", small.put, Some(small.put_over_cp)),
            ("kiln cp, out of it", small.get, Some(small.get_over_cp)),
            ("cp -r and sync", small.cp, None),
        ];
        let row = |(what, seconds, over): (&str, crate::measure::Spread, Option<_>)| {
            let over = over.map_or("-".into(), |over| format!("{over:.2}"));
            format!("{what} | {seconds:.2} | {over}")
        };
        format!(
            "{} files of 1 to 20 KiB, {} bytes, {} on 14 folders of one disk; median (quarter to \
             three quarters) of {} rounds, in each of which all took turns.\n{}\nBytes on disk \
             over size: {:.2} for objects of 5 KiB, {:.2} for these files (blocks that the file \
             system gave to the files of the objects).\n",
            small.files,
            small.bytes,
            small.code,
            small.rounds.len(),
            table("what | seconds | over cp -r and sync", rows.into_iter().map(row)),
            small.disk_over_size,
            small.files_disk_over_size
        )
    }
}

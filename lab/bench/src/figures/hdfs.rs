//! Pools in HDFS beside HDFS's own erasure coding, which `lab/hdfs` measured.

use super::{Figures, add, groups, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// What is compared with HDFS's own, in parts of it: key of the headline, and its words.
const PARTS: [(&str, &str, &str); 3] = [
    ("encode_time_over_hdfs_rs", "encode, time", "kiln Clay"),
    ("recovery_time_over_hdfs_rs", "recovery, time", "Clay hub"),
    ("recovery_bytes_over_hdfs_rs", "recovery, bytes", "Clay central"),
];

pub(super) fn figures(report: &Value) -> Figures {
    let about = &report["about"];
    let subtitle = format!(
        "{}, commit {}; 20 stripes of 10+4, blocks of {} MiB, links of {}; means, least and most \
         of rounds",
        word(about, "cpu"),
        word(about, "commit"),
        report["plan"]["block_mib"],
        word(about, "rate"),
    );
    let panel = |kind: &str, title: &str, key: &str, unit: &str, bound: bool| {
        let mut panel = Panel::new(Kind::Bars, title, Axis::new(unit));
        let rows = list(report, "hdfs").iter().filter(|row| row["kind"] == kind);
        for (label, rows) in groups(rows, |row| word(row, "label").to_owned()) {
            let all: Vec<f64> = rows.iter().map(|row| number(&row[key])).collect();
            let (low, high) = all.iter().fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let mut mark = Mark::new(0.0, mean).spread(low, high);
            mark.bound = rows[0]["bound_seconds"].as_f64().filter(|_| bound);
            add(&mut panel, &label, "", mark);
        }
        panel
    };
    let title = "Pools in HDFS beside HDFS's own Reed-Solomon";
    let mut measured = Figure::new(title, &subtitle[..]);
    measured.panels = vec![
        panel("encode", "Encode 20 stripes", "seconds", "seconds", true),
        panel("recovery", "Recover a DataNode's 20 blocks", "seconds", "seconds", true),
        panel("recovery", "What all links carried", "bytes_per_lost", "bytes a lost byte", false),
    ];
    measured.note = "Thick line: what the busiest link needs for the bytes that it carried.".into();
    let mut paper = Figure::new("In parts of HDFS's own, beside ParaRC's Fig. 11", subtitle);
    paper.panels.push(parts(report));
    paper.note = "The paper had links of 10 Gbit/s, blocks of 256 MiB, and machines of their own; \
                  its figure has no numbers for what else was compared."
        .into();
    vec![(String::new(), measured), ("paper".into(), paper)]
}

/// Ours and the paper's, both in parts of HDFS's own.
fn parts(report: &Value) -> Panel {
    let mut panel = Panel::new(Kind::Dots, "", Axis::new("over HDFS-RS"));
    let paper = &report["paper"];
    let ratio = |key: &str| number(&paper[key]["ParaRC-Clay"]) / number(&paper[key]["HDFS-RS"]);
    let theirs = [
        ratio("encode_seconds"),
        number(&paper["recovery_time_over_hdfs_rs"]),
        ratio("recovery_gib"),
    ];
    for ((key, name, which), theirs) in PARTS.into_iter().zip(theirs) {
        let name = format!("{name} ({which})");
        let mark = |value: &Value| Mark::new(0.0, number(value));
        add(&mut panel, "here", &name, mark(&report["headline"][key]));
        add(&mut panel, "ParaRC-Clay, as published", &name, Mark::new(0.0, theirs));
    }
    panel
}

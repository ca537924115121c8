//! The online study, which `lab/online` measured: its table of the paper's figures says what each
//! picture shows, so they come as data.

use super::{Figures, list, word};
use kiln_figure::Figure;
use serde::Deserialize;
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let (about, sizes) = (&report["machine"], &report["sizes"]);
    let subtitle = format!(
        "Ceph {}, {} OSDs or agents on one machine, {} cores ({}), commit {}; {} rounds",
        word(report, "ceph"),
        sizes["osds"],
        about["cores"],
        word(about, "cpu"),
        word(about, "commit"),
        report["headline"]["rounds"],
    );
    let figure = |row: &Value| {
        let figure = Figure::deserialize(&row["figure"]).ok()?;
        Some((word(row, "end").to_owned(), Figure { subtitle: subtitle.clone(), ..figure }))
    };
    list(report, "exhibits").iter().filter_map(figure).collect()
}

//! The answer, as text and JSON.

use super::costs::{Advice, Site};
use crate::{print::table, sizes};
use kiln_durability::Estimate;
use serde::Serialize;

/// Wishes that a code is to meet.
#[derive(Debug, Serialize)]
pub struct Wishes {
    pub nines: f64,
    pub lose: usize,
    pub overhead: f64,
}

/// The pool of the recommended code, played event by event.
#[derive(Debug, Serialize)]
struct Played {
    nines: f64,
    loss_a_year: f64,
    relative_error: f64,
    /// By number of lost chunks: how often a year brings some object to it.
    rises_a_year: Vec<f64>,
}

/// The whole answer.
#[derive(Debug, Serialize)]
pub struct Report {
    nodes: usize,
    data: u64,
    object: u64,
    link: u64,
    failures_per_year: f64,
    detection_hours: f64,
    domain: usize,
    domain_failures_per_year: f64,
    read_seconds: f64,
    byte_seconds: f64,
    bad_bits: f64,
    wishes: Wishes,
    /// The code to take; none where no code meets the wishes.
    recommended: Option<String>,
    codes: Vec<Advice>,
    simulated: Option<Played>,
}

impl Report {
    pub fn new(site: &Site, wishes: &Wishes, codes: Vec<Advice>, played: Option<Estimate>) -> Self {
        let Wishes { nines, lose, overhead } = *wishes;
        Report {
            nodes: site.nodes,
            data: site.data,
            object: site.object,
            link: site.link,
            failures_per_year: site.failures,
            detection_hours: site.detection_hours,
            domain: site.domain,
            domain_failures_per_year: site.domain_failures,
            read_seconds: site.model.read_seconds,
            byte_seconds: site.model.byte_seconds,
            bad_bits: site.bad_bits,
            wishes: Wishes { nines, lose, overhead },
            recommended: codes.first().filter(|row| row.unmet.is_empty()).map(|r| r.code.clone()),
            codes,
            simulated: played.map(|played| Played {
                nines: played.nines_a_year(),
                loss_a_year: played.loss_a_year,
                relative_error: played.relative_error,
                rises_a_year: played.rises_a_year,
            }),
        }
    }

    /// Returns whether a code meets all wishes.
    pub fn met(&self) -> bool {
        self.recommended.is_some()
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        match (&self.recommended, self.codes.first()) {
            (Some(code), Some(row)) => {
                text += &format!(
                    "{code}: any {} of {} nodes may be lost, {:.1} nines a year; stores {:.2} \
                     bytes for each byte, {} a node\n",
                    row.survives,
                    self.nodes,
                    row.nines,
                    row.stored,
                    sizes::show(row.node_bytes)
                );
            }
            (None, Some(row)) => {
                text += &format!(
                    "no code meets the wishes; nearest is {}: {}\n",
                    row.code,
                    row.unmet.join(", ")
                );
            }
            _ => {}
        }
        text += "\n";
        let priced = self.codes.iter().any(|row| row.cost_a_year.is_some());
        let mut head =
            vec!["code", "lose", "stored", "repair reads", "in", "node rebuilt", "by", "nines"];
        head.extend(priced.then_some("a year"));
        text += &table(&head, &self.codes.iter().map(line).collect::<Vec<_>>());
        text += "\n";
        if let Some(row) = self.codes.first().filter(|row| !row.decides.is_empty()) {
            text += &format!(
                "{} decides: doubled, {} has {:.1} nines instead of {:.1}\n",
                row.decides, row.code, row.nines_if_doubled, row.nines
            );
        }
        if let Some(played) = &self.simulated {
            text += &format!(
                "played event by event: {:.1} nines, within {:.0} %\n",
                played.nines,
                played.relative_error * 100.0
            );
        }
        text += &format!(
            "assumed: {:.2} % of the nodes fail in a year, each alone{}; repair begins after {} h; \
             links of {} a second; a read {:.3} ms, a byte {:.2} ns; objects of {}\n",
            self.failures_per_year * 100.0,
            match self.domain {
                1 => String::new(),
                nodes => format!(
                    ", and {:.2} % of the domains of {nodes} with all they hold",
                    self.domain_failures_per_year * 100.0
                ),
            },
            self.detection_hours,
            sizes::show(self.link),
            self.read_seconds * 1e3,
            self.byte_seconds * 1e9,
            sizes::show(self.object)
        );
        text
    }

    /// Returns a picture of the codes: bytes stored to the right, nines upwards, the recommended
    /// one filled.
    pub fn picture(&self) -> String {
        let most = |of: fn(&Advice) -> f64| self.codes.iter().map(of).fold(1.0, f64::max);
        let (widest, highest) = (most(|row| row.stored), most(|row| row.nines));
        let mut svg = String::from(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 440\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <path d=\"M40 20V400H620\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"40\" y=\"14\">nines a year</text>\n\
             <text x=\"430\" y=\"430\">bytes stored for each byte</text>\n",
        );
        for row in &self.codes {
            let x = 40.0 + 500.0 * (row.stored - 1.0) / (widest - 1.0).max(1e-9);
            let y = 400.0 - 370.0 * row.nines.max(0.0) / highest;
            let fill = if self.recommended.as_ref() == Some(&row.code) { "#06c" } else { "#fff" };
            svg += &format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"#06c\"/>\n\
                 <text x=\"{:.1}\" y=\"{y:.1}\">{}: {:.2}, {:.1}</text>\n",
                x + 9.0,
                row.code,
                row.stored,
                row.nines
            );
        }
        svg + "</svg>\n"
    }
}

fn line(row: &Advice) -> Vec<String> {
    let hours = match row.repair_hours {
        hours if hours.is_infinite() => "-".into(),
        hours if hours < 1.0 => format!("{:.0} min", hours * 60.0),
        hours => format!("{hours:.1} h"),
    };
    let mut cells = vec![
        row.code.clone(),
        format!("any {}", row.survives),
        format!("{:.2}", row.stored),
        format!("{:.2}", row.repair_chunks),
        format!("{:.0}", row.repair_reads),
        hours,
        row.repair_bound_by.into(),
        format!("{:.1}{}", row.nines, if row.unmet.is_empty() { "" } else { " (!)" }),
    ];
    cells.extend(row.cost_a_year.map(|cost| format!("{cost:.0}")));
    cells
}

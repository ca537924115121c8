//! The answer, as text and JSON.

use kiln_durability::Estimate;
use serde::Serialize;

use super::costs::{Advice, Site};
use crate::print::table;
use crate::sizes;

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
        text += &table(
            &["code", "lose", "stored", "repair reads", "in", "node rebuilt", "by", "nines"],
            &self.codes.iter().map(line).collect::<Vec<_>>(),
        );
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
            "assumed: {:.2} % of the nodes fail in a year, each alone; repair begins after {} h; \
             links of {} a second; a read {:.3} ms, a byte {:.2} ns; objects of {}\n",
            self.failures_per_year * 100.0,
            self.detection_hours,
            sizes::show(self.link),
            self.read_seconds * 1e3,
            self.byte_seconds * 1e9,
            sizes::show(self.object)
        );
        text
    }
}

fn line(row: &Advice) -> Vec<String> {
    let hours = match row.repair_hours {
        hours if hours.is_infinite() => "-".into(),
        hours if hours < 1.0 => format!("{:.0} min", hours * 60.0),
        hours => format!("{hours:.1} h"),
    };
    vec![
        row.code.clone(),
        format!("any {}", row.survives),
        format!("{:.2}", row.stored),
        format!("{:.2}", row.repair_chunks),
        format!("{:.0}", row.repair_reads),
        hours,
        row.repair_bound_by.into(),
        format!("{:.1}{}", row.nines, if row.unmet.is_empty() { "" } else { " (!)" }),
    ]
}

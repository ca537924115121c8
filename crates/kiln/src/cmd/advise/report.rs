//! The answer, as text and JSON.

use super::costs::{Advice, Site};
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

//! The answer, as text and JSON.

use super::costs::{Advice, Site};
use crate::print::fields;
use kiln_durability::Estimate;
use serde::Serialize;

/// The answer about a site: the codes, the one to take, unless none meets the wishes, and its pool
/// played event by event.
pub fn report(
    site: &Site,
    wishes: impl Serialize,
    (codes, recommended): (&[Advice], Option<&str>),
    played: Option<Estimate>,
) -> impl Serialize {
    let played = played.map(|played| {
        fields! {
            nines: played.nines_a_year(),
            loss_a_year: played.loss_a_year,
            relative_error: played.relative_error,
            // By number of lost chunks: how often a year brings some object to it.
            rises_a_year: played.rises_a_year,
        }
    });
    fields! {
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
        wishes: wishes,
        recommended: recommended,
        codes: codes,
        simulated: played,
    }
}

/// A picture of the codes: bytes stored to the right, nines upwards, the recommended one filled.
pub fn picture(codes: &[Advice], recommended: Option<&str>) -> String {
    let most = |of: fn(&Advice) -> f64| codes.iter().map(of).fold(1.0, f64::max);
    let (widest, highest) = (most(|row| row.stored), most(|row| row.nines));
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 440\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <path d=\"M40 20V400H620\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"40\" y=\"14\">nines a year</text>\n\
         <text x=\"430\" y=\"430\">bytes stored for each byte</text>\n",
    );
    for row in codes {
        let x = 40.0 + 500.0 * (row.stored - 1.0) / (widest - 1.0).max(1e-9);
        let y = 400.0 - 370.0 * row.nines.max(0.0) / highest;
        let fill = if recommended == Some(&row.code[..]) { "#06c" } else { "#fff" };
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

//! The table of the page's sections. To add one: write `sections/x.rs` and one row here.

mod answers;
mod logs;
mod nodes;
mod plan;
mod repairs;
mod risk;
mod scrub;
mod traffic;
mod waits;

use super::View;

/// A part of the page.
struct Section {
    /// Its name in addresses.
    id: &'static str,
    /// Its heading.
    title: &'static str,
    /// Its contents as HTML; `None`: there is nothing to show.
    body: fn(&View) -> Option<String>,
}

/// All sections, in their order on the page.
const SECTIONS: &[Section] = &[
    Section { id: "state", title: "State", body: answers::body },
    Section { id: "waits", title: "What is waited for", body: waits::body },
    Section { id: "repairs", title: "Repairs", body: repairs::body },
    Section { id: "risk", title: "Objects by risk", body: risk::body },
    Section { id: "logs", title: "Logs of volumes", body: logs::body },
    Section { id: "nodes", title: "Nodes and space", body: nodes::body },
    Section { id: "traffic", title: "Traffic of repairs", body: traffic::body },
    Section { id: "plan", title: "Plan of a repair", body: plan::body },
    Section { id: "scrub", title: "Scrub", body: scrub::body },
];

/// Sections of the page: name, heading, contents.
pub fn shown(view: &View) -> Vec<(&'static str, &'static str, String)> {
    let body = |section: &Section| Some((section.id, section.title, (section.body)(view)?));
    SECTIONS.iter().filter_map(body).collect()
}

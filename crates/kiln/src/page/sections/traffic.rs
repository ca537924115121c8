//! Load of links and disks of nodes by repairs since the coordinator began.

use kiln_recovery::NodeLoad;

use crate::page::View;
use crate::page::html::{bar, escape, table};
use crate::sizes;

pub fn body(view: &View) -> Option<String> {
    let limit = |what: &str, bytes: u64| match bytes {
        0 => String::new(),
        bytes => format!("<p>Limit of {what}: {}/s.</p>", sizes::show(bytes)),
    };
    let limits = limit("each node", view.limits.node) + &limit("all together", view.limits.total);
    let traffic = &view.state.traffic;
    if traffic.is_empty() {
        return Some(format!("<p class=\"quiet\">None yet.</p>{limits}"));
    }
    let most = traffic.values().map(NodeLoad::load).max().unwrap_or(1);
    let row = |(id, load): (&String, &NodeLoad)| {
        let said = format!("load of {id} beside the busiest link");
        let [sent, received, read, written] =
            [load.sent, load.received, load.read, load.written].map(sizes::show);
        vec![escape(id), bar(load.load(), most, &said), sent, received, read, written]
    };
    let head = ["node", "load", "sent", "received", "read", "rebuilt"];
    let rows: Vec<_> = traffic.iter().map(row).collect();
    Some(limits + &table("Since the coordinator began", &head, &rows))
}

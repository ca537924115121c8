//! Nodes: whether they are there, and how full.

use kiln_pool::NodeStatus;

use crate::page::View;
use crate::page::html::{badge, bar, escape, table};
use crate::{sizes, times};

pub fn body(view: &View) -> Option<String> {
    let status = view.state.survey.as_deref()?;
    let sum = |value: fn(&NodeStatus) -> Option<u64>| status.nodes.iter().filter_map(value).sum();
    let (free, total): (u64, u64) = (sum(|node| node.free), sum(|node| node.total));
    let here = status.nodes.iter().filter(|node| node.present).count();
    let caption = format!(
        "{here} of {} nodes are here; {} free of {}",
        status.nodes.len(),
        sizes::show(free),
        sizes::show(total)
    );
    let head = ["node", "state", "used", "free", "of", "shards", "missing", "domain"];
    let rows: Vec<_> = status.nodes.iter().map(|node| row(node, view)).collect();
    let age = view.now_ms.saturating_sub(view.state.surveyed_ms.unwrap_or(view.now_ms)) / 1000;
    let seen = format!("<p class=\"quiet\">Looked at {} ago.</p>", times::show(age));
    Some(format!("{}{seen}", table(&caption, &head, &rows)))
}

fn row(node: &NodeStatus, view: &View) -> Vec<String> {
    let back = view.state.waits.iter().find(|wait| wait.node.as_ref() == Some(&node.id));
    let state = match (node.present, node.draining, node.backfilling) {
        (false, ..) => {
            let why = escape(node.why.as_deref().unwrap_or("not reached"));
            let wait = back.map_or(String::new(), |wait| {
                format!("; given up in {}", times::show(wait.seconds_left(view.now_ms)))
            });
            format!("<span>{} {why}{wait}</span>", badge("bad", "unavailable"))
        }
        (true, true, _) => badge("warn", "draining"),
        (true, false, true) => badge("warn", "new disk"),
        (true, false, false) => badge("good", "here"),
    };
    let used = match (node.total, node.free) {
        (Some(total), Some(free)) => {
            let used = total.saturating_sub(free);
            let percent = used as f64 / total.max(1) as f64 * 100.0;
            let said = format!("{percent:.0}% of {} is used", node.id);
            format!("<span>{} {percent:.0}%</span>", bar(used, total, &said))
        }
        _ => "?".to_owned(),
    };
    let bytes = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), sizes::show);
    vec![
        escape(&node.id),
        state,
        used,
        bytes(node.free),
        bytes(node.total),
        node.shards.to_string(),
        node.missing.to_string(),
        escape(&node.domain),
    ]
}

//! Logs of volumes: what was written last is in none of the pool's objects yet.

use crate::page::View;
use crate::page::html::{badge, escape, table};
use crate::print::count;
use crate::times;
use crate::volume_logs::{Tended, nodes};

pub fn body(view: &View) -> Option<String> {
    let seen = &view.logs;
    let failed = seen.error.as_deref().map(|why| {
        format!("<p>{} {}</p>\n", badge("bad", "The last look at them failed"), escape(why))
    });
    if seen.logs.is_empty() {
        return failed;
    }
    let lacking = match seen.lacking().count() {
        0 => "none lacks a copy".to_owned(),
        lacking => format!("{lacking} without all copies"),
    };
    let caption = format!("{}; {lacking}", count(seen.open().count() as u64, "open log"));
    let head = ["volume", "copies here", "nodes without one", "state"];
    let rows: Vec<_> = seen.logs.iter().map(row).collect();
    let age = view.now_ms.saturating_sub(seen.seen_ms.unwrap_or(view.now_ms)) / 1000;
    let looked = format!("<p class=\"quiet\">Looked at {} ago.</p>", times::show(age));
    Some(format!("{}{}{looked}", failed.unwrap_or_default(), table(&caption, &head, &rows)))
}

fn row(it: &Tended) -> Vec<String> {
    let (here, all) = (it.log.here(), it.log.copies.len());
    let kind = match here {
        _ if it.closed || it.log.is_whole() => "good",
        0 => "bad",
        _ => "warn",
    };
    let writer = escape(&it.log.writer);
    let state = match &it.why {
        _ if it.closed => format!("{} all of it is in objects now", badge("good", "closed")),
        _ if it.in_use => format!("in use by {writer}, who looks after it"),
        Some(why) => format!("{} {}", badge("bad", "cannot be closed"), escape(why)),
        None if it.log.is_whole() => format!("opened by {writer}"),
        None => format!("opened by {writer}; its nodes are waited for"),
    };
    let nodes = nodes(&it.log);
    vec![
        escape(&it.log.volume),
        badge(kind, &format!("{here} of {all}")),
        if nodes.is_empty() { "none".to_owned() } else { escape(&nodes) },
        format!("<span>{state}</span>"),
    ]
}

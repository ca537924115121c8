//! Objects by the losses that they still survive.

use crate::page::View;
use crate::page::html::{badge, bar, table};
use crate::print::{count, more_losses};
use crate::sizes;

pub fn body(view: &View) -> Option<String> {
    let status = view.state.survey.as_deref()?;
    let mut rows = Vec::new();
    let mut row = |what: String, objects: u64| {
        let said = format!("share of all objects: {objects} of {}", status.objects);
        rows.push(vec![what, objects.to_string(), bar(objects, status.objects, &said)]);
    };
    if status.unreadable > 0 {
        row(badge("bad", "cannot be read now"), status.unreadable);
    }
    if status.unasked > 0 {
        row(badge("bad", "cannot be checked: nodes are unavailable"), status.unasked);
    }
    for (margin, objects) in status.endangered.iter().filter(|(margin, _)| **margin >= 0) {
        let kind = if *margin == 0 { "bad" } else { "warn" };
        row(badge(kind, &format!("lacks something, survives {}", more_losses(*margin))), *objects);
    }
    row(badge("good", "whole"), status.whole);
    let all = format!("{} in all, {}", count(status.objects, "object"), sizes::show(status.bytes));
    let more = match status.unclaimed {
        0 => String::new(),
        shards => format!("<p>{} of no known object.</p>", count(shards, "shard")),
    };
    Some(format!("{}{more}", table(&all, &["risk", "objects", "share"], &rows)))
}

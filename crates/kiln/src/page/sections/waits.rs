//! Reasons of waits, and their length.

use crate::page::View;
use crate::page::html::escape;
use crate::times;

pub fn body(view: &View) -> Option<String> {
    let row = |wait: &kiln_recovery::Wait| {
        let left = times::show(wait.seconds_left(view.now_ms));
        format!("<li>{}: <b>{left}</b></li>", escape(&wait.to_string()))
    };
    let rows: String = view.state.waits.iter().map(row).collect();
    match rows.is_empty() {
        true => Some("<p class=\"quiet\">Nothing.</p>".to_owned()),
        false => Some(format!("<ul>{rows}</ul>")),
    }
}

//! Pieces of the page: everything that is not ours goes through [`escape`].

use std::fmt::Write;

use super::View;
use crate::print::date;

/// Text as HTML, for elements and for attributes in quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The whole page of these sections: name, heading, contents.
pub fn page(view: &View, sections: &[(&str, &str, String)]) -> String {
    let mut main = String::new();
    let mut links = String::new();
    for (id, title, body) in sections {
        let _ = write!(links, "<li><a href=\"#{id}\">{title}</a></li>");
        let _ = write!(
            main,
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{title}\
             </h2>\n<div class=\"body\">{body}</div></section>\n"
        );
    }
    let pool = escape(&view.pool);
    let now = date(view.now_ms / 1000);
    let seconds = view.now_ms / 1000 % 60;
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n\
         <title>{pool} - kiln</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{}</style>\n<script src=\"/refresh.js\" defer></script></head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">To the content</a>\n\
         <header><h1>Pool <b>{pool}</b></h1>\n<nav aria-label=\"Sections\"><ul>{links}</ul></nav>\
         </header>\n<main id=\"main\" tabindex=\"-1\">\n{main}</main>\n\
         <footer><p id=\"seen\">As of {now}:{seconds:02} UTC</p>\
         <p id=\"lost\" role=\"status\"></p>\
         <p><a href=\"/status.json\">The same as JSON</a> <a href=\"/metrics\">Metrics</a></p>\
         </footer>\n</body></html>\n",
        include_str!("style.css")
    )
}

/// A table whose rows become cards on narrow screens; cells are HTML.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "<table role=\"table\"><caption>{}</caption><thead role=\"rowgroup\"><tr role=\"row\">",
        escape(caption)
    );
    for cell in head {
        let _ = write!(text, "<th role=\"columnheader\" scope=\"col\">{}</th>", escape(cell));
    }
    text.push_str("</tr></thead><tbody role=\"rowgroup\">\n");
    for row in rows {
        text.push_str("<tr role=\"row\">");
        for (at, (cell, head)) in row.iter().zip(head).enumerate() {
            let head = escape(head);
            let _ = match at {
                0 => write!(text, "<th role=\"rowheader\" scope=\"row\">{cell}</th>"),
                _ => write!(text, "<td role=\"cell\" data-head=\"{head}\">{cell}</td>"),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table>\n");
    text
}

/// A bar that is full at `of`, with what it says for those who do not see it.
pub fn bar(value: u64, of: u64, said: &str) -> String {
    let percent = (value as f64 / of.max(1) as f64 * 100.0).clamp(0.0, 100.0);
    format!(
        "<progress max=\"100\" value=\"{percent:.1}\" aria-label=\"{}\"></progress>",
        escape(said)
    )
}

/// A word with a colour: good, warn or bad.
pub fn badge(kind: &str, word: &str) -> String {
    format!("<span class=\"badge {kind}\">{}</span>", escape(word))
}

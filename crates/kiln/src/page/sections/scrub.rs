//! The scrub on a schedule.

use crate::page::View;
use crate::page::html::{badge, bar, escape};
use crate::print::{count, date};
use crate::{sizes, times};

pub fn body(view: &View) -> Option<String> {
    let Some(scrub) = &view.state.scrub else {
        let text = "None on a schedule (--scrub-every); kiln scrub does one.";
        return Some(format!("<p class=\"quiet\">{text}</p>"));
    };
    let position = &scrub.position;
    let objects = view.state.survey.as_deref().map_or(position.objects, |status| status.objects);
    let state = match position.is_under_way() {
        true => format!(
            "under way: {} {} of {objects}, up to {}",
            bar(position.objects, objects, "objects read of all"),
            position.objects,
            escape(position.after.as_deref().unwrap_or("the first"))
        ),
        false => format!(
            "the next one in {}",
            times::show(scrub.due_ms.saturating_sub(view.now_ms).div_ceil(1000))
        ),
    };
    let last = match position.ended_ms {
        0 => "never".to_owned(),
        ms => format!("{} UTC", date(ms / 1000)),
    };
    let found = match position.findings {
        0 => badge("good", "nothing"),
        findings => badge("warn", &count(findings, "damaged object")),
    };
    Some(format!(
        "<dl><dt>State</dt><dd>{state}</dd><dt>Every</dt><dd>{}</dd><dt>Ended last</dt>\
         <dd>{last}</dd><dt>Read</dt><dd>{}, {}</dd><dt>Found</dt><dd>{found}</dd></dl>",
        times::show(scrub.every_ms / 1000),
        count(position.objects, "object"),
        sizes::show(position.bytes_read)
    ))
}

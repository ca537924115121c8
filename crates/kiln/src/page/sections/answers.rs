//! The answers to what an operator asks first.

use kiln_recovery::Phase;

use crate::page::View;
use crate::page::html::{badge, escape};
use crate::print::{count, more_losses};
use crate::{sizes, times};

pub fn body(view: &View) -> Option<String> {
    let (safe, doing) = (safe(view), doing(view));
    let end = match (view.state.phase, view.state.seconds_left) {
        (Phase::Repairing, Some(seconds)) => format!("in {}", times::show(seconds)),
        (Phase::Repairing, None) => "not known yet".to_owned(),
        _ => match view.state.survey.as_deref().map_or(0, |status| status.to_rebuild) {
            0 => "nothing is to be rebuilt".to_owned(),
            bytes => format!("{} to rebuild, when it can be", sizes::show(bytes)),
        },
    };
    let failed = view.state.survey_error.as_deref().map(|why| {
        let mark = badge("bad", "The last look at the pool failed");
        format!("<p>{mark} {}</p>\n", escape(why))
    });
    Some(format!(
        "{}<dl><dt>Is all data safe?</dt><dd>{safe}</dd>\n<dt>What is being done?</dt>\
         <dd>{doing}</dd>\n<dt>When is it finished?</dt><dd>{end}</dd></dl>",
        failed.unwrap_or_default()
    ))
}

fn safe(view: &View) -> String {
    let Some(status) = view.state.survey.as_deref() else { return badge("warn", "not known yet") };
    let endangered = status.objects.saturating_sub(status.whole);
    let least = status.endangered.keys().next().copied().unwrap_or(0);
    let least_log = view.logs.lacking().map(|log| log.here() as i32 - 1).min();
    let unknown = status.incomplete || status.unasked > 0;
    match (status.unreadable, unknown, endangered) {
        (0, ..) if least_log == Some(-1) => {
            format!("{} what a volume&#39;s log alone has cannot be read", badge("bad", "No"))
        }
        (0, false, _) if view.logs.seen_ms.is_none() || view.logs.error.is_some() => {
            format!("{} logs of volumes were not seen", badge("warn", "Not known"))
        }
        (0, false, objects) if least_log.is_some_and(|log| objects == 0 || log < least) => format!(
            "{} all can be read; the most endangered log survives {}",
            badge("warn", "Yes, but"),
            more_losses(least_log.unwrap_or(0))
        ),
        (0, false, 0) => {
            format!("{} all {} are whole", badge("good", "Yes"), count(status.objects, "object"))
        }
        (0, false, _) => format!(
            "{} all can be read; the most endangered object survives {}",
            badge("warn", "Yes, but"),
            more_losses(least)
        ),
        (0, true, _) => format!("{} too many nodes are unavailable", badge("bad", "Not known")),
        (lost, ..) => format!("{} {} cannot be read", badge("bad", "No"), count(lost, "object")),
    }
}

fn doing(view: &View) -> String {
    match view.state.phase {
        Phase::Surveying => "it looks who is there and what is damaged".to_owned(),
        Phase::Repairing => match view.state.running.len() as u64 {
            0 => "repairs are planned".to_owned(),
            running => format!("{} run", count(running, "repair")),
        },
        Phase::Scrubbing => "what is stored is read, to find what went bad".to_owned(),
        Phase::Waiting => "nothing can be done now".to_owned(),
    }
}

//! The page as HTML: `page.html` with the values of a view. All of them are escaped.

use kiln_recovery::NodeLoad;
use minijinja::{Environment, Error, Value, context, value::Serde};

use super::{View, status};
use crate::print::{count, more_losses};
use crate::{plan_picture::of_plan, texts, volume_logs::nodes};

/// Returns the whole page.
pub fn page(view: &View) -> String {
    let rendered =
        environment().and_then(|pages| pages.get_template("page.html")?.render(values(view)));
    rendered.unwrap_or_else(|error| format!("<!doctype html>\n<title>kiln</title>{error}\n"))
}

/// The template, and the filters that it uses.
fn environment() -> Result<Environment<'static>, Error> {
    let mut pages = texts::environment();
    // A name that is shown moves nothing: control characters are blanks.
    pages.set_formatter(|out, state, value: &Value| match value.as_str() {
        Some(text) if !value.is_safe() && text.contains(char::is_control) => {
            let plain = text.replace(char::is_control, " ");
            minijinja::escape_formatter(out, state, &Value::from(plain))
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
    pages.add_filter("percent", |value: u64, of: u64| {
        (value as f64 / of.max(1) as f64 * 1000.0).clamp(0.0, 1000.0).round() / 10.0
    });
    pages.add_filter("total", |rows: Vec<Value>, name: &str| {
        rows.iter().filter_map(|row| u64::try_from(row.get_attr(name).ok()?).ok()).sum::<u64>()
    });
    pages.add_template("page.html", include_str!("page.html"))?;
    Ok(pages)
}

fn values(view: &View) -> Value {
    let state = &view.state;
    let waits = state.waits.iter().map(|wait| {
        Value::from(Serde((wait.to_string(), wait.seconds_left(view.now_ms), &wait.node)))
    });
    let logs = view.logs.logs.iter().map(|it| {
        let (here, whole) = (it.log.here(), it.log.is_whole());
        context! { here, whole, nodes => nodes(&it.log), ..Serde(it) }
    });
    let traffic =
        state.traffic.iter().map(|(id, load)| Value::from(Serde((id, load.load(), load))));
    let plan = state.plan.as_deref().map(|shown| {
        let svg = of_plan(&shown.plan, shown.sub_bytes, Some(&shown.nodes));
        let (costs, strategy) = (shown.plan.costs(), shown.plan.strategy());
        context! {
            object => shown.object.as_str(), strategy, svg => svg.trim_start_matches("<svg "),
            travel => costs.bandwidth(), busiest => costs.max_load(),
        }
    });
    context! {
        status => Serde(status::of(view)),
        style => include_str!("style.css"),
        now_ms => view.now_ms,
        safe => safe(view),
        waits => waits.collect::<Vec<_>>(),
        logs => logs.collect::<Vec<_>>(),
        traffic => traffic.collect::<Vec<_>>(),
        busiest => state.traffic.values().map(NodeLoad::load).max(),
        plan,
    }
}

/// Answers the question of the page, is all data safe: a colour, a word and the reason.
fn safe(view: &View) -> Value {
    let survey = view.state.survey.as_deref();
    let (kind, word, why) = match survey {
        None => ("warn", "not known yet", String::new()),
        Some(status) => {
            let endangered = status.objects.saturating_sub(status.whole);
            let least = status.endangered.keys().next().copied().unwrap_or(0);
            let least_log = view.logs.lacking().map(|log| log.here() as i32 - 1).min();
            let unknown = status.incomplete || status.unasked > 0;
            let survives = |what: &str, losses: i32| {
                format!(
                    "all can be read; the most endangered {what} survives {}",
                    more_losses(losses)
                )
            };
            match (status.unreadable, unknown, endangered) {
                (0, ..) if least_log == Some(-1) => {
                    ("bad", "No", "what a volume's log alone has cannot be read".to_owned())
                }
                (0, false, _) if view.logs.seen_ms.is_none() || view.logs.error.is_some() => {
                    ("warn", "Not known", "logs of volumes were not seen".to_owned())
                }
                (0, false, objects) if least_log.is_some_and(|log| objects == 0 || log < least) => {
                    ("warn", "Yes, but", survives("log", least_log.unwrap_or(0)))
                }
                (0, false, 0) => {
                    ("good", "Yes", format!("all {} are whole", count(status.objects, "object")))
                }
                (0, false, _) => ("warn", "Yes, but", survives("object", least)),
                (0, true, _) => ("bad", "Not known", "too many nodes are unavailable".to_owned()),
                (lost, ..) => ("bad", "No", format!("{} cannot be read", count(lost, "object"))),
            }
        }
    };
    let known = survey.is_some();
    context! { kind, word, why, known }
}

//! The plan of the repair that was begun last, as a picture.

use crate::page::View;
use crate::page::html::escape;
use crate::plan_picture::of_plan;

pub fn body(view: &View) -> Option<String> {
    let shown = view.state.plan.as_deref()?;
    let svg = of_plan(&shown.plan, shown.sub_bytes, Some(&shown.nodes));
    let costs = shown.plan.costs();
    let said = format!(
        "Plan of the repair of {} by strategy {}: what each node sends, receives and reads",
        shown.object,
        shown.plan.strategy()
    );
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&said));
    let svg = svg.replacen("<svg ", &label, 1);
    Some(format!(
        "<figure><div class=\"scroll picture\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Picture of the plan\">{svg}</div><figcaption>{}. {} sub-chunks travel, {} \
         at the busiest node.</figcaption></figure>",
        escape(&said),
        costs.bandwidth(),
        costs.max_load()
    ))
}

//! Metrics of a coordinator: space, risk, progress. The rows are the table.

use kiln_pool::{NodeStatus, PoolStatus};
use kiln_recovery::NodeLoad;
use kiln_volume::LogReport;

use super::{View, logs::LogsSeen};
use crate::monitor::{Metric, MetricFamily, Metrics};

/// All metrics, in the text format. What is not known yet is left out.
pub fn text(view: &View) -> String {
    let mut metrics =
        Metrics { counters: counters(view), gauges: progress(view), families: traffic(view) };
    if let Some(status) = view.state.survey.as_deref() {
        metrics.gauges.extend(risk(status));
        metrics.families.extend(nodes(status));
    }
    metrics.families.extend(logs(&view.logs));
    metrics.text("pool", &view.pool)
}

fn counters(view: &View) -> Vec<Metric> {
    let state = &view.state;
    let mut counters = vec![
        ("kiln_repairs", "Objects repaired", state.repaired),
        ("kiln_repairs_central", "Of these, computed by the coordinator", state.central),
        ("kiln_repairs_failed", "Objects that could not be repaired", state.failed),
        ("kiln_repairs_replanned", "Plans given up for others", state.replanned),
        ("kiln_repaired_bytes", "Bytes of shards rebuilt", state.rebuilt_bytes),
    ];
    if let Some(scrub) = &state.scrub {
        let rounds = scrub.position.rounds;
        counters.push(("kiln_scrub_rounds", "Scrubs of the whole pool that ended", rounds));
    }
    counters
}

fn progress(view: &View) -> Vec<Metric> {
    let state = &view.state;
    let left = state.planned_bytes.saturating_sub(state.kept_bytes);
    let surveyed = state.surveyed_ms.unwrap_or(0) / 1000;
    let mut gauges = vec![
        ("kiln_repairs_running", "Repairs that run", state.running.len() as u64),
        ("kiln_repair_left_bytes", "Bytes that planned repairs have still to rebuild", left),
        ("kiln_repair_rate_bytes", "Bytes rebuilt a second, lately", state.rate_bytes),
        ("kiln_surveyed_seconds", "When the pool was last looked at, since 1970", surveyed),
        (
            "kiln_survey_failed",
            "1: the last look at the pool failed",
            state.survey_error.is_some().into(),
        ),
        (
            "kiln_survey_logs_failed",
            "1: the last look at logs of volumes failed",
            view.logs.error.is_some().into(),
        ),
    ];
    if let Some(scrub) = &state.scrub {
        let position = &scrub.position;
        gauges.extend([
            ("kiln_scrub_objects", "Objects that the scrub has read", position.objects),
            ("kiln_scrub_read_bytes", "Bytes that the scrub has read", position.bytes_read),
            ("kiln_scrub_findings", "Damaged objects that the scrub found", position.findings),
            ("kiln_scrub_ended_seconds", "When one ended, since 1970", position.ended_ms / 1000),
            (
                "kiln_scrub_due_seconds",
                "When the next part is due, since 1970",
                scrub.due_ms / 1000,
            ),
            ("kiln_scrub_every_seconds", "From one scrub to the next", scrub.every_ms / 1000),
        ]);
    }
    gauges
}

fn risk(status: &PoolStatus) -> Vec<Metric> {
    vec![
        ("kiln_pool_objects", "Objects", status.objects),
        ("kiln_pool_bytes", "Bytes of all objects", status.bytes),
        ("kiln_pool_whole_objects", "Objects that lack nothing", status.whole),
        ("kiln_pool_unreadable_objects", "Objects that cannot be read now", status.unreadable),
        ("kiln_pool_unasked_objects", "Objects too many of whose nodes are away", status.unasked),
        ("kiln_pool_unclaimed_shards", "Shards of no known object", status.unclaimed),
        ("kiln_pool_rebuild_bytes", "Bytes that repairs have to write", status.to_rebuild),
        (
            "kiln_pool_incomplete",
            "1: so many nodes are away that there may be objects which only they know",
            status.incomplete.into(),
        ),
    ]
}

fn nodes(status: &PoolStatus) -> Vec<MetricFamily> {
    let rows = |value: &dyn Fn(&NodeStatus) -> Option<u64>| {
        status.nodes.iter().filter_map(|n| Some((n.id.clone(), value(n)?))).collect::<Vec<_>>()
    };
    let gauge = MetricFamily::gauge;
    let margins = status.endangered.iter().map(|(losses, n)| (losses.to_string(), *n)).collect();
    vec![
        gauge(
            "kiln_pool_endangered_objects",
            "Objects that lack something, by the losses that they still survive",
            "losses",
            margins,
        ),
        gauge("kiln_node_up", "1: it can be used", "node", rows(&|n| Some(n.present.into()))),
        gauge("kiln_node_total_bytes", "Bytes of its file system", "node", rows(&|n| n.total)),
        gauge("kiln_node_free_bytes", "Bytes that can be written", "node", rows(&|n| n.free)),
        gauge("kiln_node_shards", "Shards that are there", "node", rows(&|n| Some(n.shards))),
        gauge("kiln_node_missing_shards", "Shards it lacks", "node", rows(&|n| Some(n.missing))),
    ]
}

fn logs(seen: &LogsSeen) -> Vec<MetricFamily> {
    let rows = |value: &dyn Fn(&LogReport) -> usize| {
        seen.open().map(|log| (log.volume.clone(), value(log) as u64)).collect()
    };
    let (here, missing) = (LogReport::here, |log: &LogReport| log.copies.len() - log.here());
    vec![
        MetricFamily::gauge(
            "kiln_volume_log_copies",
            "Copies of a volume's log that can be read",
            "volume",
            rows(&here),
        ),
        MetricFamily::gauge(
            "kiln_volume_log_copies_missing",
            "Copies of a volume's log that cannot be read",
            "volume",
            rows(&missing),
        ),
    ]
}

fn traffic(view: &View) -> Vec<MetricFamily> {
    let rows = |value: fn(&NodeLoad) -> u64| {
        view.state.traffic.iter().map(|(id, load)| (id.clone(), value(load))).collect()
    };
    let counter = |name, help, value| MetricFamily::counter(name, help, "node", rows(value));
    vec![
        counter("kiln_repair_read_bytes", "Bytes read for repairs", |load| load.read),
        counter("kiln_repair_sent_bytes", "Bytes sent for repairs", |load| load.sent),
        counter("kiln_repair_received_bytes", "Bytes received for repairs", |load| load.received),
        counter("kiln_repair_written_bytes", "Bytes of rebuilt shards", |load| load.written),
    ]
}

use std::collections::BTreeMap;

use kiln_code::Codec;
use kiln_plan::{Problem, SearchBudget, strategy};
use kiln_pool::{NodeStatus, PoolStatus};
use kiln_recovery::{
    NodeLoad, Phase, RunningRepair, ScrubPosition, ScrubState, ShownPlan, Wait, WaitReason,
};
use kiln_volume::LogCopyState::{Away, Here, Missing};
use kiln_volume::{LogCopyState, LogReport};
use serde_json::Value;

use super::*;

/// A name that would break out of whatever it is put into.
const HOSTILE: &str = "<script>\"'&</b>\u{7}";

fn node(at: usize) -> NodeStatus {
    NodeStatus {
        id: format!("n{at}"),
        domain: HOSTILE.to_owned(),
        present: at != 3,
        total: (at != 3).then_some(1 << 40),
        free: (at != 3).then_some((1 << 38) * at as u64),
        shards: 100 + at as u64,
        why: (at == 3).then(|| HOSTILE.to_owned()),
        ..NodeStatus::default()
    }
}

/// The log of a volume on the first nodes.
fn log(volume: &str, states: &[LogCopyState]) -> Tended {
    let copies = states.iter().enumerate().map(|(at, state)| (format!("n{at}"), *state));
    let (volume, copies) = (volume.to_owned(), copies.collect());
    Tended::left(LogReport { volume, writer: HOSTILE.to_owned(), copies, key: String::new() })
}

/// Logs of all kinds.
fn logs() -> LogsSeen {
    let lacks = [Here, Missing, Here];
    let why = Some(HOSTILE.to_owned());
    let mut seen = LogsSeen::default();
    seen.see(
        1_789_999_985_000,
        Ok(vec![
            log("whole", &[Here; 3]),
            log(HOSTILE, &[Here, Away, Here]),
            Tended { closed: true, ..log("closed", &lacks) },
            Tended { in_use: true, why: why.clone(), ..log("used", &lacks) },
            Tended { why, ..log("stuck", &lacks) },
        ]),
    );
    seen
}

/// A pool in trouble: everything that can be shown is there.
fn view() -> View {
    let codec = Codec::new(&"clay:4+2".parse().unwrap()).unwrap();
    let (_, dag) = codec.repair_dag(&[3], &[0, 1, 2, 4, 5]).unwrap();
    let problem = Problem::on_own_nodes(dag).unwrap();
    let plan = strategy("hub").unwrap().plan(&problem, &mut SearchBudget::new(1)).unwrap();
    let nodes: Vec<String> = (0..7).map(|at| format!("n{at}")).collect();
    let object = HOSTILE.to_owned();
    let plan = ShownPlan { object: object.clone(), plan, nodes: nodes.clone(), sub_bytes: 4096 };
    let load = NodeLoad { sent: 5 << 20, received: 1 << 20, ..NodeLoad::default() };
    let survey = PoolStatus {
        pool: HOSTILE.to_owned(),
        objects: 1000,
        bytes: 5 << 40,
        whole: 900,
        endangered: BTreeMap::from([(-1, 2), (0, 8), (1, 90)]),
        unreadable: 2,
        to_rebuild: 3 << 30,
        nodes: (0..7).map(node).collect(),
        ..PoolStatus::default()
    };
    let repair = RunningRepair {
        object,
        lost: vec![3],
        bytes: 1 << 30,
        kept_bytes: 1 << 29,
        ..RunningRepair::default()
    };
    let until_ms = 1_790_000_061_000;
    let away = Wait { reason: WaitReason::Node, node: Some("n3".into()), until_ms };
    let state = RecoveryState {
        phase: Phase::Repairing,
        now_ms: 1_790_000_000_000,
        waits: vec![away],
        surveyed_ms: Some(1_789_999_990_000),
        survey_error: Some(HOSTILE.to_owned()),
        survey: Some(Arc::new(survey)),
        running: vec![repair],
        planned_bytes: 3 << 30,
        kept_bytes: 1 << 30,
        rate_bytes: 100 << 20,
        seconds_left: Some(21),
        repaired: 7,
        traffic: nodes.iter().map(|id| (id.clone(), load)).collect(),
        scrub: Some(ScrubState {
            position: ScrubPosition {
                began_ms: 1_789_000_000_000,
                after: Some(HOSTILE.to_owned()),
                objects: 500,
                findings: 1,
                ..ScrubPosition::default()
            },
            due_ms: 1_789_000_000_000,
            every_ms: 86_400_000 * 30,
        }),
        plan: Some(Arc::new(plan)),
        ..RecoveryState::default()
    };
    let limits = RateLimits { node: 50 << 20, total: 0 };
    View { pool: HOSTILE.to_owned(), state, limits, logs: logs(), now_ms: 1_790_000_000_000 }
}

/// Elements that are open at the end; all others were closed in their order.
fn open_elements(html: &str) -> Vec<&str> {
    const EMPTY: &[&str] = &["!doctype", "meta", "link"];
    let mut open = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag that ends");
        let (tag, after) = rest.split_at(end);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {after:.60}");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        if !EMPTY.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    open
}

#[test]
fn every_section_is_shown_and_whatever_comes_from_outside_is_text() {
    let view = view();
    let page = html::page(&view);
    assert_eq!(open_elements(&page), Vec::<&str>::new(), "{page}");
    for id in ["state", "waits", "repairs", "risk", "logs", "nodes", "traffic", "plan", "scrub"] {
        assert_eq!(page.matches(&format!("<section id=\"{id}\"")).count(), 1, "{id}: {page}");
    }
    assert!(!page.contains(HOSTILE) && !page.contains("<script>"), "{page}");
    assert_eq!(page.matches("<script").count(), 1, "{page}");
    let said = [
        "2 objects cannot be read",
        "node n3 to come back; then its shards are rebuilt elsewhere: <b>1:01 min</b>",
        "1 GiB of 3 GiB, 100 MiB/s, 21 s left",
        "given up in 1:01 min",
        "survives no further loss",
        "6 of 7 nodes are here",
        "Limit of each node: 50 MiB/s",
        "<svg role=\"img\"",
        "500 of 1000, up to",
        "4 open logs; 3 without all copies",
        "<span class=\"badge warn\">2 of 3</span></td>",
        "n1 has no copy any more",
        "n1 is unavailable",
        "closed</span> all of it is in objects now",
        "who looks after it",
        "its nodes are waited for",
        "Looked at 15 s ago",
    ];
    for words in said {
        assert!(page.contains(words), "{words}: {page}");
    }
    // Nothing comes from elsewhere.
    let links = page.split("href=\"").skip(1).chain(page.split("src=\"").skip(1));
    for link in links {
        assert!(link.starts_with(['/', '#']) || link.starts_with("data:,"), "{link:.40}");
    }
}

#[test]
fn before_the_first_look_there_is_a_page_too() {
    let board = Board::new("p", || 5);
    let page = board.document("/");
    assert!(page.status == 200 && page.body.contains("not known yet"), "{}", page.body);
    assert_eq!(open_elements(&page.body), Vec::<&str>::new());
    assert_eq!((board.document("/ready").status, board.document("/health").status), (503, 200));
    assert_eq!(board.document("/other").status, 404);
    let status: Value = serde_json::from_str(&board.document("/status.json").body).unwrap();
    assert_eq!(
        (&status["pool"], &status["coordinator"]["phase"]),
        (&"p".into(), &"surveying".into())
    );
}

#[test]
fn the_json_and_the_metrics_say_what_the_page_says() {
    let board = Board::new("", || 5);
    *board.view.lock().unwrap() = view();
    let status: Value = serde_json::from_str(&board.document("/status.json").body).unwrap();
    assert_eq!((&status["objects"], &status["endangered"]["0"]), (&1000.into(), &8.into()));
    let coordinator = &status["coordinator"];
    assert_eq!(coordinator["waits"][0]["for"], "node");
    assert_eq!(coordinator["running"][0]["kept_bytes"], 1 << 29);
    assert_eq!(coordinator["scrub"]["objects"], 500);
    assert_eq!(coordinator["traffic"]["n6"]["sent"], 5 << 20);
    // What kiln status says of logs, and what was done about them.
    assert_eq!(status["logs"].as_array().unwrap().len(), 3);
    assert_eq!(status["logs"][0]["copies"][1][1], "away");
    let seen = &status["volume_logs"];
    assert_eq!((&seen["seen_ms"], &seen["error"]), (&1_789_999_985_000_u64.into(), &Value::Null));
    let closed = |it: &Value| (it["volume"] == "closed", it["closed"] == true);
    let all: Vec<_> = seen["logs"].as_array().unwrap().iter().map(closed).collect();
    assert!(all.len() == 5 && all.iter().all(|(name, closed)| name == closed), "{seen}");
    let ready = board.document("/ready");
    assert!(ready.status == 503 && ready.body.contains("last look"), "{}", ready.body);
    let metrics = board.document("/metrics").body;
    for line in [
        "kiln_pool_objects{", "losses=\"0\"} 8", "kiln_node_up{", "node=\"n3\"} 0",
        "kiln_repaired_bytes_total{", "kiln_repair_sent_bytes_total{", "kiln_scrub_findings{",
        "kiln_survey_logs_failed{", "volume=\"used\"} 2", "volume=\"used\"} 1",
        "volume=\"whole\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn all_data_is_safe_only_where_no_log_lacks_a_copy() {
    let survey = PoolStatus { objects: 5, whole: 5, ..PoolStatus::default() };
    let state = RecoveryState { survey: Some(Arc::new(survey)), ..RecoveryState::default() };
    let board = Board::new("p", || 5);
    board.put(state, RateLimits::default());
    let shown = |words: &str| {
        let page = board.document("/").body;
        assert!(page.contains(words), "{words}: {page}");
        page
    };
    let said = |words: &str| {
        let safe = shown(words).contains("all 5 objects are whole");
        assert_eq!(safe, words.contains("Yes</"), "{words}");
    };
    said("Not known</span> logs of volumes were not seen");
    board.see_logs(Ok(vec![]));
    said("Yes</span>");
    board.see_logs(Ok(vec![log("a", &[Here; 3])]));
    said("Yes</span>");
    board.see_logs(Ok(vec![log("a", &[Here, Missing, Here]), log("b", &[Here; 3])]));
    said("the most endangered log survives 1 more loss");
    board.see_logs(Err("no pool".to_owned()));
    said("Not known</span> logs of volumes were not seen");
    shown("The last look at them failed</span> no pool");
    board.see_logs(Ok(vec![log("a", &[Away, Missing, Away])]));
    said("No</span> what a volume&#x27;s log alone has");
    // One that was closed stays closed until it is opened again.
    board.see_logs(Ok(vec![Tended { closed: true, ..log("a", &[Here, Missing]) }]));
    board.see_logs(Ok(vec![]));
    said("Yes</span>");
    shown("closed</span> all of it");
    board.see_logs(Ok(vec![log("a", &[Here; 3])]));
    assert!(!board.document("/").body.contains("closed</span>"));
}

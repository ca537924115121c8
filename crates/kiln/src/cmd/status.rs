//! `kiln status`

use std::time::Duration;

use clap::Args;
use kiln_pool::PoolStatus;
use kiln_pool::queue::{RepairQueue, Rules};

use crate::cmd::Command;
use crate::exit::{Exit, Failure};
use crate::print::{INCOMPLETE, Stream, count, table};
use crate::setup::{PoolFlags, Setup, now_ms};
use crate::sizes;

const EXAMPLES: &str = "\
Examples:
  kiln status
  kiln status --watch 5      again every 5 seconds, e.g. while a repair runs
  kiln status --json";

/// Show the state of a pool: nodes, objects, what is endangered
///
/// From file names alone: quick, but it does not notice corruption, which kiln scrub finds. Exit
/// code 1 means that something is missing or unavailable, 2 that an object cannot be read, or that
/// so many nodes are unavailable that there may be objects which only they know.
#[derive(Debug, Args)]
pub struct Status {
    /// Look again every so many seconds
    #[arg(long, value_name = "SECONDS")]
    watch: Option<u64>,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Command for Status {
    const NAME: &'static str = "status";
    const EXAMPLES: &'static str = EXAMPLES;

    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        loop {
            let status = self.look(setup)?;
            show(&status, setup)?;
            let Some(seconds) = self.watch else { return Ok(exit(&status)) };
            std::thread::sleep(Duration::from_secs(seconds.max(1)));
        }
    }
}

impl Status {
    fn look(&self, setup: &Setup) -> Result<PoolStatus, Failure> {
        let start = setup.seconds();
        let pool = self.pool.open_quietly(setup)?;
        let index = self.pool.index(&pool, setup)?;
        let mut queue = RepairQueue::new(Rules::default());
        let mut status = pool.survey(&index, &mut queue, now_ms())?;
        setup.observer.finish();
        status.seconds = setup.seconds() - start;
        Ok(status)
    }
}

fn exit(status: &PoolStatus) -> Exit {
    let away = status.nodes.iter().any(|node| !node.present);
    let whole = status.whole == status.objects && status.unclaimed == 0;
    match (status.unreadable, status.incomplete, whole && !away) {
        (0, false, true) => Exit::Done,
        (0, false, false) => Exit::Damaged,
        _ => Exit::NotRecoverable,
    }
}

fn show(status: &PoolStatus, setup: &Setup) -> Result<(), Failure> {
    if setup.json {
        return Stream::Stdout.json(status);
    }
    if setup.quiet {
        return Ok(());
    }
    let mut text = format!(
        "pool {}: {}, {}; {} whole\n",
        status.pool,
        count(status.objects, "object"),
        sizes::show(status.bytes),
        status.whole
    );
    for (margin, objects) in &status.endangered {
        let more = match margin {
            0 => "no further loss".to_owned(),
            1 => "1 more loss".to_owned(),
            margin => format!("{margin} more losses"),
        };
        text += &format!("  {} endangered: tolerates {more}\n", count(*objects, "object"));
    }
    if status.unreadable > 0 {
        text += &format!("  {} NOT READABLE now\n", count(status.unreadable, "object"));
    }
    if status.incomplete {
        text += INCOMPLETE;
    }
    if status.unclaimed > 0 {
        let shards = count(status.unclaimed, "shard");
        text += &format!("  {shards} of no known object; run kiln scrub\n");
    }
    if status.to_rebuild > 0 {
        text += &format!("  {} to rebuild; run kiln repair\n", sizes::show(status.to_rebuild));
    }
    let head = ["node", "domain", "state", "free", "of", "shards", "missing", "manifests"];
    let rows: Vec<Vec<String>> = (status.nodes.iter())
        .map(|node| {
            let state = match (node.present, node.draining, node.backfilling) {
                (false, ..) => "UNAVAILABLE",
                (true, true, _) => "draining",
                (true, false, true) => "new disk",
                (true, false, false) => "here",
            };
            let numbers = [node.shards, node.missing, node.manifests].map(|n| n.to_string());
            let bytes = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), sizes::show);
            let [free, total] = [node.free, node.total].map(bytes);
            let words = [node.id.clone(), node.domain.clone(), state.to_owned(), free, total];
            words.into_iter().chain(numbers).collect()
        })
        .collect();
    text += &table(&head, &rows);
    Stream::Stdout.text(&text)
}

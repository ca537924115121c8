//! "Whole" means that any m nodes may vanish, of volumes too: whenever a status says that all
//! objects and the log are whole, every pair of nodes is taken away and the volume is opened.

use kiln_pool::Index;
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_stripe::{Settings, Silent};
use kiln_volume::{OpenRequest, Rim, Volume};

use crate::common::*;
use crate::{history::History, recover::recover};

const SIZE: u64 = 512 << 10;

fn refreshed(rim: &Rim) -> Index {
    let index = Index::in_memory().unwrap();
    index.refresh(&rim.pool(), b"", &Silent).unwrap();
    index
}

/// Returns whether a status says so, of objects and logs.
fn is_whole(rim: &Rim) -> bool {
    let mut queue = RepairQueue::new(Rules::default());
    let status = rim.pool().repairer().survey(&refreshed(rim), &mut queue, 0).unwrap();
    let here = status.nodes.iter().all(|node| node.present);
    let log = Volume::log_report(rim, "v").unwrap();
    here && status.whole == status.objects && log.is_none_or(|log| log.is_whole())
}

fn repair(rim: &Rim) {
    let report =
        recover(&rim.pool(), &refreshed(rim), (1, false), &Settings::new(&Silent)).unwrap();
    assert_eq!(report.failed_count, 0, "{report:#?}");
}

/// Number of histories; the environment may ask for more.
fn histories() -> u64 {
    let given = std::env::var("KILN_VOLUME_HISTORIES").ok();
    given.map_or(1, |text| text.parse().expect("KILN_VOLUME_HISTORIES is a number"))
}

#[test]
fn a_whole_volume_survives_the_loss_of_any_m_nodes() {
    let mut whole = 0;
    for seed in 0..histories() {
        let cluster = Cluster::new("rs:3+2", 8);
        let rim = cluster.rim(&[], seed);
        Volume::create(&rim, "v", &small(SIZE)).unwrap();
        let (volume, mut history, mut random) = (open(&rim), History::new(SIZE), Random(seed));
        let nodes = cluster.nodes();
        for step in 0..10 {
            for _ in 0..8 {
                let plan = history.plan(&mut random);
                history.write(&volume, &plan).unwrap();
                // A step that fails while a node is lost is done later.
                let _ = (volume.seal(), volume.keep());
            }
            match random.below(4) {
                0 => cluster.kill(&nodes[random.below(8) as usize]),
                1 => drop(volume.keep_snapshot(&format!("s{step}"))),
                _ => {
                    cluster.disks.values().for_each(|disk| disk.heal());
                    volume.attend().unwrap();
                    repair(&cluster.rim(&[], 50 + step));
                }
            }
            if !is_whole(&cluster.rim(&[], 100 + step)) {
                continue;
            }
            whole += 1;
            for (at, one) in nodes.iter().enumerate() {
                for two in &nodes[..at] {
                    let what = format!("seed {seed}, step {step}, without {one} and {two}");
                    let after = cluster.copy(step).rim(&[one, two], 7);
                    let request = OpenRequest::of("after");
                    let opened = Volume::open(&after, "v", &request)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    history.clone().opened(&opened, &what);
                }
            }
            cluster.disks.values().for_each(|disk| disk.heal());
        }
    }
    assert!(whole > histories(), "{whole}");
}

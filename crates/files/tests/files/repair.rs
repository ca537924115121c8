//! Reads, reports and resumption of a repair.

use crate::helpers::*;
use crate::round_trip::codes;
use kiln_files::RepairRequest;

fn dry() -> RepairRequest {
    RepairRequest { dry_run: true, ..RepairRequest::default() }
}

#[test]
fn costs_equal_the_plan_times_stripes() {
    for (spec, sub_chunk) in codes() {
        let world = World::spread(spec, sub_chunk);
        let stripes = 3;
        let bytes = data(stripes * world.stripe());
        world.encode(&bytes);
        for lost in 0..world.n() {
            world.lose(lost);
            let available: Vec<usize> = (0..world.n()).filter(|&i| i != lost).collect();
            let plan = world.codec.repair_plan(&[lost], &available).unwrap();
            let expected = world.repair(&dry()).unwrap();
            assert!(expected.dry_run && !expected.verified);
            let report = world.repair(&RepairRequest::default()).unwrap();
            assert_eq!(numbers(&report), numbers(&expected), "{spec} {lost}");
            let read = plan.sub_chunks_read() * stripes * sub_chunk as usize;
            assert_eq!(report.bytes_read, read as u64);
            assert_eq!(report.read_runs, (plan.runs() * stripes) as u64);
            assert_eq!((report.bytes_sent, report.max_node_load), (read as u64, read as u64));
            assert_eq!(report.strategy, plan.strategy().name());
            assert_eq!(report.helpers.len(), plan.helpers().len());
            assert_eq!((report.lost, report.damaged_count), (vec![lost], 0));
            let sum: u64 = report.nodes.iter().map(|node| node.bytes_read).sum();
            assert_eq!(sum, report.bytes_read);
        }
        world.assert_one_each(&bytes);
    }
}

impl World {
    fn assert_one_each(&self, bytes: &[u8]) {
        for (index, store) in self.stores.iter().enumerate() {
            assert_eq!(kiln_store::Backend::list(&**store).unwrap(), [name(index)]);
        }
        self.assert_whole(bytes);
    }
}

#[test]
fn dry_run_agrees_for_several_losses_and_short_stripes() {
    for (spec, sub_chunk) in codes() {
        let world = World::spread(spec, sub_chunk);
        let m = world.codec.shape().m;
        let bytes = data(2 * world.stripe() + world.stripe() / 5);
        world.encode(&bytes);
        for first in 0..world.n() - m {
            let kept =
                |count: &usize| world.codec.tolerates(&(first..first + count).collect::<Vec<_>>());
            for count in (1..=m).filter(kept) {
                (first..first + count).for_each(|index| world.lose(index));
                let expected = world.repair(&dry()).unwrap();
                let report = world.repair(&RepairRequest::default()).unwrap();
                assert_eq!(numbers(&report), numbers(&expected), "{spec} {first}+{count}");
                assert!(report.max_node_load >= report.bytes_sent);
            }
        }
        world.assert_one_each(&bytes);
    }
}

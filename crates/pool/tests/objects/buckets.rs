//! Pools in buckets keep the promises of pools on disks; they neither rename nor append: the
//! same tests, over nodes that are as object stores are.

use std::sync::Arc;

use kiln_pool::{NodeConfig, Policy, Pool, PoolConfig};
use kiln_store::{Backend, MemoryBackend};
use kiln_testkit::Bucket;

use crate::world::{DISKS, Disks, World, data, manifest};

/// Runs a test of another file over such nodes.
fn over(disks: Disks, test: fn()) {
    DISKS.set(disks);
    test();
    DISKS.set(Disks::Files);
}

/// The same tests over each kind of nodes that these are.
macro_rules! hold {
    ($($file:ident::$test:ident,)*) => {
        /// Nodes that are buckets.
        mod bare {
            $(#[test] fn $test() { super::over(super::Disks::Buckets, crate::$file::$test); })*
        }
        /// Nodes that are buckets with an agent beside them, which has a folder for parts.
        mod served {
            $(#[test] fn $test() { super::over(super::Disks::Served, crate::$file::$test); })*
        }
    };
}

hold! {
    everyday::objects_of_all_sizes_come_back_whole_and_in_ranges,
    everyday::a_lost_range_is_rebuilt_by_the_cheapest_plan,
    everyday::any_m_nodes_may_be_lost_for_data_and_manifests,
    everyday::an_overwrite_replaces_and_leaves_nothing_behind,
    everyday::replacing_must_be_asked_for,
    everyday::a_put_goes_on_with_few_nodes_away_and_refuses_with_more,
    everyday::an_empty_mount_point_is_no_node_and_a_strange_disk_is_refused,
    everyday::two_writers_of_one_name_leave_one_whole_object,
    found::a_new_disk_does_not_testify_that_there_is_no_object,
    found::shards_that_nobody_names_stay_while_somebody_is_away,
    found::a_scrub_corrects_an_index_that_follows_an_old_manifest,
    sealed::a_forged_manifest_is_found_and_never_believed,
    sealed::keys_are_exchanged_while_the_pool_is_used,
    sealed::a_forged_map_is_no_map,
    sealed::a_pool_whose_key_is_lost_gets_another_one,
    pairs::after_every_pair_of_actions_m_further_losses_are_survived,
    space::shards_move_to_nodes_that_joined_and_no_others_do,
    sweep::a_fault_at_every_operation,
    kept::any_m_nodes_may_be_lost_for_all_that_is_kept,
    lost::nothing_is_made_in_an_empty_place_of_a_node,
    together::objects_put_together_have_their_own_ends,
    trust::an_old_disk_brings_nothing_back,
    trust::a_snapshot_brings_nothing_back,
    trust::a_corrupt_manifest_is_no_proof_that_there_is_nothing,
    trust::a_corrupt_manifest_brings_no_old_version_back,
    trust::a_lost_majority_is_given_up_by_force,
    trust::a_node_that_joined_is_no_loss,
    trust::nodes_that_are_back_are_witnesses,
    trust::a_scrub_finds_what_the_index_does_not_know,
    trust::an_object_without_a_manifest_is_made_again,
    trust::an_old_map_is_refused,
    trust::a_description_that_was_edited_is_agreed_on,
    vanish::whole_means_that_any_m_nodes_may_vanish,
}

/// Two writers put one version: one stood still for longer than its lock lasts. What was
/// acknowledged, on W homes, is read, whatever the order of the two; where homes that do not answer
/// could decide it, nothing is.
#[test]
fn of_two_writers_without_a_common_lock_the_acknowledged_one_is_read() {
    DISKS.set(Disks::Buckets);
    let (first, late) = (data(3_000, 1), data(3_500, 2));
    for late_has_the_larger_run in [true, false] {
        let world = World::new("rs:3+2", 6);
        world.put("x", &data(2_000, 3)).unwrap();
        // What each of them does by itself, from the same start.
        let mut mine = world.copy();
        let other = world.copy();
        let puts = if late_has_the_larger_run { [&mine, &other] } else { [&other, &mine] };
        let dummy = puts[1].run();
        assert_ne!(dummy, [0; 16]);
        mine.put("x", &first).unwrap();
        let report = other.put("x", &late).unwrap();
        let name = manifest("x");
        let at = |id: &String| other.config.position(id).unwrap();
        let homes: Vec<usize> = report.manifests.iter().map(at).collect();
        assert_eq!(homes.len(), 3);
        let free = (0..6).filter(|at| mine.disks[*at].memory.bytes(&name).is_none());
        // The late one got homes that the other did not need, and lost all others.
        let taken: Vec<usize> = free.take(2).collect();
        let manifest = other.disks[homes[0]].memory.bytes(&name).unwrap();
        taken.iter().for_each(|at| mine.disks[*at].memory.put(&name, manifest.clone()));
        assert!(mine.get("x").unwrap() == first);
        for at in homes {
            mine.away = [at].into();
            match mine.get("x") {
                Ok(bytes) => assert!(bytes == first),
                Err(error) => {
                    assert!(matches!(error, kiln_stripe::PoolError::Uncertain { .. }), "{error}");
                }
            }
        }
    }
    DISKS.set(Disks::Files);
}

#[test]
fn a_pool_takes_no_node_that_it_could_not_write_to() {
    let mut nodes: Vec<Arc<dyn Backend>> = Vec::new();
    nodes.extend((0..5).map(|_| Arc::new(MemoryBackend::new()) as Arc<dyn Backend>));
    nodes.push(Arc::new(Bucket::reads_only()));
    let mut config = PoolConfig::new([7; 16], "test", Policy::for_code("rs:4+2").unwrap());
    let config_of = |at: usize| NodeConfig::new(&format!("n{at}"), &format!("memory://{at}"));
    config.node = (0..6).map(config_of).collect();
    let open = |node: &NodeConfig| {
        let at: usize = node.id[1..].parse().unwrap();
        Ok(nodes[at].clone())
    };
    let refused = Pool::create(config.clone(), &open).unwrap_err();
    assert!(refused.to_string().contains("bucket cannot"), "{refused}");
    assert!(nodes.iter().all(|node| node.list().unwrap().is_empty()));
    // Written into the description by hand it counts as unavailable.
    let sixth = config.node.pop().unwrap();
    Pool::create(config.clone(), &open).unwrap();
    config.node.push(sixth);
    let pool = Pool::open(config, &open).unwrap();
    let away = pool.away();
    assert!(away.len() == 1 && away[0].1.contains("a node of a pool needs that"), "{away:?}");
}

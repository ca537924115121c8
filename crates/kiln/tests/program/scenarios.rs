//! Scenarios: tests of the program that need more than a session of commands, such as clients of
//! sockets, random damage and kills. They are the Python of the folder `scenarios`.

use std::{io::Write as _, process::Command};

/// Runs the folder `scenarios` with these words; gives what it prints.
pub fn python(words: &[&str]) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/scenarios");
    let mut command = Command::new("python3");
    // The program as cargo built it for these tests, or the one that the environment names.
    let program = std::env::var_os("KILN_PROGRAM");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_kiln").into());
    command.arg("-B").arg(folder).args(words).env("KILN_PROGRAM", program);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Past the capture of the test harness: skips and seeds must not go unseen.
    let _ = std::io::stderr().write_all(&output.stderr);
    String::from_utf8(output.stdout).unwrap()
}

/// One test for each of a file.
macro_rules! scenarios {
    ($($file:ident: $($test:ident)*;)*) => {
        $(mod $file {
            $(#[test]
            fn $test() {
                super::python(&[stringify!($file), stringify!($test)]);
            })*
        })*

        /// Runs no scenario that is missing here, so that none is forgotten.
        #[test]
        fn all_are_listed() {
            let listed = [$($(concat!(stringify!($file), "::", stringify!($test), "\n"),)*)*];
            assert_eq!(listed.concat(), python(&[]));
        }
    };
}

scenarios! {
    agent_havoc:
        a_helper_killed_at_any_moment_of_a_repair_is_done_without
        a_coordinator_that_was_killed_goes_on_where_it_was
        an_agent_that_stops_answering_for_a_while_is_waited_for
        a_shard_that_rots_during_a_repair_is_not_used_and_repaired_too
        limits_change_while_a_recovery_runs
        a_node_whose_disk_is_full_gets_no_shard
        a_helper_killed_while_somebody_reads_is_decoded_around;
    agents:
        an_agent_tells_its_metrics_and_ends_when_told
        an_agent_says_whether_it_lives_and_serves
        links_in_a_served_folder_lead_nowhere
        refused_peers_are_logged_with_their_address_and_not_too_often
        a_second_coordinator_is_refused_with_the_first_ones_address
        whoever_waits_for_a_lock_is_told_so_and_not_for_ever;
    at_once: clients_at_once_undo_nothing_of_each_other;
    disk:
        full_disk
        read_only_disk
        full_node_of_a_pool
        a_node_that_became_read_only_is_passed_over;
    documents:
        requests_are_understood_and_others_get_nothing
        silent_clients_keep_nobody_away
        a_page_of_another_site_is_refused_and_so_is_a_client_without_the_token
        only_loopback_addresses_need_no_token;
    havoc: random_damage_never_gives_a_wrong_byte;
    memory: a_long_stream_stays_below_half_a_gigabyte;
    nbd:
        hostile_clients_are_left_and_others_served
        clients_that_say_nothing_keep_no_others_out
        clients_that_read_nothing_keep_no_others_out;
    protect:
        a_kill_leaves_the_old_or_the_new_parity_and_files_old_or_restored
        damage_in_a_row_that_is_promised_to_be_survived_comes_back
        files_that_change_meanwhile_are_read_again_or_named
        a_full_disk_leaves_the_parity_in_force;
    raw: chunks_of_ceph;
    reads: a_plan_says_which_gaps_a_device_reads_through;
    requests:
        a_put_asks_few_times
        a_scrub_brings_back_what_hdfs_moved
        agents_bring_back_what_hdfs_moved;
    transfer_model: both_sides_are_the_same_after_a_sync;
    volumes:
        acknowledged_writes_survive_kills_and_lost_nodes
        volumes_of_agents_survive_agents_and_servers_that_are_killed
        a_log_leaves_nodes_that_leave_the_pool
        a_server_makes_nothing_in_the_empty_place_of_a_lost_node
        a_log_that_lost_a_copy_is_seen_and_repaired
        a_scrub_looks_at_logs_and_compares_their_copies
        the_page_of_a_coordinator_tells_of_logs
        a_log_without_any_copy_is_a_loss
        nodes_do_not_leave_with_the_log_of_a_dead_server
        a_server_tells_its_metrics_and_long_writes_go_past_the_log
        one_server_at_a_time_and_the_deposed_one_writes_nothing
        snapshots_and_clones_keep_what_they_are_of
        what_cannot_be_is_said
        a_smaller_volume_keeps_what_was_written_until_that_is_given_up
        volumes_keep_what_only_their_logs_have_when_keys_are_exchanged;
}

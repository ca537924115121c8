//! Sessions: commands with all that they print, see `scenarios/sessions.py`.

use crate::scenarios::python;

/// One test for each file, and for each page of commands that has a name of its own.
macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            python(&["sessions", stringify!($name)]);
        })*

        /// Runs no session that is missing here, so that none is forgotten.
        #[test]
        fn all_are_listed() {
            let mut listed = vec![$(concat!("sessions::", stringify!($name))),*];
            listed.sort_unstable();
            let mut there: Vec<String> =
                python(&["sessions"]).lines().map(str::to_owned).collect();
            there.sort_unstable();
            assert_eq!(listed, there);
        }
    };
}

sessions! {
    the_tutorial_is_true what_operators_read_is_true
    agent_pools agents caretaker commands copies damage encrypted kills mixed plans
    pool_kills pools protect reads recode sealed shards torture upgrades usage values versions
}

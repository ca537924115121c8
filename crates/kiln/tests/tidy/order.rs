//! Modules of one level stand in their `lib.rs` or mod file from what is used to what uses, so that
//! a crate can be read from the top: an import of a sibling that is declared below is an error. So
//! there are no circles, either. The script that also counts arrows for `make house` looks.

use std::process::Command;

use super::source::root;

#[test]
fn modules_stand_from_the_used_to_the_using() {
    let said = Command::new("python3").arg(".ci/modules.py").current_dir(root()).output().unwrap();
    let text = [said.stdout, said.stderr].concat();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&text));
}

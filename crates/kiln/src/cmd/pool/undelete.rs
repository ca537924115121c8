//! `kiln pool undelete`

use std::collections::BTreeMap;

use clap::Args;
use kiln_folders::is_attributes;
use kiln_stripe::PoolError;

use crate::exit::{Exit, Result};
use crate::setup::{At, PoolFlags, Setup, moment};
use crate::transfer::records::{Entries, add_entry};
use crate::transfer::{Report, Transfer, at_once, pool_tree::PoolTree, refuse_reserved};
use crate::{args::in_pool, print::count, transfer::attributes::Entry};

#[derive(Debug, Args)]
pub struct Undelete {
    /// An object, or a folder of them
    #[arg(value_parser = in_pool)]
    name: String,
    /// Bring back what was in force then, as for kiln ls [default: what was removed last]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<At>,
    /// Replace objects that are there; their versions now are kept by the same rules
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Undelete {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let name = self.name.trim_end_matches('/');
        refuse_reserved(name)?;
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let at = self.at.map(|at| at.of(pool.config(), name)).transpose()?;
        let (force, skip) = (self.force, false);
        let transfer = Transfer { pool: &pool, index: &index, setup, force, skip };
        let mut tree = PoolTree::of_versions(&transfer, name, |versions| match at {
            Some(at) => versions.iter().find(|one| one.was_at(at)),
            // Attributes of a folder say which versions of objects they belong to.
            None => {
                versions.first().filter(|one| one.until_ms.is_some() || is_attributes(&one.name))
            }
        })?;
        let entries = recorded(&tree, &PoolTree::new(&transfer, name)?, force);
        // Objects that are still in force need no more than that.
        tree.objects.retain(|_, object| object.past.is_some());
        let mut kept = BTreeMap::new();
        let names: Vec<&String> = tree.objects.keys().filter(|_| !force).collect();
        for (name, is_there) in names.iter().zip(at_once(&names, |name| pool.writer().has(name))) {
            if is_there? {
                let what = format!("object {name:?} is there");
                return Err(PoolError::Exists { what }.into());
            }
        }
        for (name, object) in &tree.objects {
            let past = object.past.as_deref().unwrap_or(name);
            kept.insert(past, (name.clone(), object.entry.as_ref()));
        }
        if kept.is_empty() && entries.is_empty() {
            let name = format!("{name} to bring back");
            return Err(PoolError::NoObject { name }.into());
        }
        let mut report = Report::default();
        transfer.keep_objects(kept, entries, &mut report);
        setup.observer.finish();
        if report.is_whole() {
            let restored: Vec<&String> = tree.objects.keys().collect();
            let objects = count(restored.len() as u64, "object");
            let shown = serde_json::json!({ "restored": restored });
            setup.report(&shown, || format!("{objects} restored\n"))?;
        }
        report.end_quietly(setup)
    }
}

/// Records to be made again of links, folders and objects that are still in force: those that are
/// lacking `now` or, with `force`, are others. An object or a folder with objects stays one.
fn recorded(tree: &PoolTree, now: &PoolTree, force: bool) -> Entries {
    let mut entries = Entries::new();
    let in_force = tree.objects.iter().filter(|(_, object)| object.past.is_none());
    let in_force = in_force.filter_map(|(name, object)| Some((name, object.entry.as_ref()?)));
    for (name, entry) in in_force.chain(&tree.others) {
        let object = now.objects.get(name);
        let there = object.map_or(now.others.get(name), |object| object.entry.as_ref());
        let fits = match entry {
            Entry::Link { .. } if now.has_data_in(name) => false,
            entry => object.is_some() == matches!(entry, Entry::File { .. }),
        };
        if fits && there != Some(entry) && (force || there.is_none()) {
            add_entry(&mut entries, name, entry.clone());
        }
    }
    entries
}

//! `kiln pool add-node`

use clap::Args;
use kiln_pool::{Membership, NodeConfig};
use kiln_store::Absent;
use minijinja::context;

use super::{domains, node};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{Confirm, PoolFlags, Setup, fresh_run};

#[derive(Debug, Args)]
pub struct AddNode {
    /// Id of the node
    #[arg(value_name = "ID")]
    id: String,
    /// PLACE[,domain=DOMAIN][,weight=NUMBER]; not needed to replace a disk in its old place.
    /// Without a domain it joins the nodes of its host or disk
    #[allow(rustdoc::broken_intra_doc_links)] // brackets of syntax, in what --help prints
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The node is there already, and its disk was lost: take an empty one in its place
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pool: PoolFlags,
}

impl AddNode {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("config")?;
        let pool = self.pool.open_quietly(setup)?;
        let config = pool.config();
        let wrong = |problem: String| Failure::Flag { flag: "ID", problem };
        let new = self.node.as_deref().map(|text| node(text, &self.id)).transpose()?;
        match (config.position(&self.id), &new, self.replace) {
            (Some(_), _, false) => {
                let id = &self.id;
                return Err(wrong(format!("node {id} exists; give --replace for a new disk")));
            }
            (None, _, true) => return Err(wrong(format!("there is no node {}", self.id))),
            (None, None, false) => {
                return Err(wrong("its place is missing; name a folder or URL".into()));
            }
            _ => {}
        }
        let same = |node: &&NodeConfig| new.as_ref().is_some_and(|new| new.url == node.url);
        if let Some(NodeConfig { id, url, .. }) = config.node.iter().find(same)
            && *id != self.id
        {
            return Err(wrong(format!(
                "{url} is where node {id} is; kiln pool add-node {id} --replace takes an empty \
                 disk there"
            )));
        }
        let here = config.position(&self.id).map(|at| config.node[at].clone());
        // One of the two is there, by what was refused above.
        let Some(node) = new.or(here) else { return Err(wrong("where is it?".into())) };
        let node = domains::joined(config, node)?;
        if self.replace && !pool.away().iter().any(|(away, _)| away.id == self.id) {
            let what = format!(
                "node {} is healthy, and its shards are given up; kiln pool drain moves them",
                self.id
            );
            self.confirm.ask(&what)?;
        }
        self.confirm.ask_for_folder(node.url.as_ref())?;
        let take = if self.replace { Membership::replace_disk } else { Membership::add_node };
        let open = |node: &NodeConfig| setup.open_node(node, Absent::Create);
        let domain = node.domain.clone();
        let config = take(&pool.members(), node, fresh_run(), &open, &setup.settings())?;
        self.pool.reopen(config.clone(), setup)?;
        let notes = match self.node {
            Some(_) => domains::notes_of_shared(&config)?,
            None => Vec::new(),
        };
        let more = context! { id => self.id, domain, replaced => self.replace, notes };
        setup.tell("pool add-node", &config, more)
    }
}

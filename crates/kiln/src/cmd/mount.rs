//! `kiln mount`

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::{thread, time::Duration};

use clap::Args;
use fuser::{Config, MountOption, Session, SessionACL};
use kiln_pool::Pool;
use kiln_stripe::PoolError;
use parking_lot::{Mutex, RwLock};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{getegid, geteuid};

use crate::args::{help, in_pool};
use crate::cmd::agent::until_told;
use crate::exit::{Exit, Failure, Result};
use crate::mount::{Kind, Mount as Mounted, Source, fuse::Door, tree::Inodes};
use crate::print::{fields, warning_line};
use crate::setup::{At, PoolFlags, Setup, buckets, moment};
use crate::transfer::{Transfer, pool_tree::PoolTree, refuse_reserved};

/// Requests that are served at a time.
const THREADS: usize = 6;
/// Metadata that changed is written so often.
const SETTLED: Duration = Duration::from_millis(200);
/// A mount that did not end by then is in use.
const IN_USE: Duration = Duration::from_secs(1);
/// Nodes that were away are looked for so often, counted in these.
const LOOKED_FOR: u32 = 50;

/// Show a pool as a folder of this machine, through FUSE
///
/// Files are read at any place, also while nodes are away, and written whole. The command serves
/// the folder until that is unmounted or a signal ends it. Changes of other clients are seen after
/// a second.
#[derive(Debug, Args)]
#[command(after_help = help("mount"))]
pub struct Mount {
    /// Empty folder to mount at
    dir: PathBuf,
    /// Folder of the pool to show [default: all of it]
    #[arg(default_value = "", hide_default_value = true, value_parser = in_pool)]
    prefix: String,
    /// As it was then, as for kiln ls; nothing can be changed
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<At>,
    /// Refuse changes
    #[arg(long)]
    read_only: bool,
    /// Let other users in, by owners and modes of files
    #[arg(long)]
    allow_other: bool,
    /// Folder for files that are being written [default: $TMPDIR, else /tmp]
    #[arg(long, value_name = "DIR")]
    parts: Option<PathBuf>,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Mount {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        pool.config().check_data_key()?;
        let root = self.prefix.trim_end_matches('/');
        refuse_reserved(root)?;
        let parts = self.parts.clone().unwrap_or_else(std::env::temp_dir);
        self.check_places(&pool, &parts)?;
        let names = self.names(&pool, root, setup)?;
        setup.observer.finish();
        let mounted = Mounted {
            setup: setup.background(),
            flags: self.pool.clone(),
            pool: RwLock::new(Arc::new(pool)),
            names,
            inodes: Mutex::new(Inodes::new(root, (1, 0, 0))),
            owner: (geteuid().as_raw(), getegid().as_raw()),
            parts,
            metadata: Default::default(),
            files: Default::default(),
            corrected: Default::default(),
            lists: Default::default(),
            handles: Default::default(),
        };
        match mounted.look_for(root).map_err(|refusal| failed(&self.dir, refusal.into()))? {
            Some(node) if node.kind == Kind::Folder => self.serve(Arc::new(mounted), setup),
            _ => Err(PoolError::NoObject { name: format!("{root}/") }.into()),
        }
    }

    /// Refuses places that would hide the pool from this process, or lie in it.
    fn check_places(&self, pool: &Pool, parts: &Path) -> Result<()> {
        let real = |path: &Path| path.canonicalize().map_err(|source| failed(path, source));
        let (dir, parts) = (real(&self.dir)?, real(parts)?);
        let own = self.pool.own_paths(pool);
        let mut hidden = own.iter().chain([&parts]).filter(|own| own.starts_with(&dir));
        let problem = match (hidden.next(), own.iter().find(|own| dir.starts_with(own))) {
            (Some(own), _) => format!("{} lies in it", own.display()),
            (None, Some(own)) => format!("it lies in {}", own.display()),
            _ => match dir.read_dir().map_err(|source| failed(&dir, source))?.next() {
                Some(_) => "it is not empty".to_owned(),
                None => return Ok(()),
            },
        };
        Err(Failure::NotUsable { path: self.dir.clone(), problem })
    }

    fn names(&self, pool: &Pool, root: &str, setup: &Setup) -> Result<Source> {
        let Some(at) = &self.at else {
            let index = buckets::index_to_serve(&self.pool)?;
            return Ok(Source::Now { index, boot: buckets::boot(), looked: Mutex::default() });
        };
        let (at, index) = (at.of(pool.config(), root)?, self.pool.index_to_list(pool, setup)?);
        let transfer = Transfer { pool, index: &index, setup, force: false, skip: false };
        let choose = |one: &kiln_pool::Version| one.was_at(at);
        let tree = PoolTree::of_versions(&transfer, root, |all| all.iter().find(|one| choose(one)));
        Ok(Source::Then(tree?))
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        let read_only = self.read_only || self.at.is_some();
        config.mount_options = vec![
            MountOption::FSName("kiln".into()),
            MountOption::Subtype("kiln".into()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoAtime,
            if read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.acl = if self.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        config
    }

    fn serve(&self, mounted: Arc<Mounted>, setup: &Setup) -> Result<Exit> {
        let failed = |source| failed(&self.dir, source);
        let beside = Arc::downgrade(&mounted);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let session = Session::new(Door(mounted), &self.dir, &self.config());
        let mut session = session.map_err(failed)?;
        let mut unmounter = session.unmount_callable();
        thread::spawn(move || tend(&beside));
        let dir = self.dir.display().to_string();
        setup.answer(&fields! { mounted: &dir }, || format!("mounted at {dir}\n"))?;
        let (tell, mut ended) = tokio::sync::oneshot::channel();
        thread::spawn(move || tell.send(session.run()));
        runtime.block_on(async {
            tokio::select! {
                end = &mut ended => return end.unwrap_or(Ok(())).map_err(failed),
                _ = until_told() => {}
            }
            if unmounter.unmount().is_err() {
                let _ = unmount(&self.dir, UnmountFlags::DETACH);
            }
            // A container or network namespace that began meanwhile has the mount, too.
            if let Ok(end) = tokio::time::timeout(IN_USE, &mut ended).await {
                return end.unwrap_or(Ok(())).map_err(failed);
            }
            warning_line(&format!(
                "{dir}: in use by a process or a container, its end is awaited; a second signal \
                 is not"
            ));
            tokio::select! {
                end = &mut ended => end.unwrap_or(Ok(())).map_err(failed),
                _ = until_told() => Ok(()),
            }
        })?;
        Ok(Exit::Done)
    }
}

fn failed(path: &Path, source: std::io::Error) -> Failure {
    Failure::Io { action: "mount at", path: path.to_owned(), source }
}

/// Writes records that changed, and looks for nodes that were away, as long as there is the mount.
fn tend(mounted: &Weak<Mounted>) {
    let mut wait = SETTLED;
    for round in 1u32.. {
        thread::sleep(wait);
        let Some(mounted) = mounted.upgrade() else { return };
        // Records that could not be written are written the next time.
        wait = if mounted.settle().is_ok() { SETTLED } else { 10 * SETTLED };
        if round % LOOKED_FOR == 0 && !mounted.pool().found_away().is_empty() {
            let _ = mounted.open_again();
        }
    }
}

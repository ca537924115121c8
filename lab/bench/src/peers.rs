//! All engines of a run: kiln first, then the peers that were found.

use crate::ceiling::Ceiling;
use crate::cell::Footprint;
use crate::engine::{Engine, Family, Job, Operation};
use crate::kiln::Kiln;
use crate::peer::{LIBRARIES, Peer};
use serde::Serialize;
use std::path::Path;

/// A library that was found, or why not.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// File name without ending.
    pub library: String,
    /// Name and version, if it was found.
    pub version: Option<String>,
    /// Why it takes no part, if it does not.
    pub missing: Option<String>,
}

/// kiln, its peers and the ceilings.
pub struct Engines {
    engines: Vec<Box<dyn Engine>>,
    /// Every library that was looked for.
    pub found: Vec<Found>,
}

impl Engines {
    /// kiln alone, in all its forms.
    pub fn alone() -> Engines {
        let forms = [Kiln::USUAL, Kiln::TEMPORAL].into_iter().chain(Kiln::variants());
        let engines = forms.map(|form| Box::new(form) as Box<dyn Engine>).collect();
        Engines { engines, found: Vec::new() }
    }

    /// kiln and what is found in the folder; the rest is named on standard error.
    pub fn load(folder: &Path) -> Engines {
        let mut all = Engines::alone();
        for library in LIBRARIES {
            let mut found = Found { library: library.to_string(), version: None, missing: None };
            match Peer::load(&folder.join(format!("{library}.so"))) {
                Ok(peers) => {
                    found.version = peers.first().map(|peer| peer.version().to_string());
                    for peer in peers {
                        all.engines.push(match *library {
                            "ceiling" => Box::new(Ceiling::new(peer)),
                            _ => Box::new(peer),
                        });
                    }
                }
                Err(error) => {
                    eprintln!("!! PEER MISSING: {error}");
                    found.missing = Some(error.to_string());
                }
            }
            all.found.push(found);
        }
        all
    }

    /// All engines, kiln first.
    pub fn all(&self) -> impl Iterator<Item = &dyn Engine> {
        self.engines.iter().map(AsRef::as_ref)
    }

    /// An engine by name.
    pub fn get(&self, name: &str) -> Option<&dyn Engine> {
        self.all().find(|engine| engine.name() == name)
    }

    /// Whether an engine may be asked for a job at all; the rest is its own to refuse.
    pub fn knows(engine: &dyn Engine, job: &Job, footprint: Footprint) -> bool {
        let name = engine.name();
        // In the caches both forms are one.
        if name == Kiln::TEMPORAL_NAME && !footprint.is_memory() {
            return false;
        }
        let ours = name == "kiln" || name.starts_with("kiln-");
        let clay = ours || name.contains("clay");
        let rs = ours || !name.contains("clay");
        match (name.starts_with("ceiling:"), job.family) {
            (true, _) => job.operation != Operation::Repair(2),
            // Codes of bit matrices: the case `xor` asks for them.
            _ if name.starts_with("jerasure-") => false,
            (_, Family::Clay) => clay,
            (_, Family::Rs) => rs,
        }
    }
}

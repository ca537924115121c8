//! What goes wrong at given moments; [`super::Faults`] is what goes wrong now and then.

use std::time::Duration;

use kiln_store::{Backend, MemoryBackend};

use super::World;
use super::faults::Random;
use super::world::Happens;

/// Something that goes wrong.
///
/// ```
/// use std::time::Duration;
/// use kiln_node::sim::{Mishap, What};
/// let what = What::Cut { host: 2, time: Duration::from_secs(30) };
/// let cut = Mishap { at: Duration::from_secs(5), what };
/// assert_eq!(cut.at.as_secs(), 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mishap {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// Kinds of mishaps.
///
/// ```
/// assert_ne!(kiln_node::sim::What::Outage, kiln_node::sim::What::Lose { host: 0 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A host loses power and comes back after so long, if ever; its disk keeps what it must.
    Crash {
        /// The host.
        host: usize,
        /// `None`: it stays away until all is healed.
        back: Option<Duration>,
    },
    /// All hosts lose power at once and come back after moments of their own.
    Outage,
    /// Nobody reaches a host for so long; nobody is told.
    Cut {
        /// The host.
        host: usize,
        /// How long.
        time: Duration,
    },
    /// A client reaches nobody for so long.
    CutClient {
        /// The client.
        client: usize,
        /// How long.
        time: Duration,
    },
    /// A client's process ends.
    Kill {
        /// The client.
        client: usize,
    },
    /// A disk has room for so many more bytes.
    Full {
        /// The host.
        host: usize,
        /// The room.
        bytes: u64,
    },
    /// A disk takes so many times longer.
    Slow {
        /// The host.
        host: usize,
        /// How many times.
        factor: u64,
    },
    /// So many of a thousand jobs of a disk fail.
    Sick {
        /// The host.
        host: usize,
        /// How many.
        per_mille: u64,
    },
    /// Bits of every other file of the pool on a host flip.
    Rot {
        /// The host.
        host: usize,
    },
    /// A host is gone with its disk.
    Lose {
        /// The host.
        host: usize,
    },
    /// A disk keeps nothing of what it says is durable, and returns wrong bits now and then.
    Lie {
        /// The host.
        host: usize,
    },
}

impl World {
    /// A mishap happens.
    pub(super) fn mishap(&mut self, number: usize) {
        let Some(mishap) = self.mishaps.get(number).cloned() else { return };
        let seed = self.random.next();
        match mishap.what {
            What::Crash { host, back } => {
                self.crash(host);
                if let Some(back) = back {
                    self.at(self.now + back, Happens::Return { host });
                }
            }
            What::Outage => {
                for host in 0..self.hosts.len() {
                    self.crash(host);
                    let back = self.now + self.random.millis(20_000);
                    self.at(back, Happens::Return { host });
                }
            }
            What::Cut { host, time } => self.hosts[host].cut_until = self.now + time,
            What::CutClient { client, time } => self.clients.cut(client, self.now + time),
            What::Kill { client } => {
                self.clients.kill(client);
                self.kill_client(client);
            }
            What::Full { host, bytes } => self.hosts[host].health.limit_space(bytes),
            What::Slow { host, factor } => self.hosts[host].health.slow_down(factor),
            What::Sick { host, per_mille } => self.hosts[host].health.fail(per_mille),
            What::Lie { host } => self.hosts[host].health.lie(seed),
            What::Rot { host } => rot(&self.hosts[host].disk, &mut Random(seed)),
            What::Lose { host } => {
                self.crash(host);
                self.hosts[host].lost = true;
                self.hosts[host].set_disk(MemoryBackend::new());
            }
        }
    }

    /// Hosts that lost their disk.
    pub(super) fn lost(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].lost).collect()
    }

    pub(super) fn replace_disk(&mut self, host: usize) {
        self.hosts[host].lost = false;
        self.return_host(host);
    }

    /// Ends all mishaps, those to come too.
    pub(super) fn heal(&mut self) -> Vec<usize> {
        self.mishaps.clear();
        self.faults.heal();
        let lost = self.lost();
        for host in 0..self.hosts.len() {
            self.hosts[host].health.heal();
            self.hosts[host].cut_until = Duration::ZERO;
            self.replace_disk(host);
        }
        self.clients.heal();
        lost
    }
}

/// Flips a bit in every other file; what tells whose disk it is stays, as people see to that.
fn rot(disk: &MemoryBackend, random: &mut Random) {
    for name in disk.list().unwrap_or_default() {
        let Some(mut bytes) = disk.bytes(&name) else { continue };
        if name.ends_with(".toml") || bytes.is_empty() || random.below(2) == 0 {
            continue;
        }
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        disk.put(&name, bytes);
    }
}

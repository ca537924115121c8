//! Mishaps happen to a world, and it is healed of them.

use std::time::Duration;

use kiln_store::{Backend, MemoryBackend};

use super::{Faults, Happens, Host, World};
use crate::sim::disk::{Health, elsewhere};
use crate::sim::scheduled_faults::What;
use kiln_testkit::Random;

impl World {
    /// A scheduled fault happens.
    pub(in crate::sim) fn fault(&mut self, number: usize) {
        let Some(fault) = self.scheduled_faults.get(number).cloned() else { return };
        let seed = self.random.next();
        match fault.what {
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
            What::Exchange { host, version } => self.exchange(host, version),
            What::Cut { host, time } => self.hosts[host].cut_until = self.now + time,
            What::CutClient { client, time } => self.clients.cut(client, self.now + time),
            What::Kill { client } => {
                self.clients.kill(client);
                self.kill_client(client);
            }
            What::Full { host, bytes } => self.hosts[host].health.limit_space(bytes),
            What::SlowNodes { host, factor } => self.hosts[host].health.slow_down(factor),
            What::Sick { host, per_mille } => self.hosts[host].health.fail(per_mille),
            What::Lie { host } => self.hosts[host].health.lie(seed),
            What::Rot { host } => rot(&self.hosts[host].disk, &mut Random(seed)),
            What::Misdirect { host } => {
                let Host { disk, health, .. } = &self.hosts[host];
                misdirect(disk, health, &mut Random(seed));
            }
            What::Lose { host } => {
                self.crash(host);
                self.hosts[host].lost = true;
                self.hosts[host].set_disk(MemoryBackend::new());
            }
        }
    }

    /// Hosts that lost their disk.
    pub(in crate::sim) fn lost(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].lost).collect()
    }

    pub(in crate::sim) fn replace_disk(&mut self, host: usize) {
        self.hosts[host].lost = false;
        self.return_host(host);
    }

    pub(in crate::sim) fn snapshot(&mut self, host: usize) -> MemoryBackend {
        let seed = self.random.next();
        self.hosts[host].disk.crash(seed)
    }

    pub(in crate::sim) fn swap_disk(&mut self, host: usize, disk: MemoryBackend) -> MemoryBackend {
        self.crash(host);
        let old = self.hosts[host].disk.clone();
        self.hosts[host].set_disk(disk);
        self.hosts[host].lost = false;
        self.return_host(host);
        old
    }

    /// Ends all scheduled faults, those to come too.
    pub(in crate::sim) fn heal(&mut self) -> Vec<usize> {
        self.scheduled_faults.clear();
        // Delays stay.
        let Faults { delay_ms, disk_ms, .. } = self.faults;
        self.faults = Faults { delay_ms, disk_ms, ..Faults::default() };
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

/// Puts another file's bytes in the place of every other file, but for what tells whose disk it
/// is, and logs.
fn misdirect(disk: &MemoryBackend, health: &Health, random: &mut Random) {
    for name in disk.list().unwrap_or_default() {
        let from = if random.one_in(2) { None } else { elsewhere(disk, &name, random) };
        if let Some(bytes) = from.and_then(|from| disk.bytes(&from))
            && disk.bytes(&name).as_ref() != Some(&bytes)
        {
            disk.put(&name, bytes);
            health.went_wrong("misdirected", &name);
        }
    }
}

/// Flips a bit in every other file, the copy of the map included; what tells whose disk it is
/// stays, as people see to that.
fn rot(disk: &MemoryBackend, random: &mut Random) {
    for name in disk.list().unwrap_or_default() {
        let Some(mut bytes) = disk.bytes(&name) else { continue };
        if name == "kiln-node.toml" || bytes.is_empty() || random.below(2) == 0 {
            continue;
        }
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        disk.put(&name, bytes);
    }
}

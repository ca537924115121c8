//! The cluster of a seed: its size, its code, and its faults.

use std::time::Duration;

use kiln_net::proto::{VERSION, VERSION_LEAST};
use kiln_plan::STRATEGIES;
use kiln_pool::Policy;
use kiln_recovery::batch::JOINT;
use kiln_recovery::sim::{Faults, Random, ScheduledFault, What};

/// A time below so many milliseconds, in whole ones.
pub fn millis(random: &mut Random, limit: u64) -> Duration {
    Duration::from_millis(random.below(limit))
}

/// Clients that put and get, beside the one that looks after the pool (the first of all), and the
/// one that changes its members (the last).
pub const USERS: usize = 3;
const CLIENTS: usize = USERS + 2;
/// Clients that write to a volume, where there is one; after all others.
pub const WRITERS: usize = 2;

/// All that goes wrong takes place within about a minute and a half.
const ALL_HAPPENED: Duration = Duration::from_secs(90);

/// Hosts that are no members at first.
const SPARE_HOSTS: usize = 2;

/// A client's clock, in ms against the right one.
#[derive(Debug, Default, Clone, Copy)]
pub struct Clock {
    skew: i64,
    /// It jumps by so much at some moment.
    jump: Option<(Duration, i64)>,
}

impl Clock {
    pub fn at(&self, now: Duration) -> i64 {
        let jumped = self.jump.filter(|(at, _)| *at <= now).map_or(0, |(_, by)| by);
        self.skew + jumped
    }

    fn of(random: &mut Random) -> Clock {
        // Days, so that any time of grace is over at once, or never.
        let some = |random: &mut Random| match random.below(3) {
            0 => random.below(6 * 86_400_000) as i64 - 3 * 86_400_000,
            _ => random.below(4_000) as i64 - 2_000,
        };
        let skew = some(random);
        let jump = random.one_in(3).then(|| (millis(random, 60_000), some(random)));
        Clock { skew, jump }
    }
}

/// Rare branches that some scenarios are steered to; luck alone takes them too seldom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steered {
    /// The first change is a drain whose shards the coordinator moves, from agent to agent.
    HandOver,
    /// The first change is another coordinator, begun while the first one is cut off.
    Rival,
    /// The first change is another weight of a node, and shards move to where they belong then.
    Spread,
    /// A node is away, and the others are for moments, while agents help to read.
    Helpers,
    /// All changes are drains of a node that has the volume's log.
    DrainLog,
}

/// A cluster and its fate.
#[derive(Debug)]
pub struct Scenario {
    pub code: &'static str,
    pub hosts: usize,
    pub policy: Policy,
    /// Domains that a put needs, so as many as must take part.
    pub domains: usize,
    /// Disks that may be hurt at a time.
    pub tolerates: usize,
    /// Hosts whose disks lose or damage what they had.
    pub hurt: Vec<usize>,
    /// More disks are hurt than the code tolerates.
    pub overload: bool,
    pub faults: Faults,
    pub scheduled_faults: Vec<ScheduledFault>,
    /// Nothing goes wrong but with disks that are hurt, and with changes of members: then snapshots
    /// are restored. A disk that is rolled back, and one that missed something since the last
    /// scrub, count together: if one of a version's copies is on the first, and an older version is
    /// on the second, then both are like disks that lie. More than m of these no quorum of m + 1
    /// of 2m + 1 tolerates, and any broken connection can make a disk miss something.
    pub calm: bool,
    /// Operations of each user.
    pub operations: u64,
    /// Changes of members, and of disks.
    pub changes: u64,
    /// The rare branch that it is steered to.
    pub steered: Option<Steered>,
    /// By client.
    pub clocks: Vec<Clock>,
    pub strategy: &'static str,
    /// Repairs at once.
    pub jobs: usize,
    /// There is a volume, and clients that take it from each other.
    pub volume: bool,
    /// Manifests and shards are sealed by a key.
    pub sealed: bool,
    /// Versions that are replaced are kept.
    pub keeps: bool,
    /// The latest version of the wire that agents and clients speak at first; all speak the latest
    /// one where it says nothing.
    pub versions: (Vec<u8>, Vec<u8>),
}

impl Scenario {
    pub fn of_seed(seed: u64) -> Scenario {
        let mut random = Random(seed ^ 0x5ce7_a210);
        let code = ["rs:2+1", "clay:2+2", "clay:3+2", "rs:3+2"][random.below(4) as usize];
        let mut policy = policy_of(code);
        let m = policy.manifest_copies - 1;
        if random.one_in(2) {
            policy.missing_at_put = 0;
        }
        let domains = code.parse::<kiln_code::CodeSpec>().unwrap().k() + m;
        let hosts = domains + 1 + random.below(2) as usize;
        let overload = random.one_in(12);
        let calm = random.one_in(4);
        // A shard that was left out at the put is lost as well.
        let tolerates = if overload { m + 1 } else { m - policy.missing_at_put };
        // More than half of the disks: no change of the map can be agreed on.
        let ruined = overload && random.one_in(3);
        let hurt = match (ruined, overload) {
            (true, _) => hosts / 2 + 1,
            (false, true) => tolerates,
            (false, false) => random.below(tolerates as u64 + 1) as usize,
        };
        let mut all: Vec<usize> = (0..hosts).collect();
        let hurt: Vec<usize> =
            (0..hurt).map(|_| all.swap_remove(random.below(all.len() as u64) as usize)).collect();
        let faults = rates(&mut random, calm);
        let mut scheduled_faults = hurt_disks(&mut random, &hurt, ruined);
        let others = other_faults(&mut random, hosts);
        scheduled_faults.extend(others.into_iter().filter(|_| !calm));
        let rows = STRATEGIES.iter().filter(|row| row.suits_recovery()).map(|row| row.name);
        let strategies: Vec<&str> = std::iter::once(JOINT).chain(rows).collect();
        let strategy = strategies[random.below(strategies.len() as u64) as usize];
        let (operations, jobs) = (3 + random.below(4), 1 + random.below(4) as usize);
        let changes = if random.one_in(3) { 0 } else { 1 + random.below(4) };
        let clocks = (0..CLIENTS).map(|_| Clock::of(&mut random)).collect();
        // Drawn last: all else of a seed stays as it was.
        let drains = changes > 0 && random.one_in(5);
        let (sealed, keeps) = (random.one_in(6), random.one_in(6));
        let rival = changes > 0 && !calm && !drains && random.one_in(4);
        let steered = match (drains, rival, random.below(8)) {
            (true, ..) => Some(Steered::HandOver),
            (_, true, _) => Some(Steered::Rival),
            (.., 0 | 1) if !overload && !calm => Some(Steered::Helpers),
            (.., 2 | 3) if changes > 0 => Some(Steered::Spread),
            _ => None,
        };
        scheduled_faults.extend(steered_faults(&mut random, steered, hosts));
        misdirect(&mut random, &mut scheduled_faults);
        Scenario {
            code,
            hosts,
            policy,
            domains,
            tolerates,
            hurt,
            overload,
            faults,
            scheduled_faults,
            calm,
            operations: if steered == Some(Steered::Helpers) { 12 } else { operations },
            changes,
            steered,
            clocks,
            strategy,
            jobs,
            volume: false,
            sealed,
            keeps,
            versions: (Vec::new(), Vec::new()),
        }
    }

    /// The same cluster while it is upgraded: agents and clients are of this release and earlier
    /// ones, and agents are exchanged one by one, some of them back again. Volumes need logs, which
    /// came with version 3.
    pub fn of_versions(seed: u64) -> Scenario {
        let mut random = Random(seed ^ 0x0dd0_1dea);
        let (mut scenario, least) = match random.one_in(8) {
            true => (Scenario::with_volume(seed), 3),
            false => (Scenario::of_seed(seed), VERSION_LEAST),
        };
        let draw = |random: &mut Random| match random.below(4) {
            0 => least + random.below(u64::from(VERSION - least + 1)) as u8,
            1 => VERSION - 1,
            _ => VERSION,
        };
        let hosts = scenario.all_hosts();
        let agents = (0..hosts).map(|_| draw(&mut random)).collect();
        let clients = (0..CLIENTS + WRITERS).map(|_| draw(&mut random)).collect();
        scenario.versions = (agents, clients);
        for host in 0..hosts {
            for _ in 0..random.below(3) {
                let (at, version) = (millis(&mut random, 90_000), draw(&mut random));
                let what = What::Exchange { host, version };
                scenario.scheduled_faults.push(ScheduledFault { at, what });
            }
        }
        scenario
    }

    /// The same cluster with a volume. A log has copies on m + 1 disks, and each alone tells what
    /// was acknowledged: m may be away or lost. One that lies or rots and is the only one left is
    /// more than that, so these are left out; and so is a scrub's finding that all is whole, as it
    /// makes no log whole.
    pub fn with_volume(seed: u64) -> Scenario {
        let (mut scenario, mut random) = (Scenario::of_seed(seed), Random(seed ^ 0xb10c_5eed));
        scenario.volume = true;
        // Segments are larger than objects.
        let sub_chunks = scenario.policy.class.iter_mut().flat_map(|class| &mut class.sub_chunk);
        sub_chunks.for_each(|bytes| *bytes *= 8);
        scenario.calm = false;
        if std::mem::take(&mut scenario.overload) {
            let m = scenario.policy.manifest_copies - 1;
            scenario.tolerates = m - scenario.policy.missing_at_put;
            scenario.hurt.clear();
        }
        let mut lost = Vec::new();
        scenario.scheduled_faults.retain(|fault| match fault.what {
            What::Lose { host } | What::Misdirect { host } if scenario.hurt.contains(&host) => {
                lost.push(host);
                true
            }
            What::Rot { .. } | What::Lie { .. } | What::Lose { .. } | What::Misdirect { .. } => {
                false
            }
            _ => true,
        });
        scenario.hurt = lost;
        for client in CLIENTS..CLIENTS + WRITERS {
            if random.one_in(3) {
                let at = millis(&mut random, 60_000);
                scenario.scheduled_faults.push(ScheduledFault { at, what: What::Kill { client } });
            }
            if random.one_in(3) {
                let (at, time) = (millis(&mut random, 60_000), millis(&mut random, 40_000));
                let what = What::CutClient { client, time };
                scenario.scheduled_faults.push(ScheduledFault { at, what });
            }
            scenario.clocks.push(Clock::of(&mut random));
        }
        if random.one_in(2) {
            (scenario.steered, scenario.changes) = (Some(Steered::DrainLog), 4);
        }
        scenario
    }

    /// Until when the disks of [`Scenario::hurt`] are: one that lies does so for ever.
    pub fn hurt_until(&self) -> Duration {
        let lies = |fault: &ScheduledFault| matches!(fault.what, What::Lie { .. });
        if self.scheduled_faults.iter().any(lies) { Duration::MAX } else { ALL_HAPPENED }
    }

    /// Hosts of the cluster, members or not.
    pub fn all_hosts(&self) -> usize {
        self.hosts + SPARE_HOSTS
    }
}

/// A policy of small sizes, so that small objects have several stripes.
fn policy_of(code: &str) -> Policy {
    let mut policy = Policy::for_code(code).unwrap();
    for class in &mut policy.class {
        let below = if class.is_inline() { 100 } else { 1_000 };
        class.below = class.below.map(|_| below);
        // Some stripes, but not a hundred where chunks are one sub-chunk each.
        let sub_chunk = if code.starts_with("clay") { 32 } else { 128 };
        class.sub_chunk = (class.code != "inline").then_some(sub_chunk);
    }
    policy
}

/// Returns the rates of a seed's faults.
fn rates(random: &mut Random, calm: bool) -> Faults {
    let mut some = |most: u64| if random.one_in(3) { 1 + random.below(most) } else { 0 };
    let faults = Faults {
        breaks_per_mille: some(3),
        flips_per_mille: some(2),
        doubles_per_mille: some(2),
        delay_ms: 1 + some(40),
        disk_ms: 1 + some(40),
    };
    match calm {
        // A doubled frame ends its connection.
        true => Faults { delay_ms: faults.delay_ms, disk_ms: faults.disk_ms, ..Faults::default() },
        false => faults,
    }
}

fn hurt_disks(random: &mut Random, hurt: &[usize], all_lost: bool) -> Vec<ScheduledFault> {
    let mut scheduled_faults = Vec::new();
    let mut add = |random: &mut Random, what: What| {
        scheduled_faults.push(ScheduledFault { at: millis(random, 60_000), what });
    };
    for &host in hurt {
        // A liar that nothing happens to does no harm.
        let crash = What::Crash { host, back: Some(millis(random, 20_000)) };
        match random.below(3) {
            _ if all_lost => add(random, What::Lose { host }),
            0 => add(random, What::Lose { host }),
            1 => add(random, What::Rot { host }),
            _ => {
                add(random, What::Lie { host });
                add(random, crash);
            }
        }
    }
    scheduled_faults
}

/// Has other files' bytes on a disk of half the seeds where bits would flip.
fn misdirect(random: &mut Random, faults: &mut [ScheduledFault]) {
    let is_it = random.one_in(2);
    for fault in faults.iter_mut().filter(|_| is_it) {
        if let What::Rot { host } = fault.what {
            fault.what = What::Misdirect { host };
        }
    }
}

/// Returns faults that steer to a rare branch.
fn steered_faults(
    random: &mut Random,
    steered: Option<Steered>,
    hosts: usize,
) -> Vec<ScheduledFault> {
    let fault = |at, what| ScheduledFault { at, what };
    match steered {
        Some(Steered::Rival) => {
            let what = What::CutClient { client: 0, time: Duration::from_secs(40) };
            vec![fault(millis(random, 10_000), what)]
        }
        Some(Steered::Helpers) => {
            let (at, host) = (Duration::from_secs(15), random.below(hosts as u64) as usize);
            let away = What::Crash { host, back: Some(Duration::from_secs(60)) };
            let moments = (0..60).map(|second| {
                let host = (host + 1 + random.below(hosts as u64 - 1) as usize) % hosts;
                let what = What::Crash { host, back: Some(Duration::from_millis(200)) };
                fault(at + Duration::from_secs(second), what)
            });
            std::iter::once(fault(at, away)).chain(moments).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns faults without loss of data.
fn other_faults(random: &mut Random, hosts: usize) -> Vec<ScheduledFault> {
    let mut scheduled_faults = Vec::new();
    let mut add = |random: &mut Random, what: What| {
        scheduled_faults.push(ScheduledFault { at: millis(random, 60_000), what });
    };
    let any = |random: &mut Random| random.below(hosts as u64) as usize;
    let client = |random: &mut Random| random.below(CLIENTS as u64) as usize;
    for _ in 0..random.below(4) {
        let host = any(random);
        let back = (!random.one_in(4)).then(|| millis(random, 30_000));
        add(random, What::Crash { host, back });
    }
    if random.one_in(6) {
        add(random, What::Outage);
    }
    for _ in 0..random.below(3) {
        let (host, time) = (any(random), millis(random, 40_000));
        add(random, What::Cut { host, time });
    }
    for _ in 0..random.below(3) {
        let (client, time) = (client(random), millis(random, 40_000));
        add(random, What::CutClient { client, time });
    }
    for _ in 0..random.below(3) {
        let client = client(random);
        add(random, What::Kill { client });
    }
    let host = any(random);
    match random.below(6) {
        0 => add(random, What::Full { host, bytes: 0 }),
        1 => {
            let bytes = random.below(8_000);
            add(random, What::Full { host, bytes });
        }
        2 => add(random, What::SlowNodes { host, factor: 200 }),
        3 => add(random, What::Sick { host, per_mille: 20 }),
        _ => {}
    }
    scheduled_faults
}

//! Processes that use a simulated cluster from outside: programs that block, as `kiln get` does.
//!
//! Each has a thread of its own, or several, but one of all runs at a time, and only while the
//! virtual time stands still: a thread that waits for an answer lets things happen until one has
//! one, and then the seed says who goes on. So a program of any depth can be simulated as it is,
//! and a seed always gives the same run.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{cell::Cell, fmt, sync::atomic::AtomicBool, time::Duration};

use kiln_store::MemoryBackend;
use kiln_stripe::Sequence;

use super::processes::{Clients, State};
use super::world::{Happens, Outside};
use super::{Faults, Random, ScheduledFault, World};
use kiln_net::{Address, Network, PendingRequest, VirtualRuntime};

/// A run whose clients are not done by then hangs.
const END: Duration = Duration::from_secs(48 * 3600);

thread_local! {
    /// The simulated thread that this thread of the system is.
    static MYSELF: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A simulated cluster with clients.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    /// One for each thread.
    turns: Vec<Condvar>,
}

/// The program of a client; see [`Cluster::run`].
pub type Program<'a> = Box<dyn FnOnce(Client) + Send + 'a>;

impl Cluster {
    /// Agents over these disks.
    pub fn new(seed: u64, faults: Faults, disks: Vec<MemoryBackend>) -> Cluster {
        let world = Mutex::new(World::new(seed, faults, disks));
        let turns = (0..Clients::THREADS).map(|_| Condvar::new()).collect();
        Cluster { shared: Arc::new(Shared { world, turns }) }
    }

    /// Adds scheduled faults.
    #[must_use]
    pub fn with(self, scheduled_faults: Vec<ScheduledFault>) -> Cluster {
        {
            let mut world = self.shared.world();
            for (number, fault) in scheduled_faults.iter().enumerate() {
                world.at(fault.at, Happens::ScheduledFault { number });
            }
            world.scheduled_faults = scheduled_faults;
        }
        self
    }

    /// Has agents and clients of earlier releases: the latest version of the protocol that each of
    /// them speaks, by number.
    #[must_use]
    pub fn of_versions(self, hosts: &[u8], clients: &[u8]) -> Cluster {
        self.shared.world().limit_versions(hosts, clients);
        self
    }

    /// Runs programs, each as one client, to their ends; gives the virtual time. Pools that a
    /// program opens must have its [`Client::sequence`].
    /// Errors: the number of the first client whose program panicked (its message went to stderr),
    /// as all do when the cluster stands still for ever.
    pub fn run(&self, programs: Vec<Program<'_>>) -> Result<Duration, usize> {
        {
            let mut world = self.shared.world();
            world.clients.all = programs.iter().map(|_| State::default()).collect();
            world.clients.threads.clear();
            for client in 0..programs.len() {
                world.clients.begin(client);
            }
            self.shared.pass(world);
        }
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, program) in programs.into_iter().enumerate() {
                let client = Client { number, shared: Arc::clone(&self.shared) };
                threads.push(scope.spawn(move || {
                    let shared = Arc::clone(&client.shared);
                    shared.run(number, true, || program(client));
                }));
            }
            threads.into_iter().map(|thread| thread.join().is_ok()).collect()
        });
        match ends.iter().position(|well| !well) {
            Some(number) => Err(number),
            None => Ok(self.shared.world().now),
        }
    }

    /// Files whose bytes were another's, by fault and kind.
    #[must_use]
    pub fn misdirected(&self) -> Vec<(String, u64)> {
        let world = self.shared.world();
        let wrong = world.hosts.iter().flat_map(|host| host.health.wrong().clone());
        wrong.collect()
    }

    /// Requests that were not sent, since the agents' releases do not know them.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.shared.world().unsent
    }
}

/// Gives the turn to another thread when a thread ends, however it ends.
struct Leaves<'a> {
    thread: usize,
    /// Its process ends with it.
    process: bool,
    shared: &'a Shared,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut world = self.shared.world();
        let thread = &mut world.clients.threads[self.thread];
        thread.done = true;
        let client = thread.client;
        if self.process {
            world.kill_client(client);
        }
        // Another thread may wait for its end.
        world.clients.answered(client);
        self.shared.pass(world);
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a simulated thread on this one.
    fn run(&self, thread: usize, process: bool, body: impl FnOnce()) {
        MYSELF.set(thread);
        let _leaves = Leaves { thread, process, shared: self };
        self.wait_for_turn(self.world(), thread);
        body();
    }

    /// Lets things happen until a thread is ready, and gives it the turn.
    fn pass(&self, mut world: MutexGuard<'_, World>) {
        let next = Shared::next_thread(&mut world);
        world.clients.turn = next;
        drop(world);
        // Who goes on itself need not be woken, nor find the world locked when it is.
        if let Some(next) = next.filter(|next| *next != MYSELF.get()) {
            self.turns[next].notify_one();
        }
    }

    /// Lets things happen until a thread is ready; `None`: all are done.
    fn next_thread(world: &mut World) -> Option<usize> {
        loop {
            let threads = &world.clients.threads;
            let ready: Vec<usize> =
                (0..threads.len()).filter(|at| threads[*at].ready && !threads[*at].done).collect();
            if !ready.is_empty() {
                let next = ready[world.random.below(ready.len() as u64) as usize];
                world.clients.threads[next].ready = false;
                return Some(next);
            }
            if threads.iter().all(|thread| thread.done) {
                return None;
            }
            if let Err(error) = world.step(END) {
                // All of them shall know.
                world.clients.stuck = Some(format!("{error}{}", world.who_waits()));
                world.clients.threads.iter_mut().for_each(|thread| thread.ready = true);
            }
        }
    }

    fn wait_for_turn(&self, mut world: MutexGuard<'_, World>, thread: usize) {
        while world.clients.turn != Some(thread) {
            world = self.turns[thread].wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        let stuck = world.clients.stuck.clone();
        let client = world.clients.threads[thread].client;
        drop(world);
        if let Some(why) = stuck {
            panic!("client {client}: {why}");
        }
    }
}

/// One client of a simulated cluster, while its program runs.
pub struct Client {
    number: usize,
    shared: Arc<Shared>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.number)
    }
}

impl Client {
    /// Returns its position among the programs of [`Cluster::run`].
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its way to the agents, as a process that starts now has it.
    #[must_use]
    pub fn network(&self) -> Network {
        let (client, shared) = (self.number, Arc::clone(&self.shared));
        Network::simulated(Arc::new(Outlook { client, shared }))
    }

    /// An order, from the seed, for what a pool could do at once.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        let mut random = Random(self.random());
        Sequence::new(move |count| random.below(count as u64) as usize)
    }

    /// The address of a host's agent.
    ///
    /// # Panics
    /// Never: such addresses can be parsed.
    pub fn address(&self, host: usize) -> Address {
        let parsed = World::address(host).parse();
        parsed.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The virtual time.
    pub fn now(&self) -> Duration {
        self.shared.world().now
    }

    /// Does nothing for so long.
    pub fn sleep(&self, time: Duration) {
        let outlook = Outlook { client: self.number, shared: Arc::clone(&self.shared) };
        let until = outlook.now() + time;
        while outlook.now() < until {
            outlook.pause(Some(until));
        }
    }

    /// Does the work on so many threads of its own, which take turns wherever one of them waits for
    /// the cluster, and waits until all have ended.
    pub fn at_once(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        self.network().at_once(threads, work);
    }

    /// A number that follows from the seed and from all that happened.
    pub fn random(&self) -> u64 {
        self.shared.world().random.next()
    }

    /// Returns whether its process was killed. What it asks fails from then on, until
    /// [`Client::restart`].
    pub fn is_killed(&self) -> bool {
        self.shared.world().clients.is_killed(self.number)
    }

    /// The client is a new process.
    pub fn restart(&self) {
        self.shared.world().clients.all[self.number].killed = false;
    }

    /// Returns whether all others are done.
    pub fn is_last(&self) -> bool {
        let world = self.shared.world();
        world.clients.threads.iter().all(|thread| thread.client == self.number || thread.done)
    }

    /// Ends all that goes wrong: hosts come back, links and disks do what they should from now
    /// on. Hosts without a disk ([`super::What::Lose`]) get an empty one; their numbers are
    /// returned.
    pub fn heal(&self) -> Vec<usize> {
        self.shared.world().heal()
    }

    /// Hosts whose disk was lost, and which were not given another one.
    pub fn lost(&self) -> Vec<usize> {
        self.shared.world().lost()
    }

    /// Gives a host that lost its disk an empty one, and starts it.
    pub fn replace_disk(&self, host: usize) {
        self.shared.world().replace_disk(host);
    }

    /// A snapshot of a host's disk: what a power cut now would leave of it.
    pub fn snapshot(&self, host: usize) -> MemoryBackend {
        self.shared.world().snapshot(host)
    }

    /// Puts another disk into a host, be it one that it had before, and starts it; gives the one
    /// that was in it. A host that lost its disk has one again.
    pub fn swap_disk(&self, host: usize, disk: MemoryBackend) -> MemoryBackend {
        self.shared.world().swap_disk(host, disk)
    }
}

/// The stage as one client sees it.
#[derive(Debug)]
struct Outlook {
    client: usize,
    shared: Arc<Shared>,
}

impl VirtualRuntime for Outlook {
    fn connect(&self, address: &Address, ended: Arc<AtomicBool>) -> u64 {
        let host = usize::from(address.port).wrapping_sub(1);
        self.shared.world().connect(host, Outside { client: self.client, ended })
    }

    fn ask(&self, connection: u64, request: PendingRequest) {
        let mut world = self.shared.world();
        world.ask_for_client(connection, request);
    }

    fn close(&self, connection: u64) {
        self.shared.world().hang_up(connection);
    }

    fn now(&self) -> Duration {
        self.shared.world().now
    }

    fn pause(&self, until: Option<Duration>) {
        let (mut world, thread) = (self.shared.world(), MYSELF.get());
        let state = &mut world.clients.threads[thread];
        state.pauses += 1;
        let pause = state.pauses;
        if let Some(until) = until {
            world.at(until, Happens::Wake { thread, pause });
        }
        self.shared.pass(world);
        self.shared.wait_for_turn(self.shared.world(), thread);
    }

    fn thread(&self) -> usize {
        self.shared.world().clients.begin(self.client)
    }

    fn run(&self, thread: usize, body: &dyn Fn()) {
        self.shared.run(thread, false, body);
    }

    fn join(&self, threads: &[usize]) {
        let done = |number: &usize| {
            let thread = &self.shared.world().clients.threads[*number];
            // Its number may be another client's by now.
            thread.done || thread.client != self.client
        };
        while !threads.iter().all(done) {
            self.pause(None);
        }
    }
}

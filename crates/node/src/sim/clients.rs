//! Processes that use a simulated cluster from outside: programs that block, as `kiln get` does.
//!
//! Each has a thread of its own, but one runs at a time, and only while the virtual time stands
//! still: whoever waits for an answer lets things happen until somebody has one, and then the
//! seed says who goes on. So a program of any depth can be simulated as it is, and a seed always
//! gives the same run.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_store::MemoryBackend;

use super::world::{Happens, Outside};
use super::{Faults, Mishap, World};
use crate::net::{Address, Network, Question, Stage};

/// A run whose clients are not done by then hangs.
const END: Duration = Duration::from_secs(48 * 3600);

/// What the world knows of its clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Vec<State>,
    /// Whose turn it is.
    turn: Option<usize>,
    /// Why nobody can go on.
    stuck: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// It has something to go on with.
    ready: bool,
    done: bool,
    killed: bool,
    /// Counts its pauses: a wake is for one of them.
    pauses: u64,
    cut_until: Duration,
}

impl Clients {
    pub fn is_killed(&self, client: usize) -> bool {
        self.all.get(client).is_some_and(|state| state.killed)
    }

    pub fn is_cut(&self, client: usize, now: Duration) -> bool {
        self.all.get(client).is_some_and(|state| state.cut_until > now)
    }

    pub fn cut_until(&self, client: usize) -> Duration {
        self.all.get(client).map_or(Duration::ZERO, |state| state.cut_until)
    }

    pub fn cut(&mut self, client: usize, until: Duration) {
        if let Some(state) = self.all.get_mut(client) {
            state.cut_until = until;
        }
    }

    pub fn kill(&mut self, client: usize) {
        if let Some(state) = self.all.get_mut(client) {
            (state.killed, state.ready) = (true, true);
        }
    }

    pub fn heal(&mut self) {
        self.all.iter_mut().for_each(|state| state.cut_until = Duration::ZERO);
    }

    pub fn answered(&mut self, client: usize) {
        if let Some(state) = self.all.get_mut(client) {
            state.ready = true;
        }
    }

    pub fn wake(&mut self, client: usize, pause: u64) {
        if let Some(state) = self.all.get_mut(client).filter(|state| state.pauses == pause) {
            state.ready = true;
        }
    }
}

/// A simulated cluster with clients.
///
/// ```
/// use kiln_node::sim::{Cluster, Faults};
/// use kiln_store::{Backend, MemoryBackend};
/// let cluster = Cluster::new(1, Faults::none(), vec![MemoryBackend::new()]);
/// let ended = cluster.run(vec![Box::new(|client| {
///     let place = client.network().open(&client.address(0));
///     place.append("a", 0).unwrap().sync().unwrap();
///     assert_eq!(place.list().unwrap(), ["a"]);
/// })]);
/// // It took as long as it takes on a network, and no time at all here.
/// assert!(ended.unwrap() > std::time::Duration::ZERO);
/// ```
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    /// One for each client.
    turns: Vec<Condvar>,
}

/// What a client does; see [`Cluster::run`].
pub type Program<'a> = Box<dyn FnOnce(Client) + Send + 'a>;

/// Clients of a cluster at most.
const CLIENTS: usize = 16;

impl Cluster {
    /// Agents over these disks.
    #[must_use]
    pub fn new(seed: u64, faults: Faults, disks: Vec<MemoryBackend>) -> Cluster {
        let world = Mutex::new(World::new(seed, faults, disks));
        let turns = (0..CLIENTS).map(|_| Condvar::new()).collect();
        Cluster { shared: Arc::new(Shared { world, turns }) }
    }

    /// What is going to go wrong beside what the faults say.
    #[must_use]
    pub fn with(self, mishaps: Vec<Mishap>) -> Cluster {
        {
            let mut world = self.shared.world();
            for (number, mishap) in mishaps.iter().enumerate() {
                world.at(mishap.at, Happens::Mishap { number });
            }
            world.mishaps = mishaps;
        }
        self
    }

    /// Runs programs, each as one client, to their ends; gives the virtual time.
    ///
    /// # Errors
    /// The number of the first client whose program panicked (its message went to stderr), as
    /// all do when the cluster stands still for ever.
    pub fn run(&self, programs: Vec<Program<'_>>) -> Result<Duration, usize> {
        assert!(programs.len() <= CLIENTS, "at most {CLIENTS} clients");
        {
            let mut world = self.shared.world();
            let ready = |_| State { ready: true, ..State::default() };
            world.clients.all = (0..programs.len()).map(ready).collect();
            self.shared.pass(&mut world);
        }
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, program) in programs.into_iter().enumerate() {
                let client = Client { number, shared: Arc::clone(&self.shared) };
                threads.push(scope.spawn(move || {
                    let _leaves = Leaves { number, shared: Arc::clone(&client.shared) };
                    client.shared.wait_for_turn(client.shared.world(), number);
                    program(client);
                }));
            }
            threads.into_iter().map(|thread| thread.join().is_ok()).collect()
        });
        match ends.iter().position(|well| !well) {
            Some(number) => Err(number),
            None => Ok(self.shared.world().now),
        }
    }

    /// A host's disk as it is now.
    #[must_use]
    pub fn disk(&self, host: usize) -> MemoryBackend {
        self.shared.world().disk(host)
    }
}

/// Gives the turn to somebody else when a client ends, however it ends.
struct Leaves {
    number: usize,
    shared: Arc<Shared>,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let mut world = self.shared.world();
        world.clients.all[self.number].done = true;
        world.kill_client(self.number);
        self.shared.pass(&mut world);
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets things happen until a client is ready, and gives it the turn.
    fn pass(&self, world: &mut World) {
        world.clients.turn = None;
        while world.clients.turn.is_none() {
            let clients = &world.clients.all;
            let ready: Vec<usize> =
                (0..clients.len()).filter(|at| clients[*at].ready && !clients[*at].done).collect();
            if ready.is_empty() {
                if clients.iter().all(|state| state.done) {
                    return;
                }
                if let Err(error) = world.step(END) {
                    // All of them shall know.
                    world.clients.stuck = Some(format!("{error}{}", world.who_waits()));
                    world.clients.all.iter_mut().for_each(|state| state.ready = true);
                }
                continue;
            }
            let next = ready[world.random.below(ready.len() as u64) as usize];
            world.clients.all[next].ready = false;
            world.clients.turn = Some(next);
            self.turns[next].notify_one();
        }
    }

    fn wait_for_turn(&self, mut world: MutexGuard<'_, World>, client: usize) {
        while world.clients.turn != Some(client) {
            world = self.turns[client].wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        let stuck = world.clients.stuck.clone();
        drop(world);
        if let Some(why) = stuck {
            panic!("client {client}: {why}");
        }
    }
}

/// One client of a simulated cluster, while its program runs.
///
/// ```
/// use std::time::Duration;
/// use kiln_node::sim::{Cluster, Faults};
/// use kiln_store::MemoryBackend;
/// let cluster = Cluster::new(7, Faults::none(), vec![MemoryBackend::new()]);
/// let waits = |seconds| move |client: kiln_node::sim::Client| {
///     client.sleep(Duration::from_secs(seconds));
///     assert_eq!(client.now().as_secs(), seconds);
/// };
/// let ended = cluster.run(vec![Box::new(waits(3600)), Box::new(waits(60))]);
/// assert_eq!(ended.unwrap().as_secs(), 3600);
/// ```
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
    /// Its way to the agents, as a process that starts now has it.
    #[must_use]
    pub fn network(&self) -> Network {
        let (client, shared) = (self.number, Arc::clone(&self.shared));
        Network::on_stage(Arc::new(Outlook { client, shared }))
    }

    /// The address of a host's agent.
    ///
    /// # Panics
    /// Never: such addresses can be parsed.
    #[must_use]
    pub fn address(&self, host: usize) -> Address {
        let parsed = World::address(host).parse();
        parsed.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The virtual time.
    #[must_use]
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

    /// A number that follows from the seed and from all that happened.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.world().random.next()
    }

    /// Whether its process was killed. What it asks fails from then on, until [`Client::restart`].
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.shared.world().clients.is_killed(self.number)
    }

    /// The client is a new process.
    pub fn restart(&self) {
        self.shared.world().clients.all[self.number].killed = false;
    }

    /// Whether all others are done.
    #[must_use]
    pub fn is_last(&self) -> bool {
        let world = self.shared.world();
        let mut others = world.clients.all.iter().enumerate();
        others.all(|(number, state)| number == self.number || state.done)
    }

    /// Ends all that goes wrong: hosts come back, links and disks do what they should from now
    /// on. Hosts without a disk ([`super::What::Lose`]) get an empty one; their numbers are told.
    pub fn heal(&self) -> Vec<usize> {
        self.shared.world().heal()
    }

    /// Hosts whose disk was lost, and which were not given another one.
    #[must_use]
    pub fn lost(&self) -> Vec<usize> {
        self.shared.world().lost()
    }

    /// Gives a host that lost its disk an empty one, and starts it.
    pub fn replace_disk(&self, host: usize) {
        self.shared.world().replace_disk(host);
    }
}

/// The stage as one client sees it.
#[derive(Debug)]
struct Outlook {
    client: usize,
    shared: Arc<Shared>,
}

impl Stage for Outlook {
    fn connect(&self, address: &Address, ended: Arc<AtomicBool>) -> u64 {
        let host = usize::from(address.port).wrapping_sub(1);
        self.shared.world().connect(host, Outside { client: self.client, ended })
    }

    fn ask(&self, connection: u64, question: Question) {
        let mut world = self.shared.world();
        world.ask_for_client(connection, question);
    }

    fn close(&self, connection: u64) {
        self.shared.world().hang_up(connection);
    }

    fn now(&self) -> Duration {
        self.shared.world().now
    }

    fn pause(&self, until: Option<Duration>) {
        let mut world = self.shared.world();
        let state = &mut world.clients.all[self.client];
        state.pauses += 1;
        let pause = state.pauses;
        if let Some(until) = until {
            world.at(until, Happens::Wake { client: self.client, pause });
        }
        self.shared.pass(&mut world);
        self.shared.wait_for_turn(world, self.client);
    }
}

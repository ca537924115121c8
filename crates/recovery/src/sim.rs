//! A cluster in virtual time: agents, links and a coordinator, the very state machines that run
//! on real sockets, over a network and disks that fail as one seed says.
//!
//! Nothing sleeps, and one seed always gives the same run. Frames travel as bytes and are parsed
//! on arrival. The network keeps the order of a connection, as TCP does; it delays, breaks and
//! refuses connections, and now and then delivers a frame twice or with a flipped bit, which the
//! receiver must notice. Agents crash (their disks keep what a power cut leaves) and come back.
//! Disks fail, and lie about bytes they hold.
//!
//! A [`Cluster`] has [`Client`]s: programs that block, as all of `kiln_pool` over agents does; the
//! test `cluster` plays whole pools on it.

mod alone;
mod clients;
mod disk;
mod faults;
mod processes;
mod scheduled_faults;
mod world;

use world::World;

pub use alone::alone;
pub use clients::{Client, Cluster, Program};
pub use faults::Faults;
pub use kiln_testkit::Random;
pub use scheduled_faults::{ScheduledFault, What};

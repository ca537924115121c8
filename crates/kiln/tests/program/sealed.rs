//! Pools with a key of their own, by the program.

use crate::pool::create;
use crate::rig::{Rig, data};
use crate::volumes::{Client, Server};

/// The last writes of clients are in no object yet, and outlive each exchange of keys all the same.
#[test]
fn volumes_keep_what_only_their_logs_have_when_keys_are_exchanged() {
    let rig = Rig::new();
    create(&rig, "rs:4+2", 7);
    rig.kiln("volume create disk 4MiB --segment 64KiB -q").ok();
    let holds = |client: &mut Client, at: u64, bytes: &[u8]| {
        assert!(client.read(at, bytes.len()) == bytes, "at {at}");
    };
    let (one, two, three) = (data(8192, 1), data(4096, 2), data(12_288, 3));
    {
        let server = Server::start(&rig, "");
        Client::new(&rig).write(0, &one).unwrap();
        drop(server); // killed
    }
    // It is not in use: it is closed.
    rig.kiln("pool seal").ok();
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    holds(&mut client, 0, &one);
    client.write(16_384, &two).unwrap();
    // Its server goes on with a new log, and `seal` waits for that.
    rig.kiln("pool seal --new-key -q").ok();
    rig.kiln("pool seal --drop-old-keys -q").ok();
    client.write(32_768, &three).unwrap();
    drop(server);
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    for (at, bytes) in [(0, &one), (16_384, &two), (32_768, &three)] {
        holds(&mut client, at, bytes);
    }
    server.end();
    rig.kiln("scrub --deep").ok();
}

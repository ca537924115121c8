//! `kiln serve`

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use clap::{Args, Subcommand};
use kiln_gate::{Limits, Server};
use serde::Serialize;

use crate::args::with_exit_codes;
use crate::cmd::agent;
use crate::exit::{Exit, Failure};
use crate::print::Stream;
use crate::setup::{PoolFlags, Setup, buckets};

const EXAMPLES: &str = "\
Examples:
  kiln s3 key create me --owner '*'              prints an access key and its secret
  kiln serve s3 --listen 127.0.0.1:9000
  aws --endpoint-url http://127.0.0.1:9000 s3 mb s3://photos
  aws --endpoint-url http://127.0.0.1:9000 s3 sync photos/ s3://photos/

Everything that is acknowledged is durable in the pool. Servers of one pool are equal: any number of
them may run, and none keeps anything. On SIGTERM or SIGINT requests that have begun are answered;
after kill -9 nothing is half there.";

/// Address where none is named.
const DEFAULT_LISTEN: &str = "127.0.0.1:9000";

/// Serve a pool to programs of other protocols
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Serve {
    #[command(subcommand)]
    protocol: Protocol,
}

#[derive(Debug, Subcommand)]
enum Protocol {
    /// Serve buckets of the pool to clients of S3
    S3(S3),
}

// Arguments; the summary is above.
#[derive(Debug, Args)]
struct S3 {
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_LISTEN)]
    listen: String,

    /// Most connections; more wait
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,

    /// Most requests that are served at a time; more wait
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    requests: u32,

    /// Serve other machines without encryption: signatures protect requests, but anyone on the way
    /// can read the data
    #[arg(long)]
    insecure: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

/// Line on standard output.
#[derive(Serialize)]
struct Started {
    url: String,
}

impl Serve {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        match self.protocol {
            Protocol::S3(serve) => serve.run(setup),
        }
    }
}

impl S3 {
    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let listener = self.listener()?;
        agent::log_to_stderr(setup.json);
        let gate = Arc::new(buckets::gate_to_serve(&self.pool, setup)?);
        let limits = Limits {
            connections: self.connections as usize,
            requests: self.requests as usize,
            ..Limits::default()
        };
        let failed =
            |source| Failure::Io { action: "serve on", path: self.listen.clone().into(), source };
        let server = Server::start(gate, listener, limits).map_err(failed)?;
        let url = format!("http://{}", server.address());
        match setup.json {
            true => Stream::Stdout.json(&Started { url })?,
            false => Stream::Stdout.text(&format!("serving {url}\n"))?,
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed)?.block_on(agent::until_told());
        server.end();
        Ok(Exit::Done)
    }

    fn listener(&self) -> Result<TcpListener, Failure> {
        let failed =
            |source| Failure::Io { action: "listen on", path: self.listen.clone().into(), source };
        let addresses: Vec<SocketAddr> = self.listen.to_socket_addrs().map_err(failed)?.collect();
        let near = addresses.iter().all(|address| address.ip().is_loopback());
        if !near && !self.insecure {
            let problem = format!(
                "{} serves other machines, without encryption; put a proxy with TLS before it, or \
                 give --insecure",
                self.listen
            );
            return Err(Failure::Flag { flag: "--listen", problem });
        }
        TcpListener::bind(&addresses[..]).map_err(failed)
    }
}

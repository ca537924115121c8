//! `kiln serve`

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Subcommand};
use kiln_gate::{Counts, Limits, Server};
use kiln_stripe::HedgeCounts;

use crate::exit::{Exit, Failure, Result};
use crate::monitor::{MetricFamily, Metrics, Monitor};
use crate::print::{fields, warning_line};
use crate::setup::{PoolFlags, Setup, buckets, listener};
use crate::{args::help, cmd::agent};

/// Address where none is named.
const DEFAULT_LISTEN: &str = "127.0.0.1:9000";

/// Serve a pool to programs of other protocols
#[derive(Debug, Args)]
#[command(after_help = help("serve"))]
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
    /// PEM file with the certificates that clients are shown; encrypts all connections
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// PEM file with the key of the first certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Address for metrics in Prometheus' format, e.g. 127.0.0.1:9442
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Refuse signatures for another region, and tell clients this one [default: any is right]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Accept signatures of version 2 as well, as of URLs that aws-cli and boto3 presign by default
    #[arg(long)]
    signature_v2: bool,
    /// Serve other machines without encryption: signatures protect requests, but anyone on the way
    /// can read the data
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Serve {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        match self.protocol {
            Protocol::S3(serve) => serve.run(setup),
        }
    }
}

impl S3 {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let instead = "put a proxy with TLS before it, or give --insecure";
        let safe = self.insecure || self.tls_certificate.is_some();
        let listener = listener(&self.listen, safe, instead)?;
        agent::log_to_stderr(setup.json);
        let gate = Arc::new(buckets::gate_to_serve(&self.pool, setup)?);
        let beside = setup.background();
        let limits = Limits {
            connections: self.connections as usize,
            requests: self.requests as usize,
            region: self.region.clone(),
            version2: self.signature_v2,
            ..Limits::default()
        };
        let failed =
            |source| Failure::Io { action: "serve on", path: self.listen.clone().into(), source };
        let tls = self.tls()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let pool = gate.pool().config().name.clone();
        let server = Server::start(gate, listener, limits, tls).map_err(failed)?;
        let url = format!("{scheme}://{}", server.address());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed)?.block_on(async {
            let counter = server.counter();
            let text = move || metrics(&counter(), beside.hedge_counts()).text("pool", &pool);
            let monitor = match &self.metrics {
                Some(listen) => Some(Monitor::telling(listen, text).await?),
                None => None,
            };
            let metrics = monitor.as_ref().map(|monitor| format!("http://{}", monitor.address()));
            let also = metrics.as_ref().map_or(String::new(), |at| format!(", metrics at {at}"));
            let line = format!("serving {url}{also}\n");
            let started = fields! {
                url: url,
                metrics or none: metrics,
            };
            setup.answer(&started, || line)?;
            tokio::select! {
                _ = agent::until_told() => {}
                () = self.renew(&server) => {}
            }
            Ok::<(), Failure>(())
        })?;
        server.end();
        Ok(Exit::Done)
    }

    fn tls(&self) -> Result<Option<Arc<rustls::ServerConfig>>> {
        let files = self.tls_certificate.as_ref().zip(self.tls_key.as_ref());
        Ok(files.map(|(pem, key)| kiln_nbd::tls(pem, key, None)).transpose()?)
    }

    /// Reads the certificate again at each SIGHUP; never ends.
    async fn renew(&self, server: &Server) {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut hangups) = signal(SignalKind::hangup()) else {
            return std::future::pending().await;
        };
        loop {
            hangups.recv().await;
            match self.tls() {
                Ok(Some(tls)) => server.set_tls(tls),
                Ok(None) => {}
                Err(error) => warning_line(&format!("certificate: the old one stays ({error})")),
            }
        }
    }
}

fn metrics(counts: &Counts, reads: HedgeCounts) -> Metrics {
    let classes = ["2xx", "3xx", "4xx", "5xx"].map(str::to_owned);
    let rows = classes.into_iter().zip(counts.requests).collect();
    Metrics {
        counters: vec![
            ("kiln_s3_request_ms", "Milliseconds until requests were answered", counts.millis),
            ("kiln_s3_received_bytes", "Bytes of payloads", counts.received),
            ("kiln_s3_sent_bytes", "Bytes of answers", counts.sent),
            ("kiln_pool_reads", "Reads of nodes for objects", reads.reads),
            ("kiln_pool_late_reads", "Of these, not waited for", reads.late),
            ("kiln_pool_extra_bytes", "Bytes that were read instead", reads.extra_bytes),
        ],
        gauges: vec![
            ("kiln_s3_requests_running", "Requests that are served now", counts.running),
            ("kiln_s3_connections", "Connections", counts.connections),
        ],
        families: vec![MetricFamily::counter(
            "kiln_s3_requests", "Requests by status", "status", rows,
        )],
    }
}

//! An agent over HTTP: metrics in the text format of Prometheus, whether it lives, and whether it
//! can serve.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kiln_store::{Backend, Space};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::serve::{Report, Watcher};
use crate::{NodeError, NodeOperation, Result};

/// A request line and headers fit in this, or are not read.
const REQUEST_MAX: usize = 4096;
/// A client that sends no request within this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers `GET /metrics`, `/health` and `/ready`; dropping it ends that.
#[derive(Debug)]
pub struct Monitor {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Monitor {
    /// Starts to answer on the runtime that calls.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        watcher: Watcher,
        (place, store): (&str, Arc<dyn Backend>),
        listen: &str,
    ) -> Result<Monitor> {
        let (listener, address) = bind(listen).await?;
        let place = place.to_owned();
        let task = tokio::spawn(async move {
            // One at a time: whoever asks for metrics does so every few seconds.
            while let Ok((stream, _)) = listener.accept().await {
                let report = watcher.report().await;
                // One look at a file system.
                let space = store.space().map_err(|error| error.to_string());
                let ready = space.as_ref().map(drop).map_err(Clone::clone);
                let text = metrics(&place, &report, space.ok().flatten());
                let _ = timeout(PATIENCE, answer(stream, &text, ready)).await;
            }
        });
        Ok(Monitor { address, task })
    }

    /// As [`Monitor::start`], with the text of whoever else has something to tell; see
    /// [`Metrics::text`].
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn telling(
        listen: &str,
        text: impl Fn() -> String + Send + 'static,
    ) -> Result<Monitor> {
        let (listener, address) = bind(listen).await?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let text = text();
                let _ = timeout(PATIENCE, answer(stream, &text, Ok(()))).await;
            }
        });
        Ok(Monitor { address, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn bind(listen: &str) -> Result<(TcpListener, SocketAddr)> {
    let failed =
        |source| NodeError::Io { op: NodeOperation::Listen, place: listen.to_owned(), source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

async fn answer(
    mut stream: TcpStream,
    text: &str,
    ready: std::result::Result<(), String>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let asked = |path: &str| request.starts_with(format!("GET {path} ").as_bytes());
    let (status, body) = match ready {
        _ if asked("/metrics") => ("200 OK", text.to_owned()),
        // Whoever is answered knows that the agent lives.
        _ if asked("/health") => ("200 OK", "lives\n".to_owned()),
        Ok(()) if asked("/ready") => ("200 OK", "serves\n".to_owned()),
        Err(why) if asked("/ready") => ("503 Service Unavailable", format!("{why}\n")),
        _ => ("404 Not Found", "there are /metrics, /health and /ready\n".to_owned()),
    };
    let kind = match asked("/metrics") {
        true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        false => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// The report as text.
fn metrics(place: &str, report: &Report, space: Option<Space>) -> String {
    let counts = &report.counts;
    let counters = vec![
        ("kiln_requests", "Requests that arrived", counts.requests),
        ("kiln_requests_failed", "Requests that failed", counts.failed),
        ("kiln_requests_late", "Requests dropped since their deadline had passed", counts.late),
        ("kiln_sent_bytes", "Bytes of files sent", counts.bytes_sent),
        ("kiln_received_bytes", "Bytes of files received", counts.bytes_received),
        (
            "kiln_connections_expelled",
            "Connections closed for a protocol violation",
            counts.expelled,
        ),
    ];
    let (connections, waiting, running) = report.load;
    let mut gauges = vec![
        ("kiln_connections", "Connections", connections as u64),
        ("kiln_requests_waiting", "Requests that wait for the disk", waiting as u64),
        ("kiln_disk_jobs", "Disk jobs under way", running as u64),
    ];
    if let Some(space) = space {
        gauges.push(("kiln_disk_total_bytes", "Bytes of the file system", space.total));
        gauges.push(("kiln_disk_free_bytes", "Bytes that can still be written", space.free));
    }
    Metrics { counters, gauges }.text("place", place)
}

/// A number with its name and what it counts.
pub type Metric = (&'static str, &'static str, u64);

/// What is told at one moment.
///
/// ```
/// use kiln_node::net::Metrics;
/// let counters = vec![("kiln_reads", "Reads", 7)];
/// let text = Metrics { counters, gauges: Vec::new() }.text("volume", "disk");
/// assert!(text.contains("kiln_reads_total{volume=\"disk\"} 7"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// What only grows.
    pub counters: Vec<Metric>,
    /// What also falls.
    pub gauges: Vec<Metric>,
}

impl Metrics {
    /// In the text format, each with this label.
    #[must_use]
    pub fn text(self, label: &'static str, value: &str) -> String {
        let labels = [(label.into(), value.to_owned().into())];
        let mut registry = Registry::with_labels(labels.into_iter());
        for (name, help, value) in self.counters {
            registry.register(name, help, ConstCounter::new(value));
        }
        for (name, help, value) in self.gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            registry.register(name, help, ConstGauge::new(value));
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

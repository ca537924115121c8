//! Metrics in the text format of Prometheus, liveness and readiness of long-running commands, over
//! HTTP.

mod http;

use std::{net::SocketAddr, sync::Arc};

use kiln_store::{Backend, Space};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::{encoding::text::encode, metrics::family::Family, registry::Registry};

pub use http::{AccessPolicy, Document, HttpServer};
use kiln_net::{Report, Result, Watcher};

/// Answers `GET /metrics`, `/health` and `/ready`; dropping it ends that.
#[derive(Debug)]
pub struct Monitor(HttpServer);

impl Monitor {
    /// Starts to answer on the runtime that calls.
    pub async fn start(
        watcher: Watcher,
        (place, store): (&str, Arc<dyn Backend>),
        listen: &str,
    ) -> Result<Monitor> {
        let place = place.to_owned();
        let answer = move |path: String| {
            let (watcher, store, place) = (watcher.clone(), Arc::clone(&store), place.clone());
            async move {
                let report = watcher.report().await;
                // One look at a file system.
                let space = store.space().map_err(|error| error.to_string());
                let ready = space.as_ref().map(drop).map_err(Clone::clone);
                let text = || metrics(&place, &report, space.ok().flatten());
                monitored(&path, text, ready).unwrap_or_else(nothing)
            }
        };
        Ok(Monitor(HttpServer::start(listen, AccessPolicy::anyone(), answer).await?))
    }

    /// Starts to answer with a text of metrics; see [`Metrics::text`].
    pub async fn telling(
        listen: &str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Monitor> {
        let answer = move |path: String| {
            let document = monitored(&path, &text, Ok(())).unwrap_or_else(nothing);
            std::future::ready(document)
        };
        Ok(Monitor(HttpServer::start(listen, AccessPolicy::anyone(), answer).await?))
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn nothing() -> Document {
    Document::text(404, "there are /metrics, /health and /ready\n")
}

/// Returns the document of `/metrics`, `/health` or `/ready`; `None` for any other path.
#[must_use]
pub fn monitored(
    path: &str,
    metrics: impl FnOnce() -> String,
    ready: std::result::Result<(), String>,
) -> Option<Document> {
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Some(match (path, ready) {
        ("/metrics", _) => Document::new(METRICS, metrics()),
        ("/health", _) => Document::text(200, "lives\n"),
        ("/ready", Ok(())) => Document::text(200, "serves\n"),
        ("/ready", Err(why)) => Document::text(503, &format!("{why}\n")),
        _ => return None,
    })
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
    Metrics { counters, gauges, ..Metrics::default() }.text("place", place)
}

/// A name, its help and its number.
pub type Metric = (&'static str, &'static str, u64);

/// The metrics of one moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Numbers that only grow.
    pub counters: Vec<Metric>,
    /// Numbers that also fall.
    pub gauges: Vec<Metric>,
    /// Numbers by label.
    pub families: Vec<MetricFamily>,
}

/// Numbers with one name, told apart by a label.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub label: &'static str,
    /// Its values, each with its number.
    pub rows: Vec<(String, u64)>,
    /// They only grow.
    pub counts: bool,
}

impl MetricFamily {
    /// Numbers that only grow.
    #[must_use]
    pub fn counter(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        rows: Vec<(String, u64)>,
    ) -> MetricFamily {
        MetricFamily { name, help, label, rows, counts: true }
    }

    /// Numbers that also fall.
    #[must_use]
    pub fn gauge(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        rows: Vec<(String, u64)>,
    ) -> MetricFamily {
        MetricFamily { counts: false, ..MetricFamily::counter(name, help, label, rows) }
    }

    fn register(self, registry: &mut Registry) {
        type Labels = Vec<(&'static str, String)>;
        let labels = |value: String| vec![(self.label, value)];
        if self.counts {
            let family = Family::<Labels, Counter>::default();
            for (value, count) in self.rows {
                family.get_or_create(&labels(value)).inc_by(count);
            }
            registry.register(self.name, self.help, family);
        } else {
            let family = Family::<Labels, Gauge>::default();
            for (value, number) in self.rows {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                family.get_or_create(&labels(value)).set(number);
            }
            registry.register(self.name, self.help, family);
        }
    }
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
        self.families.into_iter().for_each(|family| family.register(&mut registry));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

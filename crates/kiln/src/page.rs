//! State of a coordinator over HTTP: a page for people, the same as JSON, and for Prometheus.
//!
//! All of them come from one [`View`], which a coordinator leaves on a [`Board`] as it works; no
//! request asks a node for anything. The page is `page/page.html`, which lists its sections; a
//! metric is a row of `page/metrics.rs`.

mod logs;
mod metrics;
mod status;

mod html;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use kiln_net::NetError;
use kiln_recovery::{RateLimits, RecoveryState};

use crate::monitor::{AccessPolicy, Document, HttpServer, monitored};
use crate::volume_logs::Tended;
use logs::LogsSeen;

/// Contents of the page.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub pool: String,
    pub state: RecoveryState,
    /// Limits of its traffic.
    pub limits: RateLimits,
    pub logs: LogsSeen,
    /// The time, in ms since 1970.
    pub now_ms: u64,
}

/// Board on which a coordinator leaves its state.
#[derive(Debug)]
pub struct Board {
    view: Mutex<View>,
    /// The clock.
    now_ms: fn() -> u64,
}

impl Board {
    /// An empty one for a pool, with the clock: ms since 1970.
    pub fn new(pool: &str, now_ms: fn() -> u64) -> Board {
        let view = View { pool: pool.to_owned(), ..View::default() };
        Board { view: Mutex::new(view), now_ms }
    }

    /// Leaves a state.
    pub fn put(&self, state: RecoveryState, limits: RateLimits) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        (view.state, view.limits) = (state, limits);
    }

    /// Leaves what a look at the logs of volumes found, or why it failed.
    pub fn see_logs(&self, found: Result<Vec<Tended>, String>) {
        let now_ms = (self.now_ms)();
        self.view.lock().unwrap_or_else(PoisonError::into_inner).logs.see(now_ms, found);
    }

    /// Returns the present contents.
    fn view(&self) -> View {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        View { now_ms: (self.now_ms)(), ..view }
    }

    fn document(&self, path: &str) -> Document {
        /// Nothing from elsewhere, no script that is not ours, nobody's frame.
        const GUARDED: &[&str] = &[
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
            "Referrer-Policy: no-referrer",
        ];
        let view = self.view();
        let page = || Document {
            headers: GUARDED,
            ..Document::new("text/html; charset=utf-8", html::page(&view))
        };
        match path {
            "/" => page(),
            "/refresh.js" => {
                let kind = "text/javascript; charset=utf-8";
                Document::new(kind, include_str!("page/refresh.js").to_owned())
            }
            "/status.json" => Document::new("application/json", status::json(&view)),
            _ => monitored(path, || metrics::text(&view), ready(&view)).unwrap_or_else(|| {
                let there = "there are /, /status.json, /metrics, /health and /ready\n";
                Document::text(404, there)
            }),
        }
    }
}

/// Returns whether the coordinator works: it has seen the pool, and not failed to since.
fn ready(view: &View) -> Result<(), String> {
    match (&view.state.survey_error, &view.state.survey) {
        (Some(why), _) => Err(format!("the last look at the pool failed: {why}")),
        (None, None) => Err("it has not seen the pool yet".to_owned()),
        (None, Some(_)) => Ok(()),
    }
}

/// Serves a board as long as the process lives, on a thread of its own; gives the address.
/// Errors: the address cannot be listened on; no threads.
pub fn serve(
    board: Arc<Board>,
    listen: &str,
    policy: AccessPolicy,
) -> Result<SocketAddr, NetError> {
    let (tell, told) = mpsc::channel();
    let listen = listen.to_owned();
    let spawned = std::thread::Builder::new().spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(threads(&error.to_string())))),
        };
        runtime.block_on(async move {
            let answer = move |path: String| std::future::ready(board.document(&path));
            match HttpServer::start(&listen, policy, answer).await {
                Ok(server) => {
                    let _ = tell.send(Ok(server.address()));
                    std::future::pending::<()>().await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    });
    spawned.map_err(|error| threads(&error.to_string()))?;
    told.recv().unwrap_or_else(|_| Err(threads("the thread ended")))
}

fn threads(why: &str) -> NetError {
    NetError::Setup { what: "the page".to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests;

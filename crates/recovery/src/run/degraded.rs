//! Carries out degraded reads: lost chunks of a pool's objects, rebuilt by the agents that have the
//! others and streamed to a client. What to do next is decided by [`DegradedReader`].

use std::{collections::VecDeque, sync::Arc, sync::mpsc::RecvTimeoutError, time::Duration};

use kiln_plan::strategy;
use kiln_pool::{Degraded, Helpers, PoolConfig, Rebuilt};
use kiln_store::{MemoryBackend, names::object_key, names::object_name};

use super::request_queue::RequestQueue;
use crate::degraded_reader::prepare::{Prepared, prepare};
use crate::degraded_reader::{DegradedReader, ReaderAction};
use crate::{RecoveryError, degraded_reader::sink::Sink};
use kiln_net::{Address, Network, Result, proto::Priority, task_executor::TaskExecutor};

/// Time limit of silence; every request has its own limit, this one is for a bug only.
const UNHEARD: Duration = Duration::from_secs(60);
/// Time that the end waits for agents to hear of it.
const FAREWELL: Duration = Duration::from_millis(500);

/// Readers of a pool whose nodes are agents; for [`kiln_pool::ObjectReader::read_with`].
pub struct HelpingAgents<'a> {
    pub(super) network: &'a Network,
    config: &'a PoolConfig,
    pub(super) fresh: &'a (dyn Fn() -> [u8; 16] + Sync),
    strategy: Option<&'a str>,
    /// Bytes a second that each sends at most when it recodes; 0: no limit.
    pub(super) rate: u64,
}

impl std::fmt::Debug for HelpingAgents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelpingAgents").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

impl<'a> HelpingAgents<'a> {
    /// The agents of a pool, asked where that makes a read shorter; `fresh` names tasks.
    pub fn new(
        network: &'a Network,
        config: &'a PoolConfig,
        fresh: &'a (dyn Fn() -> [u8; 16] + Sync),
    ) -> HelpingAgents<'a> {
        HelpingAgents { network, config, fresh, strategy: None, rate: 0 }
    }

    /// The same, each sending at most so many bytes a second when it recodes; 0: no limit.
    #[must_use]
    pub fn paced(self, rate: u64) -> HelpingAgents<'a> {
        HelpingAgents { rate, ..self }
    }

    /// The same, asked whatever it costs, by plans of one strategy.
    pub fn by(self, name: &'a str) -> Result<HelpingAgents<'a>, RecoveryError> {
        strategy(name)?;
        Ok(HelpingAgents { strategy: Some(name), ..self })
    }

    /// The address of a node that is an agent.
    pub(super) fn address(&self, id: &str) -> Option<String> {
        let url = &self.config.node[self.config.position(id)?].url;
        let address = Address::is_meant(url).then(|| url.parse::<Address>().ok());
        address.flatten().map(|address| address.to_string())
    }
}

impl Helpers for HelpingAgents<'_> {
    fn begin(&self, ask: &Degraded) -> Result<Box<dyn Rebuilt + '_>, String> {
        let prepared = prepare(ask, self.strategy, |id| self.address(id))?;
        let stream = Stream::begin(self.network, ask, prepared, (self.fresh)());
        Ok(Box::new(stream.map_err(|error| error.to_string())?))
    }

    fn insists(&self) -> bool {
        self.strategy.is_some()
    }
}

/// A read under way.
struct Stream {
    network: Network,
    requests: RequestQueue,
    reader: DegradedReader,
    executor: TaskExecutor,
    sink: Sink,
    start: Duration,
    strategy: &'static str,
}

impl Stream {
    fn begin(
        network: &Network,
        ask: &Degraded,
        prepared: Prepared,
        task: [u8; 16],
    ) -> Result<Stream> {
        let Prepared { strategy, layout, shares, addresses, mine } = prepared;
        let peers = addresses.iter().map(|address| network.peer(&address.parse()?));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let object = object_key(object_name(&ask.info.object));
        peers.iter().for_each(|peer| network.show(peer, [object]));
        let requests = RequestQueue::new(peers, Priority::Client);
        let executor = TaskExecutor::new(Arc::new(mine.clone()), Arc::new(MemoryBackend::new()))?;
        let sink = Sink::new(ask, layout, mine.clone());
        let reader = DegradedReader::new(task, shares, mine)?;
        let (network, start) = (network.clone(), network.now());
        let mut stream = Stream { network, requests, reader, executor, sink, start, strategy };
        let todo = stream.reader.begin(Duration::ZERO);
        stream.act(todo)?;
        Ok(stream)
    }

    fn now(&self) -> Duration {
        self.network.now().saturating_sub(self.start)
    }

    fn act(&mut self, todo: Vec<ReaderAction>) -> Result<()> {
        let mut todo = VecDeque::from(todo);
        while let Some(next) = todo.pop_front() {
            match next {
                ReaderAction::Request(request) => self.requests.send([request]),
                ReaderAction::Compute { window, round, inputs } => {
                    let made = self.executor.compute(window, round, &inputs)?;
                    todo.extend(self.reader.computed(self.now(), window, made));
                }
                ReaderAction::Keep { window, round, pieces } => {
                    let bytes = self.sink.keep(window, round, &pieces);
                    todo.extend(self.reader.kept(self.now(), window, bytes));
                }
            }
        }
        Ok(())
    }

    /// Waits for an answer and does what follows from it; `false` when none came in time.
    fn hear(&mut self, patience: Duration) -> Result<bool> {
        match self.network.receive(self.requests.answers(), Some(patience)) {
            Ok((request, answer)) => {
                let todo = self.reader.answered(self.now(), &request, answer);
                self.act(todo)?;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

impl Rebuilt for Stream {
    fn next(&mut self) -> Result<Vec<Vec<u8>>, String> {
        loop {
            if let Some(execution) = self.sink.next() {
                return Ok(execution);
            }
            if let Some(why) = self.reader.over() {
                return Err(format!("helpers gave up: {why}"));
            }
            if !self.hear(UNHEARD).map_err(|error| error.to_string())? {
                return Err("helpers gave up: no answer in time".to_owned());
            }
        }
    }

    fn received(&self) -> u64 {
        self.reader.received()
    }

    fn strategy(&self) -> &str {
        self.strategy
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let todo = self.reader.end();
        if self.act(todo).is_err() {
            return;
        }
        // Agents keep a task for a minute that is not ended, and only so many.
        let until = self.network.now() + FAREWELL;
        while !self.reader.is_clear() {
            let left = until.saturating_sub(self.network.now());
            if left.is_zero() || !self.hear(left).is_ok_and(|heard| heard) {
                break;
            }
        }
    }
}

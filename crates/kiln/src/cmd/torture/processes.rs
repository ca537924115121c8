//! Processes of a torture, and the ways to its agents.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that was started in a folder and has not ended, by id.
#[derive(Debug)]
pub struct Processes(pub PathBuf, pub Mutex<BTreeMap<u32, Child>>);

impl Processes {
    /// Starts the program with these words; gives its id, and what it prints.
    pub fn start(&self, words: &str, clock: i64) -> io::Result<(u32, Option<ChildStdout>)> {
        let log = std::fs::File::options().create(true).append(true).open(self.0.join("log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words.split(' ')).current_dir(&self.0).env("KILN_CLOCK", clock.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut all = locked(&self.1);
        let mut child = command.spawn()?;
        let (id, said) = (child.id(), child.stdout.take());
        all.insert(id, child);
        Ok((id, said))
    }

    pub fn signal(&self, id: u32, signal: Signal) {
        let pid = locked(&self.1).get(&id).map(Pid::from_child);
        let _ = pid.map(|pid| kill_process(pid, signal));
    }

    /// Limits the bytes of each file that one writes from now on.
    pub fn limit(&self, id: u32, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        let pid = locked(&self.1).get(&id).map(Pid::from_child);
        let _ = pid.map(|pid| prlimit(Some(pid), Resource::Fsize, limit));
    }

    /// Waits for the end of one, at most so long; `Err`: it runs, `None`: a signal ended it.
    pub fn wait(&self, id: u32, looks: u64) -> Result<Option<i32>, ()> {
        for _ in 0..looks {
            let mut all = locked(&self.1);
            let Some(child) = all.get_mut(&id) else { return Ok(None) };
            if let Some(status) = child.try_wait().map_err(drop)? {
                all.remove(&id);
                return Ok(status.code());
            }
            drop(all);
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(())
    }

    pub fn kill(&self, id: u32) {
        self.signal(id, Signal::KILL);
        let _ = self.wait(id, u64::MAX);
    }

    /// Kills all; none is started as long as what it returns is held.
    pub fn end(&self) -> MutexGuard<'_, BTreeMap<u32, Child>> {
        let mut all = locked(&self.1);
        for child in all.values_mut() {
            let _ = child.kill().and_then(|()| child.wait());
        }
        all.clear();
        all
    }
}

/// An agent behind an address that stays, whatever becomes of the agent.
#[derive(Debug)]
pub struct Agent {
    /// Address that clients and other agents know.
    pub address: SocketAddr,
    pub id: Mutex<u32>,
    serves: Arc<Mutex<SocketAddr>>,
    pub cut: watch::Sender<bool>,
}

impl Agent {
    /// Makes the way to an agent. While it is cut, nothing arrives and nothing ends; connections of
    /// before end with the cut.
    pub async fn new() -> io::Result<Agent> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, (cut, is_cut)) = (listener.local_addr()?, watch::channel(false));
        let serves = Arc::new(Mutex::new(address));
        let agent = Agent { address, id: Mutex::new(0), serves: Arc::clone(&serves), cut };
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (to, mut is_cut, mut then) = (*locked(&serves), is_cut.clone(), is_cut.clone());
                tokio::spawn(async move {
                    let passes = async {
                        let mut agent = TcpStream::connect(to).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut agent).await
                    };
                    tokio::select! {
                        biased;
                        () = async { drop(is_cut.wait_for(|cut| *cut).await) } => {}
                        _ = passes => return,
                    }
                    drop(then.wait_for(|cut| !cut).await);
                });
            }
        });
        Ok(agent)
    }

    /// Starts it on a folder, unless it runs.
    pub fn start(&self, processes: &Processes, folder: &str) -> io::Result<()> {
        let mut id = locked(&self.id);
        if processes.wait(*id, 1).is_err() {
            return Ok(());
        }
        let words = format!("agent --dir {folder} --listen 127.0.0.1:0 --plain --json");
        let (new, said) = processes.start(&words, 0)?;
        *id = new;
        let mut lines =
            said.into_iter().flat_map(|said| BufReader::new(said).lines().map_while(Result::ok));
        let address = lines
            .find_map(|line| line.split_once("kiln+plain://")?.1.split_once('/')?.0.parse().ok());
        let ended = || io::Error::other(format!("the agent of {folder} ended"));
        *locked(&self.serves) = address.ok_or_else(ended)?;
        Ok(())
    }
}

//! `--http`: the page, metrics and state of a coordinator that runs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{io::Write, sync::Arc};

use clap::Args;
use uuid::Uuid;

use crate::exit::{Failure, Result};
use crate::page::{Board, serve};
use crate::{monitor::AccessPolicy, print, setup::Setup};

/// Most bytes of a token's file.
const TOKEN_MAX: usize = 256;
/// Shorter ones can be guessed.
const TOKEN_MIN: usize = 16;

// No doc comment: clap would take it for the summary.
#[derive(Debug, Args)]
#[command(next_help_heading = "A page to look at")]
pub struct WatchFlags {
    /// Serve a page at this address, e.g. 127.0.0.1:7480, with /status.json, /metrics, /health and
    /// /ready beside it. Nothing can be changed there. Other addresses than those of loopback want
    /// --http-token and --key
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "agents")]
    http: Option<String>,
    /// File with the token that the page asks for (as a bearer token, or as the password of the
    /// name kiln); made if it is not there
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token: Option<PathBuf>,
}

impl WatchFlags {
    /// Returns whether a page is served.
    pub fn wanted(&self) -> bool {
        self.http.is_some()
    }

    /// Serves the board, if it is wanted, and says where.
    /// Errors: an address that everybody reaches, without a token or key; one that cannot be
    /// listened on.
    pub fn serve(&self, board: &Arc<Board>, setup: &Setup) -> Result<()> {
        let Some(listen) = &self.http else { return Ok(()) };
        let token = self.http_token.as_deref().map(token).transpose()?;
        let local = AccessPolicy::is_loopback(listen);
        if !local && token.is_none() {
            let problem = format!(
                "{listen} is not a loopback address: give --http-token FILE, or use 127.0.0.1 and \
                 a tunnel (ssh -L)"
            );
            return Err(Failure::Flag { flag: "--http", problem });
        }
        // Who listens on the way must not learn the token.
        let tls = if local { None } else { Some(setup.key()?) };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let policy = AccessPolicy { token, tls, ..AccessPolicy::default() };
        let address = serve(Arc::clone(board), listen, policy)?;
        if !setup.quiet {
            print::progress_line(&format!("page at {scheme}://{address}/"));
        }
        Ok(())
    }
}

/// Reads the token in a file, which is created if absent.
fn token(path: &Path) -> Result<String> {
    let failed = |action| move |source| Failure::Io { action, path: path.to_owned(), source };
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match options {
        Ok(mut file) => {
            let new = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
            file.write_all(format!("{new}\n").as_bytes()).map_err(failed("write"))?;
            file.sync_all().map_err(failed("write"))?;
            return Ok(new);
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(failed("create")(source)),
    }
    let unusable =
        |problem: &str| Failure::NotUsable { path: path.to_owned(), problem: problem.to_owned() };
    let meta = fs::metadata(path).map_err(failed("open"))?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(unusable("readable by others than its owner; chmod 600 it"));
    }
    if meta.len() > TOKEN_MAX as u64 {
        return Err(unusable("too long for a token"));
    }
    let text = fs::read_to_string(path).map_err(failed("read"))?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(unusable("a token is one line of 16 letters and digits or more"));
    }
    Ok(token.to_owned())
}

//! What a number is worth without: the machine, the kernel, the compiler, the commit.

use crate::measure::Clock;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// Where and with what the numbers were made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// The coding kernel that kiln chose.
    pub kernel: String,
    /// The class of CPU that everybody was held to.
    #[serde(default)]
    pub held_to: Option<String>,
    /// The operating system.
    pub system: String,
    /// The Rust compiler.
    pub compiler: String,
    /// Commit, with `+` if files were changed since.
    pub commit: String,
    /// Load of the machine when the run began: other work makes numbers worse.
    pub load: String,
    /// The core that measured.
    pub core: Option<usize>,
    /// The clock of all rates but those of two threads.
    pub clock: Clock,
    /// Whether buffers lie on huge pages, if the system gives them.
    pub huge_pages: bool,
}

impl Machine {
    /// Looks around; what cannot be found out is `unknown`.
    pub fn look(core: Option<usize>, clock: Clock, huge_pages: bool) -> Machine {
        let first_line = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_string());
        let unknown = |_| "unknown".to_string();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = kiln_gf::active().map_or("none", |kernel| kernel.name());
        let dirty = output("git", &["status", "--porcelain", "--untracked-files=no"]);
        let commit = output("git", &["rev-parse", "--short", "HEAD"]).unwrap_or("unknown".into());
        Machine {
            cpu: cpu.map_or("unknown".into(), |(_, model)| model.to_string()),
            cores: crate::measure::cores(),
            kernel: kernel.to_string(),
            held_to: crate::isa::held().map(str::to_owned),
            system: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            compiler: output("rustc", &["--version"]).unwrap_or("unknown".into()),
            commit: commit + if dirty.is_some_and(|d| !d.is_empty()) { "+" } else { "" },
            load: first_line("/proc/loadavg").unwrap_or_else(unknown),
            core,
            clock,
            huge_pages,
        }
    }
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

//! Emulated disks: a loop device over memory, throttled by the kernel's block controller.
//!
//! What it models is a limit of reads a second and a limit of bytes a second, of which one binds,
//! as volumes of clouds have them. It does not model how far a head moves. It needs root, a loop
//! device and the block controller of cgroup v1; [`Disk::new`] says what is missing.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use kiln_store::{DeviceCounters, device_counted};

/// Written to the image at a time.
const BLOCK: usize = 1 << 20;
const CGROUPS: &str = "/sys/fs/cgroup/blkio";

/// Limits of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Reads.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
}

/// An emulated disk; gone when dropped.
///
/// Its image has no name, and the loop device is told at once to end with its last user: so both
/// go even when this process is killed, unless a file system is mounted on them.
pub struct Disk {
    name: String,
    /// Keeps the loop device alive.
    _held: Option<fs::File>,
    number: u32,
    limited: bool,
    mount: Option<PathBuf>,
}

/// Limited disks of this process. A process is in one group only, so they share it.
static LIMITED: Mutex<usize> = Mutex::new(0);

impl Disk {
    /// A disk of so many bytes that no device can compress, with limits if any. This process (and
    /// what it starts later) is held to them.
    ///
    /// # Errors
    /// What is not permitted or missing here.
    pub fn new(bytes: u64, limits: Option<Limits>) -> io::Result<Disk> {
        static DISKS: AtomicU32 = AtomicU32::new(0);
        let count = DISKS.fetch_add(1, Ordering::Relaxed);
        let name = format!("kiln-bench-{}-{count}", std::process::id());
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let image = folder.join(&name);
        let attached = fill(&image, bytes).and_then(|()| attach(&image));
        fs::remove_file(&image)?;
        let number = attached?;
        // From here on the destructor takes back what was set up.
        let mut disk = Disk { name, _held: None, number, limited: false, mount: None };
        disk._held = Some(fs::File::open(disk.path())?);
        run("losetup", &["--detach", &text(&disk.path())])?;
        if let Some(limits) = limits {
            disk.throttle(limits)?;
        }
        Ok(disk)
    }

    fn throttle(&mut self, limits: Limits) -> io::Result<()> {
        let mut disks = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group();
        fs::create_dir_all(&group)?;
        (*disks, self.limited) = (*disks + 1, true);
        self.limit("read_iops", limits.reads)?;
        self.limit("read_bps", limits.bytes)?;
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())
    }

    /// 0: none.
    fn limit(&self, what: &str, limit: u64) -> io::Result<()> {
        let file = group().join(format!("blkio.throttle.{what}_device"));
        fs::write(file, format!("7:{} {limit}", self.number))
    }

    /// The device.
    pub fn path(&self) -> PathBuf {
        format!("/dev/loop{}", self.number).into()
    }

    /// What it was asked for since it exists.
    ///
    /// # Errors
    /// The system does not say.
    pub fn counted(&self) -> io::Result<DeviceCounters> {
        let silent = || io::Error::other("the system tells nothing of the device");
        device_counted(&self.path()).ok_or_else(silent)
    }

    /// Puts a file system on it and mounts it; gives the folder.
    ///
    /// # Errors
    /// Not permitted, or no such tools.
    pub fn mount(&mut self) -> io::Result<PathBuf> {
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", &text(&self.path())])?;
        let folder = std::env::temp_dir().join(&self.name);
        fs::create_dir_all(&folder)?;
        self.mount = Some(folder.clone());
        run("mount", &["-o", "noatime", &text(&self.path()), &text(&folder)])?;
        Ok(folder)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Each step stands for itself: one that fails must not keep the next from being done.
        if let Some(folder) = &self.mount {
            let _ = run("umount", &[&text(folder)]);
            let _ = fs::remove_dir(folder);
        }
        if self.limited {
            let _ = self.limit("read_iops", 0).and_then(|()| self.limit("read_bps", 0));
            let mut disks = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
            *disks -= 1;
            if *disks == 0 {
                let root = Path::new(CGROUPS).join("cgroup.procs");
                let _ = fs::write(root, std::process::id().to_string());
                let _ = fs::remove_dir(group());
            }
        }
    }
}

/// The group of this process.
fn group() -> PathBuf {
    Path::new(CGROUPS).join(format!("kiln-bench-{}", std::process::id()))
}

fn fill(image: &Path, bytes: u64) -> io::Result<()> {
    let mut file = fs::File::create(image)?;
    let (mut random, mut block) = (kiln_store::SplitMix64(1), vec![0; BLOCK]);
    for _ in 0..bytes / BLOCK as u64 {
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        file.write_all(&block)?;
    }
    Ok(())
}

/// Attaches an image to a free loop device; gives its number.
fn attach(image: &Path) -> io::Result<u32> {
    let with = |direct: &str| run("losetup", &[direct, "--find", "--show", &text(image)]);
    // Memory file systems may have no direct I/O; the image is in memory in any case.
    let name = with("--direct-io=on").or_else(|_| with("--direct-io=off"))?;
    let number = name.trim().strip_prefix("/dev/loop").and_then(|n| n.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("losetup said {name:?}")))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a tool; its words are the error.
fn run(tool: &str, words: &[&str]) -> io::Result<String> {
    let output = Command::new(tool).args(words).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{tool}: {}", said.trim())))
        }
    }
}

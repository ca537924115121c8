//! `kiln probe`

use std::{path::PathBuf, time::Instant};

use clap::Args;
use kiln_store::device::fit::fit;
use kiln_store::device::{Combine, DeviceModel, Uncertainty, measure};
use kiln_store::{
    Backend, FileBackend, ReadAt, ReadMode, SplitMix64, device_counted, longest_read, open_device,
};
use kiln_stripe::Observer;
use minijinja::context;

use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::names::{DEVICE_MODEL, PROBE_SCRATCH};
use crate::print::{fields, seconds};
use crate::setup::{Setup, direct, local, write_file};
use crate::sizes;

/// Bytes written to the scratch file at a time.
const BLOCK: usize = 1 << 20;

/// Measure what reads cost on a device
///
/// Reads at random places, past the page cache, in several sizes and numbers in flight, and finds
/// the cost of a read, the cost of a byte, and how many reads at once are worth while. A repair
/// then knows which gaps between sub-chunks are cheaper to read through than to skip. Every size
/// is read several times, in turn with the others: how far that is apart, and from the model, is
/// kept with it, and the less certain it is the more carefully reads are planned.
#[derive(Debug, Args)]
#[command(after_help = help("probe"))]
pub struct Probe {
    /// A folder on the device, or the device itself
    #[arg(value_name = "DIR|DEVICE")]
    target: PathBuf,
    /// Keep the result in FILE [default: .kiln-device in DIR; nowhere for DEVICE]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seconds of reading, about; up to three times as long where reads are held up
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Bytes of the scratch file in DIR
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "128MiB")]
    scratch: u64,
}

impl Probe {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        self.check()?;
        let target = local(&self.target)?.to_owned();
        Probe { target, ..self }.probe(setup)
    }

    fn probe(self, setup: &Setup) -> Result<Exit> {
        let folder = self.target.is_dir();
        let before = device_counted(&self.target);
        setup.observer.begin("probe", None);
        let (measured, alignment) = match folder {
            true => self.measure_folder(setup),
            false => {
                let together = direct() == ReadMode::DIRECT;
                self.measure(&*open_device(&self.target, together)?, setup)
            }
        }?;
        setup.observer.finish();
        let target = self.target.display().to_string();
        let longest = longest_read(&self.target);
        let model = fit(&measured.samples, alignment, &[longest]).ok_or_else(|| {
            let problem = "too small to measure: 64 KiB are the least".into();
            Failure::NotUsable { path: self.target.clone(), problem }
        })?;
        let requests = |reads: u64, bytes: u64| fields! { reads: reads, bytes: bytes };
        let counted = device_counted(&self.target).zip(before).map(|(now, then)| {
            let reads = (now.reads + now.merged).saturating_sub(then.reads + then.merged);
            requests(reads, now.bytes.saturating_sub(then.bytes))
        });
        let report = fields! {
            target: target,
            // The file that holds the model now.
            stored: self.store(folder, &model)?.map(|path| path.display().to_string()),
            model: &model,
            // Bytes that take as long to transfer as one more read takes.
            gap_bytes: model.gap_bytes(),
            meaning: meaning(&model, measured.slice_seconds),
            // Longer reads are asked for in pieces of this size.
            longest_read: longest,
            // What this program asked for, and what the device counted meanwhile for all its users.
            asked: requests(measured.reads, measured.bytes),
            counted: counted,
            bytes_read: measured.bytes,
            seconds: setup.seconds(),
            samples: measured.samples,
            // Seconds between stalls of a device that grants reads in slices.
            slice_seconds: measured.slice_seconds,
        };
        setup.tell("probe", &report, context! {})
    }

    fn check(&self) -> Result<()> {
        let flag = |flag, problem: &str| Err(Failure::Flag { flag, problem: problem.into() });
        if !(0.1..=600.0).contains(&self.seconds) {
            return flag("--seconds", "must be 0.1 to 600");
        }
        if !((1 << 20)..=(1 << 40)).contains(&self.scratch) {
            return flag("--scratch", "must be 1 MiB to 1 TiB");
        }
        Ok(())
    }

    fn measure(
        &self,
        file: &dyn ReadAt,
        setup: &Setup,
    ) -> Result<(measure::Measured, u64), Failure> {
        let (start, said) = (Instant::now(), |bytes| setup.observer.advance(bytes));
        let now = || start.elapsed().as_secs_f64();
        let measured = measure::measure(file, self.seconds, setup.seed, &now, said)?;
        Ok((measured, file.alignment()))
    }

    fn measure_folder(&self, setup: &Setup) -> Result<(measure::Measured, u64), Failure> {
        let store = FileBackend::open(&self.target)?.with_reads(direct());
        let outcome = write_scratch(&store, self.scratch, setup.seed)
            .and_then(|()| Ok(store.open(PROBE_SCRATCH)?))
            .and_then(|file| match file.alignment() {
                1 => Err(Failure::NotUsable {
                    path: self.target.clone(),
                    problem: "its file system cannot be read past the page cache".into(),
                }),
                _ => self.measure(&*file, setup),
            });
        let removed = store.remove(PROBE_SCRATCH);
        let measured = outcome?;
        removed?;
        Ok(measured)
    }

    /// Keeps the model; gives the file.
    fn store(&self, folder: bool, model: &DeviceModel) -> Result<Option<PathBuf>> {
        let path = match &self.output {
            Some(path) => path.clone(),
            None if folder => self.target.join(DEVICE_MODEL),
            None => return Ok(None),
        };
        let path = local(&path)?.to_owned();
        let text = serde_json::to_string_pretty(model).map_err(|error| Failure::Io {
            action: "write",
            path: path.clone(),
            source: error.into(),
        })?;
        write_file(&path, format!("{text}\n").as_bytes())?;
        Ok(Some(path))
    }
}

/// Bytes that no device can compress, durable, so that reads find them on the device.
fn write_scratch(store: &FileBackend, bytes: u64, seed: u64) -> Result<()> {
    let mut file = store.append(PROBE_SCRATCH, 0)?;
    let (mut random, mut block) = (SplitMix64(seed), vec![0; BLOCK]);
    for _ in 0..bytes / BLOCK as u64 {
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        file.append(&block)?;
    }
    Ok(file.sync()?)
}

/// The model in words.
fn meaning(model: &DeviceModel, slice: Option<f64>) -> Vec<String> {
    let gap = sizes::show(model.gap_bytes());
    let mut lines = vec![format!(
        "a read costs {}, a MiB {}",
        seconds(model.read_seconds),
        seconds(model.byte_seconds * f64::from(1 << 20))
    )];
    lines.push(match model.combine {
        Combine::Sum => format!("gaps below {gap} are cheaper to read through than to skip"),
        Combine::Larger => format!(
            "reads and bytes have limits of their own: below {gap} a read the number of reads \
             binds, and gaps cost nothing as long as it does"
        ),
    });
    if let Some(piece) = model.piece_bytes {
        let piece = sizes::show(piece);
        lines.push(format!("a read of more than {piece} costs a read for every {piece} of it"));
    }
    lines.push(match model.parallelism {
        gain if gain < 1.15 => "reads together are no faster than one after the other".to_owned(),
        gain => format!(
            "reads together are {gain:.1} times as fast as one after the other, from {} in flight \
             on",
            model.depth
        ),
    });
    if let Some(slice) = slice {
        let slice = seconds(slice);
        lines.push(format!("reads are held up every {slice} or so: limits granted in slices"));
    }
    lines.push(doubt(model));
    lines
}

/// Describes the accuracy of the model.
fn doubt(model: &DeviceModel) -> String {
    let Uncertainty { error, spread, ref alternatives } = model.uncertainty;
    let mut text = format!(
        "measurements are {:.0}% off in the mean and {:.0}% at most, repetitions {:.0}% apart",
        100.0 * error,
        100.0 * model.worst_fit,
        100.0 * spread
    );
    if model.is_doubtful() {
        text += "; other work on the device or the machine, or a device that is not so simple: \
                 gaps will be read only where all models gain that this probe allows";
    } else if !alternatives.is_empty() {
        text += &format!("; {} more models explain them about as well", alternatives.len());
    }
    text
}

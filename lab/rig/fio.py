"""fio as the client: its words, its report, and its log of every request."""

import json
import resource
from pathlib import Path

from lab.rig.tools import run

# Of fio's logs: whether a request reads (0), writes (1) or trims (2).
OPERATIONS = "rwt"


def words(engine, cell, seconds, log, seed):
    """fio's words for a cell. All requests go to files LOG_lat.N.log, one for each job."""
    common = ["fio", "--output-format=json", "--direct=1", "--time_based",
              f"--runtime={round(seconds * 1000)}ms", f"--randseed={seed}", "--disable_slat=1",
              "--disable_clat=1", "--lat_percentiles=1", f"--write_lat_log={log}",
              "--log_offset=1", *engine]
    for job in cell.jobs:
        common += [f"--name={job.name}", *(f"--{flag}" for flag in job.flags),
                   f"--iodepth={job.depth}"]
    return common


def fill_words(engine, size_mib, pattern, size="1m", depth=16):
    """Words that write an image of a size once."""
    return ["fio", "--output-format=json", "--direct=1", "--name=fill", f"--rw={pattern}",
            f"--bs={size}", f"--iodepth={depth}", f"--size={size_mib}m", *engine]


def jobs_of(said):
    """The jobs of a report, which may have warnings before it."""
    return json.loads(said[said.index("{"):])["jobs"]


def totals(jobs):
    """Requests, bytes and rates of all jobs together."""
    found = dict(ops=0, bytes=0, read_ops=0, iops=0.0, client_reads=0, client_writes=0)
    for job in jobs:
        for side in ("read", "write"):
            part = job[side]
            found["ops"] += part["total_ios"]
            found["bytes"] += part["io_bytes"]
            found["iops"] += part["iops"]
            found["client_" + side + "s"] += part["io_bytes"]
        found["read_ops"] += job["read"]["total_ios"]
    return found


def requests_of(text, job):
    """Rows of a log as (began, operation, offset, bytes, took, job), in microseconds. fio notes
    when a request ended, in milliseconds, and how long it took, in nanoseconds."""
    found = []
    for line in text.splitlines():
        ended, took, operation, size, offset = (int(field) for field in line.split(",")[:5])
        took //= 1000
        found.append((max(ended * 1000 - took, 0), OPERATIONS[operation], offset, size, took, job))
    return found


def percentile(ordered, share):
    """The number below which a share of sorted numbers lies; 0 of none."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


def latencies(requests):
    """Mean and percentiles of how long requests took."""
    took = sorted(request[4] for request in requests)
    found = dict(mean_us=sum(took) / len(took) if took else 0)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        found[f"{name}_us"] = percentile(took, share)
    return found


def sizes(requests):
    """How many reads and writes had which size."""
    found = {}
    for _, operation, _, size, *_ in requests:
        key = f"{operation}{size}"
        found[key] = found.get(key, 0) + 1
    return found


def bins(requests, every):
    """Bytes that were done in each part of a second, for pictures over time."""
    found = []
    for began, _, _, size, took, _ in requests:
        at = int((began + took) / 1e6 / every)
        found += [0] * (at + 1 - len(found))
        found[at] += size
    return found


def run_cell(engine, cell, seconds, folder, seed, environment):
    """Runs fio to its end: totals, all requests in the order in which they began, and the seconds
    of processor time that it took itself."""
    log = folder / "fio"
    for old in folder.glob("fio_lat.*.log"):
        old.unlink()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run(*words(engine, cell, seconds, log, seed), env=environment, timeout=seconds + 600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    requests = []
    for number, _ in enumerate(cell.jobs, 1):
        path = Path(f"{log}_lat.{number}.log")
        requests += requests_of(path.read_text(), number - 1)
        path.unlink()
    found = totals(jobs_of(said))
    found["client_cpu"] = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return found, sorted(requests)

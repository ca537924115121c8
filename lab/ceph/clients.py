"""What clients see: rados bench and fio on a block device, over pools of several codes."""

import json
import shutil
import subprocess

from lab.rig.ceph import ClusterError

POOLS = {
    "3 replicas": None,
    "stock isa 6+3": "plugin=isa k=6 m=3 technique=reed_sol_van stripe_unit=64K",
    "kiln rs 6+3": "plugin=kiln code=rs k=6 m=3 stripe_unit=64K",
    "kiln clay 6+3": "plugin=kiln code=clay k=6 m=3 stripe_unit=110592",
}
META = "b-meta"


def run(words, seconds):
    """What a program prints."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=seconds * 10 + 300)
    if done.returncode != 0:
        raise ClusterError(f"{words[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def rados_bench(cluster, pool, seconds):
    """4 MiB objects written and read back, 16 at a time: MB/s."""
    words = ["rados", "-c", cluster.conf, "-p", pool, "bench", seconds]
    write = run([*words, "write", "--no-cleanup", "-t", 16, "-b", 4 << 20], seconds)
    read = run([*words, "seq", "-t", 16], seconds)

    def rate(text):
        line = next(line for line in text.splitlines() if line.startswith("Bandwidth (MB/sec)"))
        return float(line.split(":")[1])
    return dict(write_mb_s=rate(write), read_mb_s=rate(read))


def fio(cluster, pool, image, seconds):
    """4 KiB random writes to a block device, 16 at a time: writes a second."""
    words = ["fio", "--name=w", "--ioengine=rbd", "--clientname=admin", f"--pool={META}",
             f"--rbdname={image}", "--rw=randwrite", "--bs=4k", "--iodepth=16", "--direct=1",
             "--time_based", f"--runtime={seconds}", "--output-format=json"]
    env_conf = f"CEPH_CONF={cluster.conf}"
    out = run(["env", env_conf, *words], seconds)
    job = json.loads(out[out.index("{"):])["jobs"][0]["write"]
    return dict(random_write_iops=round(job["iops"]),
                random_write_p99_ms=job["clat_ns"]["percentile"]["99.000000"] / 1e6)


def make_pool(cluster, name, profile, pgs=8):
    """A pool with some placement groups, replicated without a profile."""
    if profile:
        cluster.pool(name, profile, pgs=pgs)
        return
    cluster.command("osd pool create", pool=name, pg_num=pgs, pgp_num=pgs,
                    pool_type="replicated")


def clients(cluster, seconds, say):
    """A row for each code."""
    rows = []
    has_fio = shutil.which("fio") and shutil.which("rbd")
    make_pool(cluster, META, None)
    run(["rbd", "-c", cluster.conf, "pool", "init", META], 60)
    for number, (name, profile) in enumerate(POOLS.items()):
        pool = f"b-clients-{number}"
        make_pool(cluster, pool, profile)
        cluster.settle()
        row = dict(code=name, seconds=seconds, **rados_bench(cluster, pool, seconds))
        if has_fio:
            image = f"image-{number}"
            data = ["--data-pool", pool]
            run(["rbd", "-c", cluster.conf, "create", "--size", "1G", *data, f"{META}/{image}"],
                60)
            row.update(fio(cluster, pool, image, seconds))
        rows.append(row)
        say(json.dumps(row))
        cluster.drop_pool(pool)
    return rows

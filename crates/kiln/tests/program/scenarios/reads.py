"""The gaps that a plan reads through on a device. Planned reads that are done and counted stand in
`sessions/reads.txt`."""

import json

from rig import holds, same, test

# A disk: 8 ms to get anywhere, 150 MB/s.
DISK = {"version": 1, "read_seconds": 0.008, "byte_seconds": 6.67e-9, "start_seconds": 0.0,
        "combine": "sum", "parallelism": 1.0, "depth": 1, "alignment": 512, "worst_fit": 0.0}


@test
def a_plan_says_which_gaps_a_device_reads_through(rig):
    (rig / "disk").write_text(json.dumps(DISK))

    def plan(chunk):
        # Chunk 17 of 16+2 has 128 runs in gray order, of two layers but at the ends.
        words = "plan -c clay:16+2,order=gray --lost 17 --device-model disk --json --chunk"
        return rig.kiln(f"{words} {chunk}").ok().json()

    small, large = plan("1MiB"), plan("4GiB")
    loss = small["losses"][0]
    # All gaps of a chunk are bytes for 3.5 ms, a read costs 8: everything is read, so that k whole
    # chunks are less work than n-1 of them.
    same((loss["chosen"], loss["as_runs"]["reads"]), ("decode", 128 * 17), loss)
    assert loss["planned"]["reads"] <= 17 and loss["planned"]["widest_gap"] >= 4096, loss
    loss = large["losses"][0]
    same((loss["chosen"], loss["planned"]["reads"]), ("runs", 2176), loss)
    # Half of every chunk, a read a run.
    expected = 128 * 0.008 + (2 << 30) * 6.67e-9
    assert abs(loss["planned"]["seconds"] / expected - 1) < 1e-6, loss
    # The sizes from which things change. All gaps are alike here but the ends: all are read up to
    # some size, and the repair pays from the next one on.
    gaps, pays = small["gaps_until"], small["pays_from"]
    assert gaps > 1 << 20 and pays <= 2 * gaps, (gaps, pays)
    for size in small["sizes"]:
        best = min(size["as_runs"]["seconds"], size["decode"]["seconds"])
        assert size["planned"]["seconds"] <= 1.000_001 * best, size
        same(size["pays"], size["chunk"] >= pays, size)
    # Every single loss, and two at once; a folder that was probed is named as well as its file.
    (rig / "probed").mkdir()
    (rig / "probed/.kiln-device").write_text(json.dumps(DISK))
    text = rig.kiln("plan -c clay:4+2 --device-model probed").ok().stdout
    holds(text, "gaps are read through in chunks up to")
    two = rig.kiln("plan -c clay:6+3,order=gray --lost 0,1 --device-model disk --json").ok()
    same(len(two.json()["losses"]), 1)

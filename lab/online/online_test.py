#!/usr/bin/env python3
"""What the study computes, from texts and numbers; needs nothing and no second.

    online_test.py
"""

import argparse
import json
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from lab.online import cells
from lab.online import claims
from lab.online import exhibits
from lab.online import files
from lab.online import judged
from lab.online import mixes
from lab.online import mounted
from lab.online import settling
from lab.online import summary
from lab.online import traces
from lab.online.study import Samples, Study
from lab.online.targets import ALL, BY_NAME
from lab.rig import fio
from lab.rig import hosts
from lab.rig import meters
from lab.rig.tools import Failed


def raw(scale=1.0, **more):
    """What a sample begins as: 100 requests of 4 KiB."""
    found = dict(ops=100, bytes=409600, read_ops=0, iops=50.0, client_reads=0,
                 client_writes=409600, client_cpu=0.1, user=0.2 * scale, system=0.1 * scale,
                 helpers=0.0, seconds=2.0, context_switches=1000 * scale, read_bytes=0,
                 read_ios=0, write_bytes=1228800 * scale, write_ios=300 * scale,
                 public=450000.0, private=900000 * scale)
    found |= fio.latencies([(0, "w", 0, 4096, 1000 * scale, 0)])
    return summary.per_operation(found | more)


class Counters(unittest.TestCase):
    def test_texts_of_the_kernel(self):
        stat = "12 (ceph osd) x) S " + " ".join(str(at) for at in range(4, 30))
        self.assertEqual(meters.cpu_of(stat), (14 / meters.TICKS, 15 / meters.TICKS))
        status = "Name:\ta\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n"
        self.assertEqual(meters.switches_of(status), 12)
        self.assertEqual(meters.device_of("3 0 8 1 4 0 16 9 0 0 0"), (3, 4096, 4, 8192))
        link = {"ifname": "p0", "stats64": {"rx": {"bytes": 1}, "tx": {"bytes": 2}}}
        self.assertEqual(hosts.by_port([link]), {"p0": (1, 2)})

    def test_idle_is_taken_off_and_new_threads_begin_at_zero(self):
        zero = dict.fromkeys(meters.STEADY, 0) | {"at": 10.0, "threads": {"1/1": 5, "1/2": 9}}
        then = zero | {"at": 12.0, "user": 3.0, "private": 100,
                       "threads": {"1/1": 8, "1/3": 4}}
        found = meters.between(zero, then)
        self.assertEqual((found["seconds"], found["user"]), (2.0, 3.0))
        self.assertEqual(found["context_switches"], 7)
        idle = meters.rates(meters.between(zero, then | {"user": 1.0}))
        self.assertEqual(meters.without_idle(found, idle)["user"], 2.0)
        self.assertEqual(meters.without_idle(found, idle)["private"], 0.0)


class Clients(unittest.TestCase):
    def test_logs_of_requests(self):
        found = fio.requests_of("2, 1500000, 1, 4096, 8192, 0\n3, 500, 0, 512, 0, 0\n", 1)
        self.assertEqual(found[0], (500, "w", 8192, 4096, 1500, 1))
        self.assertEqual(found[1], (3000, "r", 0, 512, 0, 1))
        self.assertEqual(fio.sizes(found), {"w4096": 1, "r512": 1})
        self.assertEqual(fio.bins(found, 0.001), [0, 0, 4096, 512])
        self.assertEqual(fio.latencies(found)["p99_us"], 1500)
        self.assertEqual(fio.percentile([], 0.5), 0)

    def test_reports_are_added_up(self):
        side = dict(total_ios=2, io_bytes=8192, iops=4.0)
        jobs = [dict(read=side, write=dict(side, io_bytes=0, total_ios=0, iops=0))] * 2
        said = "fio: a warning\n" + json.dumps(dict(jobs=jobs))
        found = fio.totals(fio.jobs_of(said))
        self.assertEqual((found["ops"], found["bytes"], found["iops"]), (4, 16384, 8.0))
        self.assertEqual((found["read_ops"], found["client_writes"]), (4, 0))

    def test_a_cell_becomes_words_of_fio(self):
        cell = cells.application("DB", 16, ("ceph:rs",))
        words = fio.words(["--ioengine=null"], cell, 2, "/x/log", 7)
        self.assertEqual([word for word in words if word.startswith("--name")],
                         ["--name=table", "--name=log"])
        self.assertEqual([word for word in words if word.startswith("--iodepth")],
                         ["--iodepth=13", "--iodepth=3"])
        self.assertIn("--runtime=2000ms", words)
        self.assertFalse(cell.reads_only)
        self.assertTrue(cells.simple("randread", 4096, 1, ()).reads_only)


    def test_requests_at_a_rate_come_at_moments_of_their_own(self):
        words = fio.words(["--ioengine=null"], cells.at_rate("randread", 50, 32, ()), 2, "/x", 7)
        self.assertIn("--rate_iops=50", words)
        self.assertIn("--rate_process=poisson", words)

    def test_applications_on_files_are_processes_with_shares(self):
        cell = cells.on_files("EDA", 8, ("ceph:rs",))
        self.assertEqual([(one["name"], one["count"]) for one in cell.processes],
                         [("frontend", 5), ("backend", 3)])
        for app, parts in mixes.FILES.items():
            self.assertAlmostEqual(sum(part.share for part in parts), 1, 2, app)
            for part in parts:
                self.assertEqual((part.file_bytes % part.size, part.size % 4096), (0, 0))
        self.assertEqual(files.requests_of("5,m,0,0,9,0\n7,w,4096,8192,2,1\n"),
                         [(5, "m", 0, 0, 9, 0), (7, "w", 4096, 8192, 2, 1)])


class Studies(unittest.TestCase):
    def test_cells_have_names_of_their_own_and_known_targets(self):
        for kind in cells.KINDS.values():
            names = [cell.name for cell in cells.cells(kind)]
            self.assertEqual(len(names), len(set(names)), names)
            for cell in cells.cells(kind):
                self.assertTrue(all(target in BY_NAME for target in cell.targets))
        self.assertEqual(len({target.image for target in ALL}), len(ALL))
        sizes = [size for size in cells.KINDS["full"].sizes]
        self.assertEqual((sizes[0], sizes[-1]), (1 << 10, 1 << 20))

    def test_a_run_may_have_other_sizes(self):
        asked = dict(image_mib=2048.0, device_mib=None, seconds=2.5, series=None)
        full, found = cells.KINDS["full"], cells.sized(cells.KINDS["full"], asked)
        self.assertEqual((found.image_mib, found.seconds), (2048, 2.5))
        self.assertEqual((found.device_mib, found.series), (full.device_mib, full.series))
        self.assertEqual(set(asked), set(cells.SIZES))

    def test_samples_are_not_made_again_and_half_a_line_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.samples"
            first = Samples(path, ["quick", "abc"])
            first.add("a", "ceph:rs", 0, {"iops": 1})
            first.add("a", "ceph:rs", 1, {"iops": 3})
            path.write_text(path.read_text()[:-9])
            again = Samples(path, ["quick", "abc"])
            self.assertTrue(again.has("a", "ceph:rs", 0))
            self.assertFalse(again.has("a", "ceph:rs", 1))
            self.assertFalse(Samples(path, ["quick", "other"]).all())

    def test_a_number_is_for_each_request_and_byte(self):
        found = raw()
        self.assertEqual((found["cpu_us"], found["switches"]), (3000.0, 10.0))
        self.assertEqual((found["write_amp"], found["ios"]), (3.0, 3.0))
        self.assertAlmostEqual(found["mb_s"], 50 * 4096 / 1e6)

    def test_the_line_has_every_key_and_null_for_what_was_not_measured(self):
        write = "randwrite-4k-q32"
        samples = {write: {"ceph:rep": [raw(), raw()], "ceph:rs": [raw(4, iops=10.0)] * 2,
                           "ceph:isa": [raw(4, iops=10.0)] * 2,
                           "volume:rs": [raw(0.5, iops=40.0)] * 2}}
        line = summary.headline(summary.Medians(samples), 32, 2, 5)
        self.assertTrue(set(summary.BARS) <= set(line))
        self.assertEqual((line["rs_over_rep_write_4k"], line["iops_over_ceph_rs"]), (0.2, 4.0))
        self.assertEqual((line["cpu_over_ceph_rs"], line["figures"]), (0.125, 5))
        self.assertIsNone(line["rs_over_rep_read_4k"])


class Exhibits(unittest.TestCase):
    def everything(self, kind):
        return {cell.name: {target: [raw(4 if target == "ceph:rs" else 1, requests={"w4096": 3},
                                         series=[raw()], bytes_over_time=[1, 2, 3])] * 2
                            for target in cell.targets} for cell in cells.cells(kind)}

    def test_every_figure_from_5_to_46_is_drawn_from_a_quick_run(self):
        kind = cells.KINDS["quick"]
        found, pictures = exhibits.all_of(summary.Medians(self.everything(kind)), kind)
        ends = [picture["end"] for picture in pictures]
        self.assertEqual(ends[:42], [f"{number:02}" for number in range(5, 47)])
        self.assertEqual(len(ends), len(set(ends)))
        self.assertEqual(found["write_switches"]["here"], 4.0)
        self.assertEqual(len(found), sum(map(len, claims.CLAIMS.values())))
        missing = [key for key, claim in found.items() if claim["here"] is None]
        # Nothing was read at devices in these samples.
        self.assertTrue(all("read" in key or "amp" in key for key in missing), missing)
        json.dumps(pictures)

    def test_verdicts_follow_from_the_data_and_name_the_worst_cell(self):
        def report(small, large, here):
            rates = {"4k": small, "32k": large}
            samples = {f"randread-{size}-q8": {"ceph:rep": [{"mb_s": 10, "mean_us": 1}],
                                               "volume:rs": [{"mb_s": rate, "mean_us": 10 / rate}]}
                       for size, rate in rates.items()}
            return {"samples": samples, "claims": {claim.key: {"here": here.get(claim.metric)}
                                                   for claim in claims.CLAIMS[9]},
                    "sizes": {"sizes": [4096, 32768], "depth": 8, "processes": {}}}

        # The paper: at least 0.84 of the rate of replicas, at most 1.22 of the latency.
        good = report(20, 9, {"mb_s": 0.9, "mean_us": 1.1})
        text, verdict = judged.ceph(9, good)
        self.assertEqual(verdict, "reproduced")
        self.assertIn("0.90", text)
        text, verdict = judged.volumes(9, good, [])
        self.assertEqual(verdict, "better")
        self.assertIn("worst 0.90, randread-32k-q8", text)
        self.assertEqual(judged.volumes(9, report(20, 1, {}), [])[1], "mixed")
        self.assertEqual(judged.volumes(9, report(1, 1, {}), [])[1], "worse")
        self.assertEqual(judged.ceph(9, report(1, 1, {"mb_s": 0.2}))[1], "not reproduced")
        self.assertIsNone(judged.volumes(23, good, []))
        self.assertIsNone(judged.ceph(9, report(1, 1, {})))

    def test_a_run_ends_before_its_disk_is_full(self):
        class Trimmed:
            count = 0

            def trim(self):
                self.count += 1

        system, real = Trimmed(), settling.shutil.disk_usage
        try:
            for free, trims in ((settling.SHORT, 0), (settling.SHORT - 1, 1), (settling.ROOM, 2)):
                settling.shutil.disk_usage = lambda _, free=free: SimpleNamespace(free=free)
                settling.look_for_room("/", [system])
                self.assertEqual(system.count, trims)
            settling.shutil.disk_usage = lambda _: SimpleNamespace(free=settling.ROOM - 1)
            with self.assertRaisesRegex(Failed, "what was measured is kept"):
                settling.look_for_room("/", [system])
        finally:
            settling.shutil.disk_usage = real

    def test_a_run_of_peers_has_everything_for_longer_and_with_a_host_gone(self):
        kind = cells.KINDS["peers"]
        medians = summary.Medians(self.everything(kind))
        found, pictures = exhibits.all_of(medians, kind)
        self.assertEqual(found, {})
        self.assertEqual([picture["end"] for picture in pictures],
                         ["rates", "serial", "cost", "cost-read", "steady", "degraded"])
        for picture in pictures:
            for panel in picture["figure"]["panels"]:
                self.assertEqual(len(panel["series"][0]["marks"]), len(panel["categories"]))
        line = summary.headline(medians, kind.depth, 3, 0)
        self.assertTrue(set(summary.STEADY_BARS) | {"cpu_over_ceph_fast"} <= set(line))
        self.assertIn("randread-4k-q32-degraded", summary.four_kib(medians, kind.depth))

    def test_a_host_goes_after_all_else_once(self):
        kind, said = cells.KINDS["peers"], []
        options = argparse.Namespace(minutes=1, target=["ceph:rep", "volume:rs"])
        with tempfile.TemporaryDirectory() as folder:
            study = Study(options, kind, Samples(Path(folder) / "x", []), None, said.append)
        gone = [cell.degraded for _, cell, _ in study.todo]
        self.assertEqual(gone, sorted(gone))
        self.assertEqual(gone.count(True), 3 * 2 * 2)

    def test_a_run_on_files_has_its_numbers_and_pictures(self):
        kind = cells.KINDS["files"]
        medians = summary.Medians({
            name: {target: [dict(one, data_us=2000.0, names_us=100.0) for one in rounds]
                   for target, rounds in targets.items()}
            for name, targets in self.everything(kind).items()})
        found, pictures = exhibits.all_of(medians, kind)
        self.assertEqual([picture["end"] for picture in pictures],
                         ["rates", "eda-files", "vda-files"])
        self.assertEqual(found["eda_files_switches"]["here"], 4.0)
        self.assertEqual(found["randwrite_at_rates_volume_over_rs_mean"]["here"], 0.25)
        self.assertEqual(len(found), len(mounted.claims()))
        self.assertEqual({claim["figure"] for claim in found.values()}, {39, 43, None})

    def test_nothing_is_drawn_from_nothing(self):
        kind = cells.KINDS["tiny"]
        self.assertEqual(exhibits.all_of(summary.Medians({}), kind)[1], [])


class Traces(unittest.TestCase):
    def test_a_trace_is_read_back_and_fio_can_have_it(self):
        rows = [(0, "w", 4096, 512, 10, 0), (2500, "r", 0, 1024, 20, 1)]
        text = traces.text_of(dict(cell="a", depth=2), rows)
        self.assertEqual(traces.read(text), (dict(cell="a", depth=2), rows))
        self.assertIn("2 image read 0 1024\n", traces.as_iolog(rows, "image"))
        with self.assertRaises(ValueError):
            traces.read("something else\n")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""What bench-repair computes, from numbers; needs nothing and no second.

    repair_test.py
"""

import argparse
import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from lab.repair import bench
from lab.repair import cells
from lab.repair import memory
from lab.repair import numbers
from lab.repair import summary
from lab.repair import throttle
from lab.repair.estimate import Estimate, load
from lab.repair.kept import Kept, compact, file_name
from lab.rig.tables import tables
from lab.rig.testbed import TestbedError

ABOUT = dict(cpu="a", cores=2, kernel="6", rustc="1", profile="release", commit="c", rate="r")
ALL = cells.chosen(cells.FULL, cells.WORDS)


def all_cells(plan):
    """The cells of a plan, in the order in which they are measured."""
    return [cell for of in plan.comparisons for cell in Estimate(plan).cells(of)]


def made_up(cell):
    """A row as a cell gives one: what is estimated, a little longer each round."""
    seconds = Estimate(ALL).seconds(cell.comparison, cell.rival) + cell.round / 100
    label = "agents, hub" if cell.rival.label == "agents" else cell.rival.label
    row = dict(seconds=seconds, bound_seconds=seconds / 1.1, over_bound=1.1, planned_sent=1 << 30,
               metered_sent=1 << 30, bytes_read=1 << 28, cpu_seconds=seconds / 2, agent_cores=0.5,
               machine_cores=1.0, traffic_over_plan=1.01, interface_over_plan=1.02,
               network_bytes=1 << 30, interface=[[1, 2]] * 17, commit="c")
    if cell.comparison.kind == "recovery":
        row["timeline"] = [[0.5, 1000], [1.0, 2000]]
    if cell.comparison.kind == "throttle":
        row |= dict(limit=2e7, mean_rate=1.9e7, most_in_a_second=2e7, client_alone=4e7,
                    client_beside=3e7, client_kept=0.75, limited=[[0.1, 10], [0.2, 10]],
                    reads=[[0, 1, 100]])
    return {**cell.row, "label": label, **row}


def report(plan=ALL):
    """A report of a whole run."""
    rows = [made_up(cell) for cell in all_cells(plan)]
    return dict(about=ABOUT, left=[], failed=[], plans=[], headline=summary.headline(rows),
                rows=rows)


class Limits(unittest.TestCase):
    def test_the_busiest_host_of_a_recovery_however_short(self):
        steady = [(0.5 * look, [10, 30]) for look in range(1, 9)]
        self.assertEqual(throttle.busiest(steady), (60, 60, 1))
        for looks in (1, 2, 3):
            most, mean, host = throttle.busiest([(2.0 * look, [0, 40, 0]) for look in
                                                 range(1, looks + 1)])
            self.assertEqual((round(most), round(mean), host), (20, 20, 1))
        self.assertEqual(throttle.busiest([(1.0, [0, 0]), (2.0, [50, 0])]), (50, 25, 0))


class Turns(unittest.TestCase):
    """Which cells there are, and in which order."""

    def test_rounds_follow_each_other_and_begin_with_another_rival(self):
        plan = cells.chosen(cells.FULL, ["window"])
        found = Estimate(plan).cells(plan.comparisons[0])
        self.assertEqual([cell.round for cell in found], sorted(cell.round for cell in found))
        firsts = [next(cell.rival for cell in found if cell.round == at) for at in range(3)]
        self.assertEqual(len(set(firsts)), 3)
        for at in (0, 1):
            self.assertEqual({cell.rival for cell in found if cell.round == at},
                             set(plan.comparisons[0].rivals))

    def test_what_takes_long_has_fewer_rounds_and_all_have_one(self):
        self.assertEqual([cells.by_time(None, None, time) for time in (3, 19, 21, 61)],
                         [3, 3, 2, 1])
        for plan in (cells.QUICK, ALL):
            for of in plan.comparisons:
                rivals = {cell.rival for cell in Estimate(plan).cells(of)}
                self.assertEqual(rivals, set(of.rivals), of)
        quick = [cell.rival.label for cell in all_cells(cells.QUICK)]
        self.assertEqual((quick.count("Clay hub"), quick.count("RS central")), (4, 1))

    def test_names_tell_cells_apart_also_as_those_of_files(self):
        for plan in (cells.QUICK, ALL):
            names = [file_name(cell.name) for cell in all_cells(plan)]
            self.assertEqual(len(names), len(set(names)))
        other = cells.chosen(cells.FULL, ["degraded"], rate="100mbit")
        self.assertFalse({cell.name for cell in all_cells(other)}
                         & {cell.name for cell in all_cells(ALL)})

    def test_parts_of_a_run_and_tiny_ones(self):
        usual = {of.only for of in cells.chosen(cells.FULL).comparisons}
        self.assertEqual(usual, set(cells.WORDS) - {"large", "butterfly"})
        self.assertEqual([of.chunk_mib for of in cells.chosen(cells.FULL, ["large"]).comparisons],
                         [64])
        tiny = cells.chosen(cells.FULL, tiny=True)
        self.assertEqual({of.kind for of in tiny.comparisons}, set(bench.KINDS))
        self.assertTrue(all(of.chunk_mib == 1 for of in tiny.comparisons))
        self.assertTrue(all(0 <= lost < k for k in (4, 8, 12) for lost in cells.along(k)))

    def test_everything_that_the_paper_shows_is_in_the_plan(self):
        sizes = {(of.kind, of.size) for of in cells.FULL.comparisons}
        for size in ("8+4", "10+4", "12+4", "10+2"):
            self.assertLessEqual({("degraded", size), ("recovery", size)}, sizes)
        self.assertEqual({of.window_kib for of in ALL.comparisons if of.kind == "window"},
                         set(numbers.WINDOWS))
        self.assertEqual({of.chunk_mib for of in ALL.comparisons if of.kind == "chunk"},
                         set(numbers.CHUNKS))


class Times(unittest.TestCase):
    def test_loads_are_those_of_the_plans(self):
        of = cells.Comparison("degraded", "12+4", 64, cells.MDS)
        found = {rival.label: load(of, rival) for rival in of.rivals}
        self.assertEqual((found["RS central"], found["Clay central"], found["Clay hub"]),
                         (12, 3.75, 1))
        butterfly = cells.Comparison("degraded", "10+2", 64, cells.BUTTERFLY)
        self.assertEqual(load(butterfly, cells.BUTTERFLY[2]), 5.5)

    def test_a_quick_run_is_quick_and_a_full_one_bounded(self):
        def minutes(plan):
            *_, last = Estimate(plan).lines()
            return float(last.split()[-2])
        self.assertLess(minutes(cells.QUICK), 7)
        self.assertLess(minutes(cells.chosen(cells.FULL)), 120)
        half = Estimate(cells.chosen(cells.FULL)).lines(lambda cell: cell.round > 0)
        self.assertLess(float([*half][-1].split()[-2]), 80)


class Rows(unittest.TestCase):
    """What is kept between runs."""

    def test_a_run_goes_on_where_it_was_and_not_on_another_machine(self):
        cell, other = all_cells(ALL)[:2]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder) / "cells"
            Kept(folder, ABOUT).keep(cell, made_up(cell))
            again = Kept(folder, ABOUT)
            self.assertTrue(again.has(cell) and not again.has(other))
            self.assertEqual(again.row(cell), made_up(cell))
            with self.assertRaises(TestbedError):
                Kept(folder, ABOUT | dict(cpu="b"))
        alone = Kept(None, ABOUT)
        alone.keep(cell, made_up(cell))
        self.assertTrue(alone.has(cell))

    def test_a_report_has_a_line_for_each_row(self):
        whole = json.loads(json.dumps(report()))
        text = compact(whole)
        self.assertEqual(json.loads(text), whole)
        self.assertLess(len(text.splitlines()), len(whole["rows"]) + 20)


class Memory(unittest.TestCase):
    def test_files_are_held_where_there_is_room(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "some").write_bytes(bytes(100_000))
            (Path(folder) / "empty").touch()
            held = memory.InMemory(Path(folder))
            self.assertEqual(len(held.maps), held.whole)
            held.release()
            with unittest.mock.patch.object(memory, "free_bytes", lambda: 10):
                self.assertFalse(memory.InMemory(Path(folder)).whole)


class Ready:
    """Measures without a test-bed."""

    measured, made, failing = [], [], set()

    def __init__(self, _bench, comparison):
        self.made.append(comparison)

    def measure(self, cell):
        if cell.rival.label in self.failing:
            raise TestbedError("not today")
        self.measured.append(cell)
        return made_up(cell)

    def close(self):
        self.made.append(None)


class Runs(unittest.TestCase):
    """Who is measured, with a bed that takes no time."""

    def setUp(self):
        Ready.measured, Ready.made, Ready.failing = [], [], set()
        self.kinds, bench.KINDS = bench.KINDS, dict.fromkeys(bench.KINDS, Ready)
        self.kept = Kept(None, ABOUT)

    def tearDown(self):
        bench.KINDS = self.kinds

    def run_all(self, plan, minutes=None):
        options = argparse.Namespace(minutes=minutes, commit="c")
        run = bench.Bench(None, plan, self.kept, None, options)
        # As much time passes as was estimated.
        run.took = lambda: sum(map(run.estimate.wall, Ready.measured))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            for comparison in plan.comparisons:
                run.compare(comparison)
        run.close()
        return run

    def test_cells_are_measured_in_turns_and_only_once(self):
        plan = cells.chosen(cells.FULL, ["window", "chunk"])
        self.run_all(plan)
        self.assertEqual(Ready.measured, all_cells(plan))
        # All windows read the same objects.
        made = [of for of in Ready.made if of]
        self.assertEqual([of.kind for of in made], ["window", *["chunk"] * 5])
        self.assertEqual(len(Ready.made), 2 * len(made))
        self.run_all(plan)
        self.assertEqual(len(Ready.measured), len(all_cells(plan)))

    def test_what_does_not_fit_is_left_for_the_next_run(self):
        plan = cells.chosen(cells.FULL, ["degraded"])
        run = self.run_all(plan, minutes=1)
        self.assertTrue(run.left and Ready.measured)
        self.assertEqual(len(run.left) + len(Ready.measured), len(all_cells(plan)))
        self.assertFalse(self.run_all(plan).left)
        self.assertEqual(len(Ready.measured), len(all_cells(plan)))

    def test_a_cell_that_fails_is_said_and_many_end_the_run(self):
        plan = cells.chosen(cells.FULL, ["degraded"])
        Ready.failing = {"Clay hub"}
        self.assertEqual(len(self.run_all(plan).failed), 9)
        Ready.failing = {rival.label for rival in cells.MDS}
        self.kept = Kept(None, ABOUT)
        with self.assertRaises(TestbedError):
            self.run_all(plan)


class Numbers(unittest.TestCase):
    """What pages are made of."""

    def test_a_full_run_has_every_number(self):
        whole = report()
        for name, number in whole["headline"].items():
            self.assertTrue(number is not None and -10 < number < 1000, f"{name}: {number}")
        quick = [made_up(cell) for cell in all_cells(cells.QUICK)]
        self.assertFalse(None in summary.headline(quick).values())
        self.assertEqual(set(summary.headline([]).values()), {None})

    def test_ratios_are_within_rounds_where_there_are_the_same(self):
        def rows(*times, **more):
            return [dict(seconds=time, round=at, **more) for at, time in enumerate(times)]
        # The second round was slow for both.
        self.assertEqual(numbers.in_rounds(rows(1, 9, 3), rows(2, 18, 4), "seconds"), 0.5)
        self.assertEqual(numbers.in_rounds(rows(1, 2, 3), rows(4), "seconds"), 0.5)
        self.assertEqual(numbers.in_rounds([dict(seconds=3)], [dict(seconds=2)], "seconds"), 1.5)

    def test_recoveries_have_the_chunks_that_are_asked_for(self):
        whole = report()
        hub = numbers.cell(whole, "recovery", "Clay hub", "clay:12+4", to="one")
        self.assertEqual({row["chunk_mib"] for row in hub}, {64})
        hub = numbers.cell(whole, "recovery", "Clay hub", "clay:12+4", largest=False, to="one")
        self.assertEqual({row["chunk_mib"] for row in hub}, {16})

    def test_a_page_has_the_rows_of_a_report_and_a_dash_for_what_is_not_there(self):
        lines = [line for part in tables(dict(rows=[dict(label="hub", seconds=2.5),
                                                    dict(label="central", cpu=[1, 2])]))
                 for line in part]
        self.assertEqual(lines[2:6], ["| label | seconds | cpu |", "|---|---|---|",
                                      "| hub | 2.5 | - |", "| central | - | 1, 2 |"])


if __name__ == "__main__":
    unittest.main()

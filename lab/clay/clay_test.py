#!/usr/bin/env python3
"""What the evaluation computes, from numbers; needs nothing and no second.

    clay_test.py
"""

import unittest

from lab.clay import orders
from lab.clay import summary
from lab.clay.cases import C1, C2, C3, C4, C5, C6, MIB, PLUGINS, Case, cases
from lab.rig import links

CODES = (C1, C2, C3, C4, C5, C6, orders.G16, orders.G14, orders.G9)


class Codes(unittest.TestCase):
    """Chunks that every plugin takes, and what an object loses."""

    def test_chunks_are_whole_pages_and_sub_chunks(self):
        for code in CODES:
            for unit in code.units.values():
                self.assertEqual((unit % 4096, unit % (32 * code.alpha)), (0, 0), code)

    def test_an_object_loses_a_chunk_of_each_of_its_stripes(self):
        self.assertEqual(C3.lost("W1", C3.stripe("W1")), 4 * MIB)
        self.assertEqual(C3.lost("W2", 64 * MIB), 4 * MIB)
        self.assertEqual(C3.lost("W2", MIB + 1), 2 * (64 << 10))

    def test_sizes_are_mixed_as_in_the_paper(self):
        sizes = C3.sizes("W2", 160)
        shares = [sizes.count(size * MIB) / len(sizes) for size in (64, 32, 1)]
        for share, wanted in zip(shares, (0.825, 0.1, 0.075)):
            self.assertAlmostEqual(share, wanted, delta=0.01)
        self.assertEqual(set(C1.sizes("W1", 64)), {64 * MIB})

    def test_cases_are_named_apart_and_all_codes_have_all_plugins(self):
        all_cases = cases([C1, C3], 16, [C4, C5, C6])
        self.assertEqual(len({case.key for case in all_cases}), len(all_cases))
        self.assertEqual(len([case for case in all_cases if case.losses == 2]), 7)
        for code in (C1, C3):
            plain = {case.plugin for case in all_cases if case == Case(code, case.plugin)}
            self.assertEqual(plain, set(PLUGINS))

    def test_a_pool_is_another_case_s_only_where_that_spoils_nothing(self):
        last, write, read = (Case(C3, "rs", clients=work) for work in ("", "write", "read"))
        self.assertEqual(read.pool, write.pool)
        self.assertNotEqual(last.pool, write.pool)
        self.assertNotEqual(last.pool, Case(C3, "rs", shard=19).pool)
        found = orders.cases([orders.G16, orders.G9, orders.G14])
        self.assertEqual(len({case.key for case in found}), len(found))
        pools = [one.pool for one, other in zip(found, [None, *found])
                 if other is None or one.pool != other.pool]
        self.assertEqual(len(set(pools)), len(pools), "neighbours")

    def test_helpers_are_as_many_as_the_code_says(self):
        self.assertIn(" d=11 ", C4.profile("kiln clay", "W1"))
        self.assertNotIn("d=", C4.profile("rs", "W1"))
        self.assertIn("order=gray", orders.G16.profile("kiln clay gray", "2 MiB"))


class Computed(unittest.TestCase):
    """Times from looks, and ratios from rounds."""

    def test_a_repair_lasts_until_nearly_all_had_moved_and_idle_talk_is_none_of_it(self):
        # 1000 bytes in each of ten seconds, 10 of them talk, which goes on for ten seconds more.
        looks = [(100 + at, 5000 + 990 * min(at, 10) + 10 * at) for at in range(21)]
        self.assertEqual(links.seconds(looks, 10), 10)
        self.assertEqual(links.seconds(looks[:1], 10), 0)
        self.assertEqual(links.seconds(looks, 10, 0.5), 5)

    def test_what_clay_saves_is_of_what_rs_needs(self):
        def one(network, disk, seconds):
            return {"network_bytes": network * MIB, "disk_bytes": disk * MIB, "lost_bytes": MIB,
                    "seconds": seconds, "begun": 0, "helper_bytes": [1, 2],
                    "helper_reads": [3, 4], "stripes": 1}
        rows = [summary.row(Case(C1, "rs"), [one(4, 4, 4), one(4, 4, 5), one(9, 9, 9)]),
                summary.row(Case(C1, "kiln clay"), [one(3, 2.5, 2)])]
        found = summary.headline(rows, [C1], 16)
        self.assertEqual(found, {"c1_kiln_w1_disk": 2.5, "c1_kiln_w1_network_saved": 0.25,
                                 "c1_kiln_w1_disk_saved": 0.375, "c1_kiln_w1_times_faster": 2.5})
        self.assertEqual(len(rows[0]["rounds"]), 3)

    def test_grays_order_is_beside_natural_order_in_sum_over_what_both_lost(self):
        def row(plugin, shard, reads, seconds):
            one = {"network_bytes": MIB, "disk_bytes": MIB, "lost_bytes": MIB, "seconds": seconds,
                   "begun": 1, "helper_bytes": [1], "helper_reads": [reads], "stripes": 1}
            case = Case(orders.G16, plugin, "2 MiB", shard=shard, disk="seek")
            return summary.row(case, [one])
        rows = [row("kiln clay", 17, 256, 11), row("kiln clay gray", 17, 128, 6),
                row("kiln clay", 1, 1, 2), row("kiln clay gray", 1, 1, 2),
                row("kiln clay", 3, 2, 2)]
        found = orders.headline(rows, [orders.G16])
        self.assertEqual(found["16_2_seek_last_reads_saved"], 0.5)
        self.assertEqual(found["16_2_seek_last_moving_saved"], 0.5)
        self.assertAlmostEqual(found["16_2_seek_all_reads_saved"], 1 - 129 / 257)
        self.assertAlmostEqual(found["16_2_seek_all_seconds_saved"], 1 - 8 / 13)
        self.assertFalse([name for name in found if "plain" in name])

    def test_clients_are_compared_with_clients(self):
        def one(alone, beside):
            return {"alone": alone * MIB, "beside": beside * MIB}
        rows = [summary.row(Case(C1, "rs", clients="write"), [one(20, 5)]),
                summary.row(Case(C1, "kiln clay", clients="write"), [one(18, 10)])]
        self.assertEqual(summary.headline(rows, [C1], 16),
                         {"c1_kiln_write_beside_over_rs": 2, "c1_kiln_write_alone_over_rs": 0.9})


if __name__ == "__main__":
    unittest.main()

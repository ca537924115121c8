"""Pictures of the reports of benches: for each kind a function from a report to (what the picture's
name says after that of the report, figure)."""

from collections import Counter
from itertools import pairwise, permutations, product
from math import inf

from lab.figures.figure import Axis, Figure, Mark, Panel, Rule, figure_of
from lab.figures.reading import (groups, machine, median, number, rounds, rows_of, shown, size,
                                 word)

COUNTED = "counted from plans"
ROUNDS = "Median, least and most of rounds."


def agent(report):
    """An agent beside a bare TLS copy."""
    panel = Panel("", "bars", Axis("GB/s, one core"))
    for key, row, series in (
            ("copy", "thrown away", "TLS copy"), ("kept", "into a file", "TLS copy"),
            ("read", "read from a file", "agent"), ("write", "into a file", "agent")):
        panel.add(series, row, *rounds([number(one[key]) for one in rows_of(report, "rounds")]))
    about = report["about"]
    subtitle = (f"{about['cpu']}, Linux {about['kernel']}, commit {about['commit']}, files on "
                f"{about['files']}")
    yield "", Figure("An agent over the loopback interface", subtitle, 0, [panel],
                     "Median, least and most of all rounds.")


def ceph(report):
    """Costs inside a Ceph cluster."""
    recovery = rows_of(report, "recovery")
    per_byte = (("disk", "disk_per_lost"), ("network", "network_per_lost"))
    reads = [row for row in recovery if len(row["lost"]) == 1 and not row.get("away")
             and "kiln clay" in row["code"] and row["stripe_unit_kib"] == 1024]
    units = [row for row in rows_of(report, "computing")
             if row["k"] == 10 and row["stripe_unit_kib"] >= 64]
    encode = Panel("", "bars", Axis("CPU seconds a GiB"))
    for row in units:
        least, middle, most = row["encode_received_cpu_s_per_gib"]
        encode.add(row["code"], f"{row['stripe_unit_kib']} KiB", middle, (least, most))
    for name, title, panels in (
            ("recovery", "Recovery inside Ceph, 10+4: bytes for each byte lost",
             losses([row for row in recovery if row["k"] == 10], "bytes for a byte", per_byte)),
            ("recovery-others", "Recovery inside Ceph, other codes: bytes for each byte lost",
             losses([row for row in recovery if row["k"] != 10], "bytes for a byte", per_byte)),
            ("reads", "Reads of the object store for a recovery, stripe_unit 1 MiB",
             losses(reads, "reads", (("planned", "planned_reads"), ("counted", "reads")))),
            ("encode", "Encoding through Ceph's plugin interface, 10+4", [encode] * bool(units)),
            ("whole", "CPU of all OSDs", works(report))):
        if panels:
            subtitle = f"a cluster of {report['osds']} OSDs on one machine"
            yield name, Figure(title, subtitle, 0, panels)


def losses(rows, unit, series):
    """A panel for each size of code, a row for each loss."""
    def numbers(row, key):
        return " and ".join(map(str, rows_of(row, key)))

    panels = []
    for title, rows in groups(rows, lambda row: f"{row['k']}+{row['m']}").items():
        panels.append(Panel(title, "dots", Axis(unit)))
        for row in rows:
            away = numbers(row, "away")
            lost = numbers(row, "lost") + (f", {away} unavailable" if away else "")
            for name, key in series:
                panels[-1].add(name, f"{row['code']}, {row['stripe_unit_kib']} KiB: {lost}",
                               number(row.get(key)))
    return panels


def works(report):
    """A panel for each size of code, its works as rows."""
    def code(row):
        return f"{row['k']}+{row['m']}, {row['stripe_unit_kib']} KiB"

    panels = []
    for title, rows in groups(rows_of(report, "whole"), code).items():
        panels.append(Panel(title, "bars", Axis("CPU seconds a GiB")))
        for work, words in (("write", "write"), ("read", "read"), ("degraded", "degraded read"),
                            ("recovery", "recovery, a GiB of chunk")):
            for row in rows:
                least, middle, most = map(number, row.get(f"{work}_cpu_s_per_gib") or [None] * 3)
                panels[-1].add(row["code"], words, middle, (least, most))
    return panels


def clay(report):
    """The Clay paper's evaluation inside a Ceph cluster, or G-Clay's."""
    if word(report, "bench") == "clay-orders":
        yield from gray(report)
        return
    about, sizes = report["machine"], report["sizes"]
    rows = sorted(rows_of(report, "losses"), key=lambda row: (row["code"], row["workload"]))
    subtitle = (f"Ceph {report['ceph']}, {sizes['osds']} OSDs on one machine with links of "
                f"{sizes['rate']}, rounds: {sizes['rounds']}; {about['cpu']}, commit "
                f"{about['commit']}")
    codes = {code: f"{code} ({of['k']}+{of['m']})" for code, of in report["codes"].items()}

    def panel(title, key, unit, several):
        """A number of losses in pools of one placement group, or of several."""
        panel = Panel(title, "bars", Axis(unit))
        for row in rows:
            if several and row["groups"] != 1:
                more = ", two OSDs" if row["losses"] != 1 else ""
                panel.add(row["plugin"], codes[row["code"]] + more, number(row.get(key)))
            elif not several and row["clients"] == "" and row["groups"] == 1:
                more = ", a parity" if row["shard"] != 1 else ""
                panel.add(row["plugin"], f"{codes[row['code']]} {row['workload']}{more}",
                          number(row.get(key)))
        for code, saved in report["paper"].get(f"{key}_saved", {}).items():
            if not several:
                panel.add("the paper", f"{codes[code]} W1",
                          (1 - saved) * report["codes"][code]["k"])
        return panel

    def sent(several):
        unit = "bytes for a byte lost"
        return [panel("Bytes that OSDs sent", "network", unit, several),
                panel("Bytes that devices of helpers read", "disk", unit, several)]

    time = [panel("Time of the repair", "seconds_per_mib", "seconds for a MiB lost", False)]
    for work, title in (("write", "Clients that write"), ("read", "Clients that read")):
        beside = [row for row in rows if row["clients"] == work]
        if beside:
            time.append(Panel(title, "bars", Axis("MiB a second")))
        for row in beside:
            for key, name in (("alone", "nothing lost"), ("beside", "beside a repair")):
                time[-1].add(row["plugin"], f"{codes[row['code']]} {name}", number(row.get(key)))
    for end, title, panels, note in (
            ("", "An OSD is lost in Ceph: Clay beside RS", sent(False),
             "W1: objects and stripes of about 64 MiB. W2: objects of 1 to 64 MiB in stripes of "
             "about 1 MiB (C2: 2.8). The paper: from what it says Clay saves against RS."),
            ("time", "An OSD is lost in Ceph: time, and clients beside it", time, ""),
            ("groups", "OSDs are lost in Ceph: many placement groups", sent(True),
             "C4 to C6: 10+4 with 11, 12 and 13 helpers; two OSDs are lost at once.")):
        if any(panel.series for panel in panels):
            yield end, Figure(title, subtitle, 0, panels, note)


def gray(report):
    """G-Clay's evaluation: natural order and Gray's, by lost chunk, on slow disks."""
    about = report["machine"]
    subtitle = (f"Ceph {report['ceph']}, {report['sizes']['osds']} OSDs on one machine, on "
                f"emulated disks of 150 reads a second; {about['cpu']}, commit {about['commit']}")
    rows = [row for row in rows_of(report, "losses") if row["disk_is"] == "seek"]
    codes = groups(rows, lambda row: f"{row['code']}, chunks of {row['workload']}")
    for end, title, key, axis in (
            ("", "An OSD is lost in Ceph: natural order and Gray's", "seconds_per_mib",
             Axis("seconds for a MiB lost")),
            ("reads", "Reads of a helper for a stripe", "reads_each", Axis("reads", True))):
        panels = []
        for name, rows in codes.items():
            panels.append(Panel(name, "xy", axis, Axis("lost chunk")))
            for row in sorted(rows, key=lambda row: row["shard"]):
                panels[-1].add(row["plugin"], str(row["shard"]), number(row.get(key)))
            panels[-1].joined()
        yield end, Figure(title, subtitle, len(panels), panels)


def core(report):
    """Coding speed: a picture for each family and operation, every engine against what the memory
    allows."""
    def name(cell):
        operation = cell["job"]["operation"]
        every = operation == f"decode {cell['job']['m']}"
        return f"{cell['job']['family']} {'decode m' if every else operation}"

    for name, cells in groups(rows_of(report, "cells"), name).items():
        panels = [speeds(footprint, cells) for footprint, cells
                  in groups(cells, lambda cell: cell["footprint"]).items()]
        yield name.replace(" ", "-"), Figure(
            f"{name}: speed against the memory's ceiling", machine(report), 2, panels,
            "100% is the best rate of a loop that only moves the same bytes, or else of the "
            "fastest engine; an engine above it shows that the loop is no limit. Median and "
            "quarters of interleaved rounds.")


def speeds(footprint, cells):
    panel = Panel(footprint, "xy", Axis("% of the ceiling"),
                  rules=[Rule("the memory's ceiling", 100.0)])
    for cell in cells:
        job, rates = cell["job"], cell["rates"]
        best = {of: [number(rate["rate"]["median"]) for rate in rates
                     if rate["engine"].startswith(of)] for of in ("ceiling:xor", "")}
        ceiling = max(best["ceiling:xor"] or best[""])
        for rate in rates:
            # An engine that has another family's code takes part with that.
            family = rate["code"].split(" ")[0]
            other = "" if family == job["family"] else f" ({family})"
            if not rate["engine"].startswith("ceiling"):
                panel.add(rate["engine"] + other, f"{job['k']}+{job['m']}",
                          *median(rate["rate"], ceiling / 100))
    return panel.joined()


# Gray's order saves so much in the paper over all lost chunks of 16+2, on its disk and its SSD
# (figures 10 and 11).
GRAY_SAVES = {"seek": {2 << 20: 0.402, 16 << 20: 0.129},
              "volume": {2 << 20: 0.456, 16 << 20: 0.354, 256 << 20: 0.117}}
GRAY_SAVES["fast"] = GRAY_SAVES["volume"]
# Sizes of chunks of the pictures by lost chunk (the paper's figures 10 and 11), or else the first
# that there is; of other Gray codes (figure 12).
CHUNKS = (2 << 20, 16 << 20, 256 << 20)
OTHER_CODES = 32 << 20


def devices(report):
    """Disk-read time of repairs on emulated disks: by size of chunks, and by lost chunk."""
    rows = [row for section in rows_of(report, "sections")
            for row in rows_of(section["json"], "rows") if rows_of(row, "seconds")]
    for device, rows in groups(rows, lambda row: row["device"]).items():
        def figure(what, panels):
            return Figure(f"{device}: disk-read time of repairs {what}", machine(report),
                          len(panels), panels)

        sizes, codes, three = ([row for row in rows if word(row, "experiment") == one]
                               for one in "734")
        yield f"{device}-sizes", figure("by size of chunks", [by_size(sizes)])
        chunks = CHUNKS
        if not any(row["chunk"] in CHUNKS for row in sizes):
            chunks = [row["chunk"] for row in sizes[:1]]
        panels = [by_lost(sizes, chunk) for chunk in chunks]
        yield f"{device}-lost", figure("by lost chunk", list(filter(None, panels)))
        # Ways that the paper does not have are in the other pictures.
        three = [row for row in three if not row["way"].endswith(("windows", "one by one"))]
        panels = [by_lost(codes, OTHER_CODES), by_lost(three, three[0]["chunk"] if three else 0)]
        panels = list(filter(None, panels))
        if panels:
            yield f"{device}-orders", figure("by lost chunk: other Gray codes, and 9+3", panels)


def by_size(rows):
    """The sum over all lost chunks."""
    title = f"{rows[0]['k']}+{rows[0]['m']}" if rows else ""
    panel = Panel(title, "xy", Axis("seconds, all lost chunks", True), Axis("chunk"))
    for row in rows:
        times = list(map(number, rows_of(row, "repetitions")))
        panel.add(row["way"], size(row["chunk"]), number(row["overall"]),
                  (min(times, default=inf), max(times, default=0.0)))
    return panel.joined()


def by_lost(rows, chunk):
    """Every lost chunk, of one size."""
    rows = [row for row in rows if row["chunk"] == chunk]
    if not rows:
        return None
    title = f"{rows[0]['k']}+{rows[0]['m']}, chunks of {size(chunk)}"
    paper = GRAY_SAVES.get(rows[0]["device"], {}).get(chunk)
    overall = {row["way"]: number(row["overall"]) for row in rows}
    if paper and word(rows[0], "experiment") == "7":
        title += f": gray saves {1 - overall['gray'] / overall['natural']:.1%} (paper {paper:.1%})"
    panel = Panel(title, "xy", Axis(f"seconds of disk reads, {size(chunk)}", True),
                  Axis("lost chunk"))
    for row in (row for row in rows if row["way"] != "gray, again"):
        for index, seconds in enumerate(row["seconds"]):
            panel.add(row["way"], str(index), number(seconds))
    return panel.joined()


def hdfs(report):
    """Pools in HDFS beside HDFS's own erasure coding."""
    about = report["about"]
    subtitle = (f"{about['cpu']}, commit {about['commit']}; 20 stripes of 10+4, blocks of "
                f"{report['plan']['block_mib']} MiB, links of {about['rate']}; means, least and "
                "most of rounds")
    panels = []
    for kind, title, key, unit, bound in (
            ("encode", "Encode 20 stripes", "seconds", "seconds", True),
            ("recovery", "Recover a DataNode's 20 blocks", "seconds", "seconds", True),
            ("recovery", "What all links carried", "bytes_per_lost", "bytes a lost byte", False)):
        panels.append(Panel(title, "bars", Axis(unit)))
        rows = [row for row in rows_of(report, "hdfs") if row["kind"] == kind]
        for label, rows in groups(rows, lambda row: row["label"]).items():
            found = [number(row.get(key)) for row in rows]
            panels[-1].add(label, "", sum(found) / len(found), (min(found), max(found)),
                           rows[0].get("bound_seconds") if bound else None)
    title = "Pools in HDFS beside HDFS's own Reed-Solomon"
    yield "", Figure(title, subtitle, 0, panels, "Thick line: what the busiest link needs for the "
                                                 "bytes that it carried.")
    paper = report["paper"]
    theirs = [paper[key]["ParaRC-Clay"] / paper[key]["HDFS-RS"]
              for key in ("encode_seconds", "recovery_gib")]
    panel = Panel("", "dots", Axis("over HDFS-RS"))
    for name, published, found in (
            ("encode, time", theirs[0], {"kiln Clay": "encode_time_over_hdfs_rs"}),
            ("recovery, time", number(paper["recovery_time_over_hdfs_rs"]),
             {"Clay hub": "recovery_time_over_hdfs_rs",
              "Clay central": "central_time_over_hdfs_rs"}),
            ("recovery, bytes", theirs[1],
             {"Clay hub": "hub_bytes_over_hdfs_rs",
              "Clay central": "recovery_bytes_over_hdfs_rs"})):
        for series, key in found.items():
            panel.add(series, name, number(report["headline"].get(key)))
        panel.add("ParaRC-Clay, as published", name, published)
    yield "paper", Figure(
        "In parts of HDFS's own, beside ParaRC's Fig. 11", subtitle, 0, [panel],
        "The paper had links of 10 Gbit/s, blocks of 256 MiB, and machines of their own; its bytes "
        "are those of central Clay.")


def neon(report):
    """Instructions for a byte on aarch64, counted under emulation."""
    panels = [Panel(title, "bars", Axis("instructions a byte"))
              for title in ("Reed-Solomon and Clay", "Codes of XORs")]
    for row in rows_of(report, "cases"):
        panel = panels[" rs:" not in row["case"] and " clay:" not in row["case"]]
        for who, count in sorted(row["instructions"].items()):
            panel.add(who, row["case"], number(count))
    subtitle = f"counted, not timed; {report['emulator']}; commit {report['commit']}"
    yield "", Figure("Instructions on aarch64", subtitle, 0,
                     [panel for panel in panels if panel.series],
                     "For each byte of data of an encode, for each rebuilt one of a repair or "
                     "decode. An instruction is not a cycle, and nothing waits for memory.")


def online(report):
    """The online study: its table of the paper's figures says what each picture shows, so they
    come as data."""
    about = report["machine"]
    subtitle = (f"Ceph {word(report, 'ceph')}, {report['sizes']['osds']} OSDs or agents on one "
                f"machine, {about['cores']} cores ({about['cpu']}), commit {about['commit']}; "
                f"{report['headline']['rounds']} rounds")
    for row in rows_of(report, "exhibits"):
        figure = figure_of(row["figure"])
        figure.subtitle = subtitle
        yield row["end"], figure


def order(report):
    """Runs by lost chunk in each order: Tables III and IV of the G-Clay paper."""
    panels = []
    for table in (report["counts"]["table_3"], report["counts"]["table_4"]):
        panels.append(Panel(f"Clay {table['code']}", "cells", Axis("reads", True),
                            Axis("lost chunk")))
        for name, runs in table["columns"]:
            for lost, count in enumerate(runs):
                panels[-1].add(f"{name} (sum {sum(runs)})", str(lost), number(count))
    yield "", Figure("Reads of a helper for a stripe, by lost chunk", "counted", 0, panels)
    yield "4-2", small_orders()


def small_orders():
    """Figures 3 to 5 of the G-Clay paper, counted anew: 4+2 has 8 layers, one for each value of
    three digits; chunk 2 y + x needs those with digit y = x, in one read for each run of them."""
    gray = [layer ^ layer >> 1 for layer in range(8)]
    runs = Panel("Clay 4+2 (figures 3 and 4)", "cells", Axis("reads"), Axis("lost chunk"))
    for name, order in (("natural", range(8)), ("gray", gray)):
        reads = []
        for y, x in product(range(3), range(2)):
            wanted = [layer >> 2 - y & 1 == x for layer in order]
            reads.append(sum(now and not before for before, now in zip([False, *wanted], wanted)))
        for lost, count in enumerate(reads):
            runs.add(f"{name} (sum {sum(reads)})", str(lost), float(count))
    totals = Counter(3 + sum((one ^ two).bit_count() for one, two in pairwise(order))
                     for order in permutations(range(8)))
    every = Panel("all orders of the 8 layers by their sum (figure 5)", "bars", Axis("orders"))
    for total, orders in sorted(totals.items()):
        every.add("counted", f"{total} reads", float(orders))
    return Figure("Reads of a helper for a stripe of Clay 4+2",
                  "counted; the paper: 14, 10, and 144 orders with 10", 0, [runs, every])


def plan(report):
    """Figure 5 of ParaRC, the traffic of one repair, recoveries against their bounds."""
    for small in (small for small in rows_of(report, "small") if rows_of(small, "all")):
        panel = Panel("", "xy", Axis("repair bandwidth, MiB"), Axis("maximum repair load, MiB"))
        for name, key in (("all placements", "all"), ("bound", "bound")):
            panel.marks(name).extend(Mark(*map(float, point)) for point in rows_of(small, key))
        panel.series[1].join = True
        for found in rows_of(small, "found"):
            load, total = float(found["load_mib"]), float(found["bandwidth_mib"])
            panel.marks(f"{found['name']} ({load:.0f}, {total:.0f})").append(Mark(load, total))
        title = f"{small['code']}, block 0 of 256 MiB: maximum load against traffic"
        yield f"frontier-{small['code'].split(':')[0]}", Figure(title, COUNTED, 0, [panel])
    if rows_of(report, "traffic"):
        panel = Panel("", "bars", Axis("MiB"))
        for node in report["traffic"]:
            for what in ("sent", "received", "read"):
                panel.add(what, node["node"], number(node[f"{what}_mib"]))
        title = "clay:10+4, block 0 of 256 MiB lost: what each node does (hub)"
        yield "traffic", Figure(title, COUNTED, 0, [panel])
    panel = Panel("", "dots", Axis("times the bound", True), rules=[Rule("bound", 1.0)])
    for row in rows_of(report, "recoveries"):
        to = f"{row['new']} new" if row["new"] else "the others"
        name = f"{row['code']}, {row['stripes']} stripes, {row['survivors']} others, onto {to}"
        alone = [(f"alone: {strategy}", mib) for strategy, mib in rows_of(row, "alone_mib")]
        for series, makespan in (("planned together", row["makespan_mib"]), *alone):
            panel.add(series, name, number(makespan) / number(row["bound_mib"]))
    title = "Recovery of a lost machine: busiest link over what no plan can beat"
    yield "recovery", Figure(title, f"{COUNTED}; {machine(report)}", 0, [panel])


def averages(report):
    """What repairs of several losses read on average (Clay paper, Fig. 17)."""
    panel = Panel("", "dots", Axis("chunks read"))
    for row in rows_of(report, "averages"):
        name = f"{row['code']}, {row['failures']} lost"
        panel.add("kiln", name, number(row["mean_chunks"]))
        panel.add("the paper's rules", name, number(row["paper"]))
    yield "", Figure("Chunks that a repair reads, mean over all patterns of losses", "counted", 0,
                     [panel])


def pool(report):
    """What pools cost: operations by number of nodes, small files beside `cp`."""
    panels = [Panel("File operations and locks of a 4 KiB object", "bars", Axis("operations"))]
    for cost in rows_of(report, "pools"):
        for what in ("put", "get"):
            panels[0].add(what, f"{cost['nodes']} nodes", number(cost[what]))
    small = report.get("small")
    if small:
        panels.append(Panel(f"{small['files']} files of 1 to 20 KiB", "bars", Axis("seconds")))
        for member, name in (("put", "kiln cp, in"), ("get", "kiln cp, out"),
                             ("cp", "cp -r and sync")):
            found = {key: number(small[member][key]) for key in ("median", "min", "max")}
            panels[1].add(name, "seconds", found["median"], (found["min"], found["max"]))
    yield "", Figure("What pools cost", machine(report), 0, panels,
                     "Seconds: median, least and most of rounds." if small else "")


def many(report):
    """Listing, status and planning of pools of many tiny objects."""
    panel = Panel("", "bars", Axis("seconds"))
    for objects, rows in groups(rows_of(report, "many"), lambda row: row["objects"]).items():
        for key, what in (("scan_s", "index made anew"), ("status_s", "status"),
                          ("plan_s", "plan of a lost disk"), ("list_s", "list")):
            panel.add(f"{objects} objects", what, *rounds([number(row[key]) for row in rows]))
    subtitle = f"{report['about']['cpu']}, commit {report['about']['commit']}"
    yield "", Figure("Pools of many tiny objects", subtitle, 0, [panel], ROUNDS)


def s3(report):
    """Pools and files in buckets: requests and bytes of repairs, faults."""
    about = report["machine"]
    subtitle = (f"{report['code']} in 14 buckets; {about['server']}; counted by a proxy; commit "
                f"{about['commit']}")
    gets = Panel("GETs of a repair of one stripe, all that it asks for", "xy", Axis("GETs"),
                 Axis("lost chunk"))
    for name, rows in sorted(report["orders"].items()):
        gets.marks(name).extend(Mark(float(row["lost"]), float(row["gets"])) for row in rows)
    down = Panel("Downloaded by a repair", "bars", Axis("bytes a lost byte"))
    for row in rows_of(report, "weighed"):
        down.add("all that was downloaded", f"chunk {shown(row['lost'])} lost",
                 number(row["down"]) / number(row["lost_bytes"]))
    faults = Panel("Faults that were injected", "bars", Axis("faults"))
    for kind, count in sorted(report["faults"]["by_kind"].items()):
        faults.add("injected", kind, number(count))
    yield "", Figure("Repairs and faults in buckets", subtitle, 0, [gets, down, faults])


# Panels with their keys of the report's headline, and what a row is called.
VOLUMES = {
    "bytes for a byte of clients": {
        "write_bytes_per_byte_uniform": "written to devices, uniform",
        "write_bytes_per_byte_zipf": "written to devices, zipf",
        "read_bytes_per_byte_write": "read from devices, uniform",
        "read_amplification_4k": "read from devices by a read",
        "net_bytes_per_byte_write": "through links of agents, uniform",
    },
    "ratios": {
        "first_write_over_overwrite": "latency, first write over overwrite",
        "q1_latency_over_rep": "latency at depth 1, over rep:3",
        "iops_over_rep_uniform": "rate at depth 32, over rep:3, uniform",
        "iops_over_rep_zipf": "rate at depth 32, over rep:3, zipf",
        "sealed_over_clay": "rate of sequential writes over kiln put",
        "recovery_bytes_over_planned": "bytes of a recovery over planned",
        "recovery_client_keeps": "rate beside a recovery over alone",
    },
}


def volume(report):
    """What volumes cost."""
    panels = []
    for title, rows in VOLUMES.items():
        panels.append(Panel(title, "dots"))
        for key, name in rows.items():
            panels[-1].add("measured", name, number(report["headline"].get(key)))
            panels[-1].add("bar", name, number(report["bars"].get(key)))
    about = report["machine"]
    subtitle = (f"{about['cpu']}, commit {about['commit']}; clay:6+3, 10 loop devices; medians of "
                "rounds")
    yield "", Figure("What a volume costs", subtitle, 0, panels)


PLACES = {"paper": "a buffer of 20 MB", "cache": "in cache (256 KiB)",
          "dram": "from DRAM (256 MiB)"}


def xor(report):
    """The figures of the paper on XOR schedules: bandwidth over the size of packets."""
    points = groups(rows_of(report, "points"), lambda point: (point["operation"], point["place"]))
    for (operation, place), points in points.items():
        panels = []
        for code, points in groups(points, lambda point: point["code"]).items():
            paper = (report.get("papers_figures") or {}).get(code)
            panels.append(Panel(f"{code} ({paper})" if paper else code, "xy", Axis("GB/s")))
            for point in sorted(points, key=lambda point: point["packet"]):
                panels[-1].add(point["who"], size(point["packet"]), *median(point["rate"]))
            panels[-1].joined()
        where = PLACES.get(place, "two blocks")
        title = f"{operation}, {where}: GB of data a second by the size of a packet"
        yield f"{operation.replace(' ', '')}-{place}", Figure(
            title, machine(report), 3, panels, "Median and quarters of interleaved rounds.")
    peaks = {}
    for point in rows_of(report, "points"):
        if (point["operation"], point["place"]) == ("encode", "paper"):
            code = peaks.setdefault(point["code"], {})
            code[point["who"]] = max(code.get(point["who"], 0.0), median(point["rate"])[0])
    if peaks and report.get("disk"):
        panels = [stored(title, peaks, report["disk"]["write"], *whose) for title, whose in (
            ("Algorithm 2 over 1, 64-bit words", ("algorithm 2, u64", "algorithm 1, u64")),
            ("kiln over Algorithm 1 with vectors", ("kiln", "algorithm 1, vectors")))]
        yield "disk", Figure(
            "Encoding and writing to a disk: Table 8 at 0%, Figure 9 to the right", machine(report),
            0, panels, "Computed as in the paper; its Table 8: 1.6 to 8.3%, its figure rises. "
            f"The disk writes {report['disk']['write']:.2f} GB/s at 0%.")


def stored(title, peaks, disk, faster, slower):
    """How much sooner data is encoded and on a disk, while encoding becomes slower and the disk
    faster by a part."""
    panel = Panel(title, "xy", Axis("% faster in all"), Axis("% slower encoding, faster disk"))
    for code, peak in peaks.items():
        for part in range(0, 60, 10):
            times = [1 / peak[who] / (1 - part / 100) + 1 / disk / (1 + part / 100)
                     for who in (slower, faster)]
            panel.add(code, str(part), 100 * (times[0] / times[1] - 1))
    return panel.joined()

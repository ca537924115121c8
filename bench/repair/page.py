"""Pictures and the page of bench-repair: SVG and Markdown from its rows, nothing else."""

import html

WIDTH, LEFT, ROW = 860, 250, 22
COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
MIB = 1 << 20


def svg(height, parts):
    """A picture of its own."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, anchor="start", size=12):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
            f'{html.escape(str(words))}</text>')


def box(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def bars(title, rows):
    """Horizontal bars: (group, label, value, mark); the mark is the load bound."""
    most = max(max(row[2], row[3] or 0) for row in rows)
    scale = (WIDTH - LEFT - 90) / most
    parts, y, group = [text(10, 20, title, size=15)], 34, None
    for number, label, value, mark in rows:
        if number != group:
            group, y = number, y + 18
            parts.append(text(10, y, number, size=13))
            y += 6
        parts += [text(LEFT - 8, y + 14, label, "end"),
                  box(LEFT, y + 3, value * scale, ROW - 7, COLOURS[hash_of(label)]),
                  text(LEFT + value * scale + 5, y + 14, f"{value:.2f} s")]
        if mark:
            x = LEFT + mark * scale
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + ROW - 2}" '
                         'stroke="black" stroke-width="2"/>')
        y += ROW
    parts.append(text(LEFT, y + 18, "black line: the load bound, largest load by the link's rate"))
    return svg(y + 30, parts)


def hash_of(label):
    """A colour that a label keeps in all pictures."""
    return sum(label.encode()) % len(COLOURS)


def nodes(title, rows):
    """Bytes sent (left bar) and received (right bar) by each host, a panel for each row."""
    parts, y = [text(10, 20, title, size=15)], 40
    most = max(max(pair) for row in rows for pair in row["interface"]) or 1
    for row in rows:
        parts.append(text(10, y + 12, f"{row['label']} ({row['code']})", size=13))
        each = (WIDTH - 40) / len(row["interface"])
        for host, pair in enumerate(row["interface"]):
            for side, amount in enumerate(pair):
                high = amount / most * 90
                x = 20 + host * each + side * each * 0.4
                parts.append(box(x, y + 115 - high, each * 0.36, f"{high:.1f}",
                                 COLOURS[side]))
            parts.append(text(20 + host * each + each * 0.38, y + 130, host, "middle", 10))
        y += 145
    parts.append(text(10, y + 12, f"blue: sent, red: received; the highest bar is "
                                  f"{most / MIB:.0f} MiB; by the interfaces of the hosts"))
    return svg(y + 24, parts)


def timelines(title, rows):
    """What all hosts together received, over time."""
    parts, y = [text(10, 20, title, size=15)], 40
    longest = max(row["timeline"][-1][0] for row in rows)
    for row in rows:
        last, points = 0.0, []
        for at, got in row["timeline"]:
            points.append((at, sum(got) / max(at - last, 1e-3) / 1e6, max(got)))
            last = at
        most = max(point[1] for point in points) or 1
        line = " ".join(f"{LEFT + at / longest * (WIDTH - LEFT - 40):.1f},"
                        f"{y + 80 - rate / most * 75:.1f}" for at, rate, _ in points)
        parts += [text(10, y + 30, row["label"]), text(10, y + 48, f"{row['seconds']:.1f} s"),
                  text(10, y + 66, f"at most {most:.0f} MB/s in all"),
                  f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}"/>',
                  f'<line x1="{LEFT}" x2="{WIDTH - 40}" y1="{y + 80}" y2="{y + 80}" '
                  'stroke="#999"/>']
        y += 95
    parts.append(text(LEFT, y + 12, f"0 to {longest:.0f} s"))
    return svg(y + 24, parts)


def limited(title, row):
    """What the busiest host received in each second up to a moment, and a client's reads beside."""
    longest = row["limited"][-1][0]
    most = max(row["most_in_a_second"], row["client_alone"], row["limit"]) * 1.1
    across = lambda at: 60 + at / longest * (WIDTH - 80)  # noqa: E731
    up = lambda rate: 240 - rate / most * 200  # noqa: E731
    points, sums = [], [(0.0, 0)]
    for at, got in row["limited"]:
        sums.append((at, sums[-1][1] + got))
        since, before = max((s for s in sums if s[0] <= at - 1.0), default=sums[0])
        points.append((at, (sums[-1][1] - before) / max(at - since, 1.0)))
    line = " ".join(f"{across(at):.1f},{up(rate):.1f}" for at, rate in points)
    parts = [text(10, 20, title, size=15), text(10, 262, f"0 to {longest:.0f} s"),
             f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>']
    rules = [(row["limit"], 0, longest, "black"), (row["client_alone"], 0, longest, "#999")]
    rules += [(rate, start, min(end, longest), COLOURS[1]) for start, end, rate in row["reads"]
              if start < longest]
    for rate, start, end, colour in rules:
        parts.append(f'<line x1="{across(start):.1f}" x2="{across(end):.1f}" y1="{up(rate):.1f}" '
                     f'y2="{up(rate):.1f}" stroke="{colour}" stroke-width="2"/>')
        if start == 0:
            parts.append(text(8, up(rate) + 4, f"{rate / 1e6:.0f} MB/s", size=10))
    parts.append(text(130, 262, "blue: the busiest host, in the second before; black: the limit; "
                                "red: reads of a client, grey: alone"))
    return svg(275, parts)


def groups(rows):
    """Rows of one cell together, in their order."""
    cells = {}
    for row in rows:
        key = (row["kind"], row["code"].split(":")[1], row["label"], row["code"],
               row["chunk_mib"], row.get("window_kib"))
        cells.setdefault(key, []).append(row)
    return cells


def table(rows):
    """Mean, least and most seconds of each cell."""
    lines = ["| what | code | chunk | seconds (least to most) | load bound | over it | sent, plan "
             "| streams over plan | interface | agents' cores |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for (_, _, label, code, chunk, window), cell in groups(rows).items():
        times = [row["seconds"] for row in cell]
        mean, bound = sum(times) / len(times), cell[0]["bound_seconds"]
        spread = f" ({min(times):.2f} to {max(times):.2f})" if len(times) > 1 else ""
        name = f"{label}, {window} KiB" if window else label
        lines.append(
            f"| {name} | {code} | {chunk} MiB | {mean:.2f}{spread} | {bound:.2f} "
            f"| {mean / bound:.2f} | {cell[0]['planned_sent'] / MIB:.0f} MiB "
            f"| {max(row['traffic_over_plan'] for row in cell):.3f} "
            f"| {max(row['interface_over_plan'] for row in cell):.3f} "
            f"| {max(row['agent_cores'] for row in cell):.2f} of "
            f"{max(row['machine_cores'] for row in cell):.2f} |")
    return lines


def write(report, folder, name):
    """The page and its pictures."""
    rows, where = report["rows"], report["about"]
    lines = [f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, "
             f"{where['rustc']}, profile {where['profile']}, commit {where['commit']}; links of "
             f"{where['rate']}.", ""]
    lines += ["```", *(f"{key}: {value}" for key, value in report["headline"].items()), "```", ""]
    kinds = {"degraded": "Degraded read", "window": "Windows", "chunk": "Chunk sizes",
             "encode": "Encode", "recovery": "Full-node recovery",
             "read": "Degraded read by a client"}
    for kind, title in kinds.items():
        found = [row for row in rows if row["kind"] == kind]
        if not found:
            continue
        lines += [f"## {title}", "", *table(found), ""]
        shown = [(key[1] if kind != "window" else f"{key[1]}, {key[5]} KiB", key[2],
                  sum(row["seconds"] for row in cell) / len(cell), cell[0]["bound_seconds"])
                 for key, cell in groups(found).items()]
        if kind == "chunk":
            shown = [(f"{key[1]}, {key[4]} MiB", *row[1:])
                     for key, row in zip(groups(found), shown)]
        if kind == "read":
            shown = [(row[0], f"{cell[0]['code']}, {row[1]}", *row[2:])
                     for cell, row in zip(groups(found).values(), shown)]
        # Cells of a group together, whatever the order of runs.
        order = list(dict.fromkeys(row[0] for row in shown))
        shown.sort(key=lambda row: order.index(row[0]))
        pictures = {f"{name}-{kind}.svg": bars(f"{title}: seconds", shown)}
        if kind in ("degraded", "recovery"):
            last = [cell[-1] for key, cell in groups(found).items() if key[1] == found[-1]["code"]
                    .split(":")[1]]
            pictures[f"{name}-{kind}-nodes.svg"] = nodes(f"{title}: bytes by host", last)
        sampled = [cell[-1] for cell in groups(found).values() if cell[-1].get("timeline")]
        if sampled:
            pictures[f"{name}-{kind}-time.svg"] = timelines(f"{title}: over time", sampled)
        for file, picture in pictures.items():
            (folder / file).write_text(picture)
            lines += [f"![{title}]({file})", ""]
    throttled = [row for row in rows if row["kind"] == "throttle"]
    if throttled:
        lines += ["## Limited", "",
                  "| limit | busiest host, mean | its busiest second | client alone "
                  "| client beside | kept |", "|---|---|---|---|---|---|"]
    for row in throttled:
        names = ["limit", "mean_rate", "most_in_a_second", "client_alone", "client_beside"]
        figures = " | ".join(f"{row[key] / 1e6:.1f} MB/s" for key in names)
        (folder / f"{name}-limited.svg").write_text(limited("Limited recovery", row))
        lines += [f"| {figures} | {row['client_kept']:.2f} |", "",
                  f"![limited]({name}-limited.svg)", ""]
    (folder / f"{name}.md").write_text("\n".join(lines))

"""Colours and shapes of series: the same for a name in all pictures."""

from dataclasses import dataclass

from lab.figures.canvas import escape, plain

# Colours that those who see fewer hues tell apart too (Okabe and Ito's, and Tol's muted ones).
# Black is for bounds.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#7f7f7f", "#882255",
           "#999933", "#332288")
BLACK, LIGHT = 100, 101

# Names that come again in other pictures, by their place in the palette. A name that is not here
# gets a colour that its picture does not have yet.
NAMES = {
    0: ["klauspost", "algorithm 2, u64", "stock clay", "gray", "alone: hub", "Clay hub", "sent",
        "disk", "counted", "3 replicas"],
    1: ["kiln", "kiln clay", "gray, planned", "planned together", "kiln Clay",
        "Butterfly chain", "RS 6+3", "full image"],
    2: ["isal", "algorithm 2, vectors", "stock isa", "alone: pipeline",
        "RS pipelining", "isa 6+3"],
    3: ["kiln (rs)", "isal-next", "kiln rs", "RS, windows", "joint", "joint, spread", "received",
        "network", "RS 4+2"],
    4: ["ceph-isa", "ceph-clay-isa", "kiln clay gray", "gray, windows", "kiln RS",
        "Clay, ParaRC's heuristic", "volume rs:6+3"],
    5: ["klauspost-2", "algorithm 1, u64", "gray, again", "HDFS-RS", "Clay, ParaRC's plan",
        "planned", "volume rep:3"],
    6: ["jerasure", "Jerasure, dumb", "natural", "alone: central", "Clay central",
        "the paper's rules", "read", "the paper"],
    7: ["ceph-jerasure", "ceph-clay-jerasure", "Jerasure, smart", "natural, one by one",
        "special 1", "RS central", "isa 6+3, FastEC", "new image"],
    8: ["isal-cauchy", "algorithm 1, vectors", "natural, windows", "balanced",
        "Butterfly central", "isa 6+3, 16 KiB"],
    9: ["kiln-temporal", "reed-solomon-simd", "clay-codes", "gray, one by one", "special 2",
        "HDFS-RS, spread", "Butterfly, ParaRC's heuristic", "Butterfly, ParaRC's plan",
        "isa 6+3, 64 KiB"],
    10: ["stock clay 6+3"],
    11: ["kiln clay 6+3"],
    12: ["RS, whole chunk"],
    13: ["kiln rs 6+3"],
    16: ["ParaRC-Clay, as published"],
    17: ["volume clay:6+3"],
    20: ["kiln-out"],
    21: ["here"],
    22: ["kiln-in"],
    24: ["kiln-nt-t0-256"],
    25: ["kiln-nt-t0-384"],
    27: ["kiln-nt-t0-1024"],
    28: ["kiln-nt-t1-640"],
    BLACK: ["bound"],
    LIGHT: ["all placements"],
}
KNOWN = {name: place for place, names in NAMES.items() for name in names}


@dataclass
class Style:
    """How a series looks: one of four shapes; `faint`: smaller marks behind the others."""
    colour: str = ""
    shape: int = 0
    faint: bool = False

    def stroke(self, width):
        """A line of this style, as attributes."""
        return f'stroke="{self.colour}" stroke-width="{width}"'

    def mark(self, canvas, x, y, said):
        """A mark, with what it says to those who point at it."""
        r = 2.0 if self.faint else 4.0
        shapes = (None, ((-r, -r), (r, -r), (r, r), (-r, r)),
                  ((0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r), (0, -1.2 * r)),
                  ((0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)))
        if self.shape == 0:
            return self.circle(canvas, x, y, r, said)
        points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[self.shape])
        canvas.add(f'<polygon points="{points}" fill="{self.colour}"><title>{escape(said)}</title>'
                   "</polygon>")

    def circle(self, canvas, x, y, r, said):
        """A circle with room for a number."""
        canvas.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{plain(r)}" fill="{self.colour}"><title>'
                   f"{escape(said)}</title></circle>")


def known(name):
    """Of "klauspost (rs)" the place of "klauspost", if there is none of its own."""
    return KNOWN.get(name, KNOWN.get(name.split(" (")[0]))


def styles(figure):
    """The styles of all series that a legend names, in order of first appearance."""
    names = list(dict.fromkeys(series.name for panel in figure.panels if panel.kind != "cells"
                               for series in panel.series))
    taken = {known(name) for name in names}
    unused = [place for place in range(10) if place not in taken] or list(range(10))
    found, unknown = {}, 0
    for name in names:
        place = known(name)
        if place is None:
            # The same colours again have other shapes.
            place = unused[unknown % len(unused)] + 10 * (unknown // len(unused) % 4)
            unknown += 1
        colour = {BLACK: "#000000", LIGHT: "#b0b0b0"}.get(place, PALETTE[place % 10])
        found[name] = Style(colour, (place % 10 + place // 10) % 4, place == LIGHT)
    return found


def dashes(place):
    """How the rule of this number in its panel looks."""
    long = (6, 2, 12)[place % 3]
    return f'stroke="black" stroke-width="1.3" stroke-dasharray="{long} 3"'

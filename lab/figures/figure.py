"""Pictures as data. All of the laboratory's are made of these, so that they look alike: a series
has one colour and one mark in all panels and pictures, axes with the same label have one scale.
"""

from dataclasses import dataclass, field


@dataclass
class Axis:
    """An axis; those of one figure with the same label have the same scale."""
    label: str = ""
    log: bool = False


@dataclass
class Mark:
    """One number. `spread`: how far repetitions are apart, least and most, or quarters; `bound`:
    what the value cannot be below; `text`: words inside, where there are edges."""
    at: float = 0.0
    value: float = 0.0
    spread: tuple | None = None
    bound: float | None = None
    text: str = ""


@dataclass
class Series:
    """Marks of one name, which has the same colour everywhere; `join`: a line goes through them."""
    name: str = ""
    marks: list = field(default_factory=list)
    join: bool = False


@dataclass
class Rule:
    """A line at a value."""
    name: str
    value: float


@dataclass
class Panel:
    """One system of axes. `kind`: `bars`, `dots` (in rows, `at` is the row), `xy`, `cells` (a row
    for each series), `spans` (parts of a line). `edges`: lines of a drawn graph between two
    points, `True`: thick; such a panel has no axes."""
    title: str = ""
    kind: str = "bars"
    value: Axis = field(default_factory=Axis)
    at: Axis = field(default_factory=Axis)
    categories: list = field(default_factory=list)
    series: list = field(default_factory=list)
    rules: list = field(default_factory=list)
    edges: list = field(default_factory=list)

    def marks(self, name):
        """The marks of a series, which is made if there is none of this name."""
        for series in self.series:
            if series.name == name:
                return series.marks
        self.series.append(Series(name))
        return self.series[-1].marks

    def add(self, series, category, value, spread=None, bound=None):
        """Adds a mark to the series and category of these names; numbers that are missing are not
        drawn."""
        if value == value and abs(value) != float("inf"):
            if category not in self.categories:
                self.categories.append(category)
            at = float(self.categories.index(category))
            self.marks(series).append(Mark(at, value, spread, bound))

    def joined(self):
        """The same with lines from mark to mark in every series."""
        for series in self.series:
            series.join = True
        return self

    def names(self):
        """What stands on the left of rows."""
        if self.kind == "cells":
            return [series.name for series in self.series]
        return [] if self.kind == "xy" else self.categories


@dataclass
class Figure:
    """A picture: panels under one title and one legend, `columns` of them side by side. The
    subtitle says where the numbers come from."""
    title: str = ""
    subtitle: str = ""
    columns: int = 0
    panels: list = field(default_factory=list)
    note: str = ""


def figure_of(data):
    """A figure from JSON: whatever is left out has its default, what is unknown is an error."""
    def panel_of(panel):
        series = [Series(**one | {"marks": [Mark(**mark) for mark in one.get("marks", [])]})
                  for one in panel.get("series", [])]
        rules = [Rule(**rule) for rule in panel.get("rules", [])]
        axes = {key: Axis(**panel[key]) for key in ("value", "at") if key in panel}
        return Panel(**panel | axes | {"series": series, "rules": rules})

    return Figure(**data | {"panels": [panel_of(panel) for panel in data.get("panels", [])]})

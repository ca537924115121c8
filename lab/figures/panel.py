"""One panel: its axes and its marks."""

from collections import namedtuple
from math import ceil

from lab.figures.canvas import GREY, width, wrap
from lab.figures.scale import number, of_places, of_values
from lab.figures.style import Style, dashes

LINE = 15.0  # the height of a line of text
SMALL = 12
# A bar, a row of cells, what is drawn of a plane.
BAR, CELL, PLANE = 14.0, 22.0, 220.0
GRID = 'stroke="#ddd"'

Area = namedtuple("Area", "left right top bottom")


class Drawing:
    """A panel with all that its place depends on."""

    def __init__(self, figure, panel, styles, wide):
        self.panel, self.styles, self.width = panel, styles, wide
        self.values = of_values(figure.panels, panel.value)
        self.places = of_places(figure.panels, panel.at)
        self.title = wrap(panel.title, 13, wide)
        # Panels above each other begin at the same place.
        names = [name for other in figure.panels for name in other.names()]
        widest = max((width(name, SMALL) for name in names), default=0.0)
        self.left = min(widest, wide * 0.42) + 10
        if panel.kind == "xy":
            ticks = (width(number(tick), SMALL) for tick in self.values.ticks(6))
            self.left = 0.0 if panel.edges else max(ticks, default=0.0) + 8
        self.rows = [self.row(at, name) for at, name in enumerate(panel.names())]

    def row(self, at, name):
        """A name on the left, wrapped, with the height of its row."""
        lines = wrap(name, SMALL, self.left - 8)
        text = len(lines) * LINE
        if self.panel.kind == "bars":
            return lines, max(text, len(self.marks_of(at)) * BAR) + 8
        return lines, max(text, CELL) if self.panel.kind == "cells" else text + 2

    def marks_of(self, row):
        """Marks of a row, each with the style and the name of its series."""
        return [(self.style(series), series.name, mark) for series in self.panel.series
                for mark in series.marks if mark.at == row]

    def style(self, series):
        return self.styles.get(series.name, Style())

    def head(self):
        """The height of what stands above the marks."""
        title = 18 * len(self.title) if self.panel.title else 0
        label = self.panel.kind in ("xy", "cells") and not self.panel.edges
        return title + (LINE + 6 if label else 2.0)

    def inner(self):
        """The height of the marks."""
        if self.panel.kind != "xy":
            total = 0.0
            for _, high in self.rows:
                total += high
            return total
        return 20 * (self.values.high + 1) if self.panel.edges else PLANE

    def height(self):
        axis = self.panel.at if self.panel.kind == "xy" else self.panel.value
        below = 2 * LINE if axis.label else LINE
        return self.head() + self.inner() + (
            0.0 if self.panel.edges or self.panel.kind == "cells" else below)

    def draw(self, canvas, x, y):
        for at, line in enumerate(self.title):
            canvas.text(x, y + 13 + 18 * at, 13, line, style=' font-weight="bold"')
        top, left = y + self.head(), x + self.left
        right = x + self.width - (52 if self.panel.kind == "bars" else 10)
        area = Area(left, right, top, top + self.inner())
        if self.panel.kind == "xy":
            (self.graph if self.panel.edges else self.plane)(canvas, area)
        else:
            (self.cells if self.panel.kind == "cells" else self.lying)(canvas, area)

    def names(self, canvas, area):
        """Draws names of rows; returns where each begins and how high it is."""
        y, places = area.top, []
        for lines, height in self.rows:
            first = y + height / 2 - LINE * len(lines) / 2 + 11.5
            for at, line in enumerate(lines):
                canvas.text(area.left - 8, first + LINE * at, SMALL, line, "end")
            places.append((y, height))
            y += height
        return places

    def lying(self, canvas, area):
        """Rows with values from left to right: bars, dots, spans."""
        def x(value):
            return area.left + (area.right - area.left) * self.values.share(value)

        for tick in self.values.ticks((area.right - area.left) / 70):
            canvas.line(x(tick), area.top, x(tick), area.bottom, GRID)
            canvas.text(x(tick), area.bottom + 13, SMALL, number(tick), "middle", GREY)
        canvas.text((area.left + area.right) / 2, area.bottom + 13 + LINE, SMALL,
                    self.panel.value.label, "middle", GREY)
        draw = {"bars": self.bars, "spans": self.spans}.get(self.panel.kind, self.dots)
        for row, (top, height) in enumerate(self.names(canvas, area)):
            draw(canvas, self.marks_of(row), area, top, height, x)
        for place, rule in enumerate(self.panel.rules):
            canvas.line(x(rule.value), area.top, x(rule.value), area.bottom, dashes(place))

    def dots(self, canvas, marks, area, top, height, x):
        y = top + height / 2
        canvas.line(area.left, y, area.right, y, 'stroke="#eee"')
        for style, name, mark in reversed(marks):
            if mark.spread:
                canvas.line(x(mark.spread[0]), y, x(mark.spread[1]), y, style.stroke(1.5))
            style.mark(canvas, x(mark.value), y, f"{name}: {number(mark.value)}")

    def bars(self, canvas, marks, area, top, _height, x):
        for at, (style, _, mark) in enumerate(marks):
            y, end = top + 4 + BAR * at, x(mark.value)
            canvas.rect(area.left, y, end - area.left, BAR - 2, f'fill="{style.colour}"')
            if mark.spread:
                low, high = map(x, mark.spread)
                middle = y + BAR / 2 - 1
                canvas.line(low, middle, high, middle, 'stroke="black" stroke-width="1.3"')
                end = max(end, high)
            if mark.bound is not None:
                least = x(mark.bound)
                canvas.line(least, y - 1, least, y + BAR - 1, 'stroke="black" stroke-width="2.5"')
                end = max(end, least)
            canvas.text(end + 5, y + BAR - 4, 11, number(mark.value))

    def spans(self, canvas, marks, area, top, height, x):
        y, high = top + 2, height - 4
        canvas.rect(area.left, y, area.right - area.left, high, 'fill="#e8e8e8"')
        parts = [tuple(map(x, mark.spread)) for _, _, mark in marks if mark.spread]
        path = "".join(f"M{start:.2f} {y:.1f}h{end - start:.2f}v{high:.1f}h-{end - start:.2f}z"
                       for start, end in parts)
        colour = marks[0][0].colour if marks else "none"
        canvas.add(f'<path d="{path}" fill="{colour}"/>')

    def plane(self, canvas, area):
        """Values upwards."""
        def y(value):
            return area.bottom - (area.bottom - area.top) * self.values.share(value)

        categories, wide = self.panel.categories, area.right - area.left
        slot = wide / max(len(categories), 1)

        def x(at):
            return area.left + (slot * (at + 0.5) if categories else wide * self.places.share(at))

        canvas.text(area.left - self.left, area.top - 8, SMALL, self.panel.value.label, style=GREY)
        for tick in self.values.ticks(6):
            canvas.line(area.left, y(tick), area.right, y(tick), GRID)
            canvas.text(area.left - 6, y(tick) + 4, SMALL, number(tick), "end", GREY)
        self.below(canvas, area, slot, x)
        for place, rule in enumerate(self.panel.rules):
            canvas.line(area.left, y(rule.value), area.right, y(rule.value), dashes(place))
        apart = sum(not series.join for series in self.panel.series)
        dodge = min(slot * 0.8 / apart, 9) if categories and apart else 0.0
        place = apart / -2 - 0.5
        for series in self.panel.series:
            style, aside = self.style(series), 0.0
            if not series.join:
                place += 1
                aside = dodge * place
            if series.join:
                points = " ".join(f"{x(mark.at):.1f},{y(mark.value):.1f}" for mark in series.marks)
                canvas.add(f'<polyline points="{points}" fill="none" {style.stroke(1.8)}/>')
            for mark in series.marks:
                at = x(mark.at) + aside
                if mark.spread:
                    canvas.line(at, y(mark.spread[0]), at, y(mark.spread[1]), style.stroke(1.5))
                # On a line with very many marks they would hide it.
                if not series.join or len(series.marks) <= 40:
                    style.mark(canvas, at, y(mark.value), f"{series.name}: {number(mark.value)}")

    def below(self, canvas, area, slot, x):
        """The axis to the right."""
        names = self.panel.categories
        widest = max([width(name, SMALL) for name in names] + [1.0]) + 6
        every = ceil(widest / slot)
        named = list(enumerate(names))[::every]
        if not names:
            ticks = self.places.ticks((area.right - area.left) / 70)
            named = [(tick, number(tick)) for tick in ticks]
        for at, text in named:
            canvas.text(x(at), area.bottom + 14, SMALL, text, "middle", GREY)
        canvas.text((area.left + area.right) / 2, area.bottom + 14 + LINE, SMALL,
                    self.panel.at.label, "middle", GREY)

    def graph(self, canvas, area):
        """A drawn graph."""
        wide, most = area.right - area.left - 40, max(self.places.high, 1.0)

        def place(at, value):
            return area.left + 20 + wide * at / most, area.top + 12 + 20 * value

        for start, end, thick in self.panel.edges:
            canvas.line(*place(*start), *place(*end),
                        'stroke="#555" stroke-width="1.6"' if thick else 'stroke="#ccc"')
        for series in self.panel.series:
            for mark in series.marks:
                x, y = place(mark.at, mark.value)
                self.style(series).circle(canvas, x, y, 8.0, series.name)
                canvas.text(x, y + 3.5, 10, mark.text, "middle", ' fill="white"')

    def cells(self, canvas, area):
        """Series down, categories across."""
        wide = (area.right - area.left) / max(len(self.panel.categories), 1)
        canvas.text(area.left - 8, area.top - 5, SMALL, self.panel.at.label, "end", GREY)
        for column, name in enumerate(self.panel.categories):
            canvas.text(area.left + wide * (column + 0.5), area.top - 5, SMALL, name, "middle",
                        GREY)
        for series, (top, height) in zip(self.panel.series, self.names(canvas, area)):
            for mark in series.marks:
                share = min(max(self.values.share(mark.value), 0.0), 1.0)
                left = area.left + wide * mark.at
                canvas.rect(left + 0.5, top + 0.5, wide - 1, height - 1,
                            f'fill="#0072b2" fill-opacity="{0.06 + 0.94 * share:.2f}"')
                canvas.text(left + wide / 2, top + height / 2 + 4, 11, number(mark.value),
                            "middle", ' fill="white"' if share > 0.5 else "")

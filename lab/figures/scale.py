"""Scales, their ticks, and numbers as people read them."""

from math import ceil, floor, inf, isfinite, log, log10


class Scale:
    """Values from `low` to `high` on a line."""

    def __init__(self, axis, values):
        values = [value for value in values if isfinite(value) and (value > 0 or not axis.log)]
        low, high = (min(values), max(values)) if values else (1.0, 2.0)
        self.log = axis.log
        if axis.log:
            # Down and up to 1, 2 or 5 times a power of ten.
            self.low = nice(low * 1.001, lambda digit, factor: digit <= factor)
            up = nice(high * 0.999, lambda digit, factor: digit < factor)
            self.high = up if up > self.low else self.low * 10
            return
        low = min(low, 0.0)
        size = step(high - low, 6)
        self.high = max(ceil(high / size - 1e-9), low / size + 1) * size
        self.low = floor(low / size + 1e-9) * size

    def share(self, value):
        """Where a value is, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = log(max(value, low)), log(low), log(high)
        return (value - low) / (high - low)

    def ticks(self, most):
        """Values to name, at most about `most` of them."""
        if not self.log:
            size = step(self.high - self.low, most)
            first, last = ceil(self.low / size), floor(self.high / size + 1e-9)
            return [at * size for at in range(first, last + 1)]
        decades = log10(self.high / self.low)
        digits = (1, 2, 5) if decades * 3 <= most else (1,)
        every = max(ceil(decades / most), 1)
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        every_one = [digit * 10.0**power for power in powers if power % every == 0
                     for digit in digits]
        return [value for value in every_one
                if self.low * 0.999 <= value <= self.high * 1.001]


def nice(value, before):
    """1, 2, 5 or 10 times the power of ten below a value: the last that is not above it, or the
    first that is not below it, as `before` says."""
    power = 10.0**floor(log10(value))
    digits = (1.0, 2.0, 5.0, 10.0)
    known = sum(before(digit, value / power) for digit in digits)
    return power * digits[max(known - 1, 0) if before(1, 1) else min(known, 3)]


def step(span, most):
    """A step of 1, 2 or 5 times a power of ten, of which at most about `most` fit in a range."""
    least = span / most if span > 0 else 0.1
    return nice(least, lambda digit, factor: digit < factor - 1e-9)


def of_values(panels, axis):
    """The scale of an axis over all panels of a figure that have an axis of this label and kind."""
    values = []
    for panel in (panel for panel in panels if panel.value == axis):
        for mark in (mark for series in panel.series for mark in series.marks):
            found = [*(mark.spread or ()), mark.bound]
            found += [] if panel.kind == "spans" else [mark.value]
            values += [value for value in found if value is not None]
        values += [rule.value for rule in panel.rules]
    return Scale(axis, values)


def of_places(panels, axis):
    """The same for the axis of `at`."""
    return Scale(axis, [mark.at for panel in panels if panel.at == axis and panel.kind == "xy"
                        for series in panel.series for mark in series.marks])


def number(value):
    """A number with about three digits."""
    size = abs(value)
    digits = next(digits for least, digits in ((100, 0), (10, 1), (1, 2), (-inf, None))
                  if size >= least) if size else 0
    if digits is None:
        digits = min(max(1 - floor(log10(size)), 2), 9)
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text[:-3]},{text[-3:]}" if size >= 10_000 else text

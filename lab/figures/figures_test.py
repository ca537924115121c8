"""Scales, numbers and styles."""

from lab.figures.figure import Axis, Figure, Panel, figure_of
from lab.figures.layout import draw
from lab.figures.scale import Scale, number
from lab.figures.style import styles


def ticks_are_round_numbers():
    linear = Scale(Axis(), [3.0, 87.0])
    assert (linear.low, linear.high, linear.share(25.0)) == (0, 100, 0.25)
    assert linear.ticks(6) == [0, 20, 40, 60, 80, 100]
    log = Scale(Axis(log=True), [0.03, 7.0])
    assert abs(log.low - 0.02) < 1e-12 and abs(log.high - 10) < 1e-12
    assert len(log.ticks(9)) == 9, "0.02, 0.05, 0.1 ... 10"
    assert len(Scale(Axis(log=True), [1.0, 1e6]).ticks(4)) == 4
    none = Scale(Axis(), [])
    assert none.low < none.high and Scale(Axis(), [5.0, 5.0]).high >= 5


def numbers_are_short():
    values = [0.0, 0.0123, 0.5, 2.0, 61.27, 84.5, 1234.4, 98765.4]
    assert list(map(number, values)) == ["0", "0.012", "0.5", "2", "61.3", "84.5", "1234", "98,765"]


def a_series_has_one_style_everywhere_and_none_is_given_twice():
    def of(*names):
        panel = Panel()
        for name in names:
            panel.add(name, "", 1.0)
        return styles(Figure(panels=[panel]))

    assert of("a", "kiln")["kiln"] == of("b", "c", "kiln", "d")["kiln"]
    assert of("klauspost (rs)")["klauspost (rs)"].colour == of("klauspost")["klauspost"].colour
    found = of(*(f"node {at}" for at in range(30)), "kiln").values()
    assert len({(style.colour, style.shape) for style in found}) == 31


def a_figure_is_drawn_from_json_with_its_defaults():
    mark = {"at": 1, "value": 10}
    panel = {"kind": "xy", "value": {"label": "s", "log": True},
             "series": [{"name": "a", "marks": [mark]}]}
    assert ">a</text>" in draw(figure_of({"title": "t", "panels": [panel]}))


def all_of_them():
    ticks_are_round_numbers()
    numbers_are_short()
    a_series_has_one_style_everywhere_and_none_is_given_twice()
    a_figure_is_drawn_from_json_with_its_defaults()

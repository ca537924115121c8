"""Title, legend, and where the panels stand."""

from lab.figures.canvas import GREY, Canvas, width, wrap
from lab.figures.panel import LINE, Drawing
from lab.figures.style import dashes, styles

WIDTH, MARGIN = 1000.0, 16.0
ACROSS, DOWN = 28.0, 18.0  # between panels


def draw(figure):
    """The figure as SVG, 1000 units wide and as high as it must be; the same figure always gives
    the same text."""
    canvas = Canvas()
    y = lines(canvas, figure.title, 17, ' font-weight="bold"', MARGIN)
    y = lines(canvas, figure.subtitle, 12, GREY, y)
    known = styles(figure)
    y = legend(canvas, figure, known, y + 6)
    columns = max(figure.columns, 1)
    across = (WIDTH - 2 * MARGIN + ACROSS) / columns
    for first in range(0, len(figure.panels), columns):
        drawings = [Drawing(figure, panel, known, across - ACROSS)
                    for panel in figure.panels[first:first + columns]]
        for column, drawing in enumerate(drawings):
            drawing.draw(canvas, MARGIN + across * column, y + DOWN)
        y += max(drawing.height() for drawing in drawings) + DOWN
    if figure.note:
        y = lines(canvas, figure.note, 12, GREY, y + 8)
    return canvas.finish(WIDTH, y + MARGIN)


def lines(canvas, text, size, style, y):
    """Wrapped text; returns where it ends."""
    for line in filter(None, wrap(text, size, WIDTH - 2 * MARGIN)):
        y += size + 5
        canvas.text(MARGIN, y - 4, size, line, style=style)
    return y


def legend(canvas, figure, known, y):
    """Names of all series and rules, each beside its mark; returns where it ends."""
    rules = {}
    for panel in figure.panels:
        for place, rule in enumerate(panel.rules):
            rules.setdefault(rule.name, dashes(place))
    blocks = all(panel.kind in ("bars", "spans") for panel in figure.panels)
    entries = [(name, look) for name, look in (*known.items(), *rules.items()) if name]
    x, y = MARGIN, y + LINE
    for name, look in entries:
        wide = 40 + width(name, 12)
        if x > MARGIN and x + wide > WIDTH:
            x, y = MARGIN, y + LINE + 2
        if isinstance(look, str):
            canvas.line(x, y - 4, x + 16, y - 4, look)
        elif blocks:
            canvas.rect(x, y - 10, 16.0, 11.0, f'fill="{look.colour}"')
        else:
            look.mark(canvas, x + 8, y - 4, "")
        canvas.text(x + 22, y, 12, name)
        x += wide
    return y if entries else y - LINE

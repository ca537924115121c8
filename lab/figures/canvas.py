"""SVG elements, and how wide text is."""

GREY = ' fill="#555"'
ANCHORS = {"start": "", "middle": ' text-anchor="middle"', "end": ' text-anchor="end"'}
# Widths of Helvetica's letters, in parts of its size.
WIDTHS = {letter: wide for letters, wide in (
    ("ijl'|", 0.24), (" ftI.,:;!/()r-", 0.33), ("mwMW%@", 0.9),
    ("ABCDEFGHJKLNOPQRSTUVXYZ+=<>", 0.7)) for letter in letters}


def escape(text):
    """Text as it stands between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(value):
    """A number without a point where it is whole."""
    return str(int(value)) if value == int(value) else str(value)


class Canvas:
    """Elements that were drawn. Numbers have one digit after the point, which nobody sees the end
    of."""

    def __init__(self):
        self.elements = []

    def add(self, element):
        self.elements.append(element)

    def text(self, x, y, size, text, anchor="start", style=""):
        if text:
            self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{ANCHORS[anchor]}{style}>'
                     f"{escape(text)}</text>")

    def line(self, x1, y1, x2, y2, style):
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>')

    def rect(self, x, y, width, height, style):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
                 f'height="{height:.1f}" {style}/>')

    def finish(self, width, height):
        """The whole picture."""
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
                f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
                'font-family="Helvetica, Arial, sans-serif">\n'
                '<rect width="100%" height="100%" fill="white"/>\n'
                + "".join(element + "\n" for element in self.elements) + "</svg>\n")


def width(text, size):
    """How wide a text is, at most about: an eighth more than in Helvetica, since other fonts may
    stand in for it."""
    total = 0.0
    for letter in text:
        total += WIDTHS.get(letter, 0.56)
    return total * size * 1.125


def wrap(text, size, room):
    """A text in lines that are no wider than `room`, broken between words where possible."""
    lines = [""]
    for word in text.replace(" ", " \0").split("\0"):
        last = width(lines[-1], size)
        if last > 0 and last + width(word.rstrip(), size) > room:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]

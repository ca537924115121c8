"""Tables in Markdown, for the pages of benches that are written in Python."""


def table(head, rows):
    """The lines of a table, from the cells of its head and of each row."""
    def line(cells):
        return "|" + "".join(f" {cell} |" if cell else " |" for cell in map(str, cells))

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]

"""What bench-repair has measured, cell by cell, so that a run that was interrupted goes on."""

import json
import re

from lab.rig.testbed import TestbedError

# What must be the same for cells to stand in one table.
MACHINE = ("cpu", "cores", "kernel")


def file_name(name):
    """A cell's name as that of a file."""
    return re.sub(r"[^\w.+-]+", "_", name) + ".json"


def compact(report):
    """A report as JSON with a line for each member, and for each row of a list."""
    def lines(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "\n ]"
        return json.dumps(value)
    members = (f" {json.dumps(key)}: {lines(value)}" for key, value in report.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


class Kept:
    """Rows by the names of their cells; in a folder, if there is one."""

    def __init__(self, folder, about):
        self.folder, self.rows, self.files = folder, {}, {}
        self.machine = json.dumps({key: about[key] for key in MACHINE}) + "\n"
        if folder and folder.exists():
            machine = folder / "machine"
            if machine.exists() and machine.read_text() != self.machine:
                raise TestbedError(f"{folder} has cells of {machine.read_text().strip()}, which "
                                   "is another machine; --fresh begins anew")
            self.files = {path.name: path for path in folder.glob("*.json")}

    def has(self, cell):
        """Whether a cell was measured."""
        return cell.name in self.rows or file_name(cell.name) in self.files

    def row(self, cell):
        """What was measured of it."""
        if cell.name not in self.rows:
            path = self.files[file_name(cell.name)]
            self.rows[cell.name] = json.loads(path.read_text())
        return self.rows[cell.name]

    def keep(self, cell, row):
        """Keeps a row, whole or not at all."""
        self.rows[cell.name] = row
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "machine").write_text(self.machine)
            path = self.folder / file_name(cell.name)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(row) + "\n")
            part.rename(path)

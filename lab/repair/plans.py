"""Plans that are searched for before anything is lost, as ParaRC has them found offline."""

import json

from lab.rig.testbed import TestbedError, run

STRATEGY = "vertices"
MOVES = 3_000_000  # ten times what a repair that finds its plan itself may take


class Plans:
    """A file of ready plans, and what they cost."""

    def __init__(self, kiln, folder):
        self.kiln, self.file, self.notes = kiln, folder / "ready.plans", folder / "plans.json"
        self.rows = []
        folder.mkdir(parents=True, exist_ok=True)
        # The notes are written last: a file without them may lack plans that they tell of.
        if self.file.exists() and self.notes.exists():
            self.rows = json.loads(self.notes.read_text())

    def ready(self, code, lost):
        """Searches for the plan of a loss, unless it is there."""
        if any((row["code"], row["lost"]) == (code, lost) for row in self.rows):
            return
        said = run(self.kiln, "plan", "-c", code, "--lost", lost, "--json", *self.words).stdout
        report = json.loads(said)
        chunk = report["chunk"]
        self.rows.append(dict(code=code, lost=lost, moves=MOVES,
                              load_chunks=round(report["max_node_load"] / chunk, 4),
                              sent_chunks=round(report["bandwidth"] / chunk, 4),
                              seconds=round(report["plan_seconds"], 2)))
        self.notes.write_text(json.dumps(self.rows, indent=1) + "\n")

    @property
    def words(self):
        """What names such a plan to kiln."""
        return ["--strategy", STRATEGY, "--moves", MOVES, "--plans", self.file]

    def strategy(self, code, lost, strategy):
        """Words for a coordinator; a plan that is kept is found first."""
        if strategy != STRATEGY:
            return ["--strategy", strategy]
        self.ready(code, lost)
        return self.words

    @staticmethod
    def check(report):
        """A repair by such a plan must not have searched for one."""
        if report.get("plan_cached") is False:
            raise TestbedError("the plan that was found before was not used")

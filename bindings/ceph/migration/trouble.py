"""What ends a run, and how."""


class Trouble(Exception):
    """Ends the run, or the copy of one object, with one clear line."""


class Broken(Trouble):
    """The journal cannot be written: nothing may be called verified any more."""


class Stopped(Exception):
    """Somebody wants the run to end; what was verified stands in the journal."""

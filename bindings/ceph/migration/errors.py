"""What ends a run, and how."""


class MigrationError(Exception):
    """Ends the run, or the copy of one object, with one clear line."""


class Broken(MigrationError):
    """The journal cannot be written: nothing may be called verified any more."""


class Stopped(Exception):
    """The run was asked to end; verified objects are in the journal."""

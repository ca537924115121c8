"""Exceptions: one class for each exit code of the program that an error can have."""


class KilnError(Exception):
    """Whatever kiln refuses or fails at; its subclasses say which of these.

    ``exit_code`` and ``kind`` are those of the program; ``retryable`` says whether the same call
    may succeed later without any other change.
    """

    exit_code: int = 4
    kind: str = "io"
    retryable: bool = False


class NotRecoverableError(KilnError):
    """Too much is lost."""

    exit_code = 2
    kind = "not-recoverable"


class UsageError(KilnError, ValueError):
    """The call makes no sense as given: an unknown code, a buffer of the wrong length."""

    exit_code = 3
    kind = "usage"


class IoError(KilnError, OSError):
    """A disk, file or machine failed."""

    exit_code = 4
    kind = "io"


class RefusedError(KilnError):
    """Refused, because data would be lost."""

    exit_code = 5
    kind = "refused"


class NotFoundError(KilnError, LookupError):
    """There is nothing of that name."""

    exit_code = 7
    kind = "not-found"


class WrongKeyError(KilnError):
    """The key is not the one that is needed."""

    exit_code = 8
    kind = "wrong-key"


class NotPermittedError(KilnError, PermissionError):
    """The system, or an agent, does not permit it."""

    exit_code = 9
    kind = "not-permitted"

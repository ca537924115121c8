"""Erasure coding with cheap repair: codes, plans of repairs, pools of objects.

``Codec`` encodes stripes and rebuilds what is lost of them, ``RepairPlan`` says which sub-chunks of
which chunks a repair reads, ``Pool`` keeps objects by name. Buffers (bytes, bytearray, memoryview,
numpy arrays of bytes) are read and written where they lie, without the interpreter's lock; until a
call returns no other thread may write to them. What fails raises a subclass of ``KilnError``.
"""

from ._errors import (
    IoError,
    KilnError,
    NotFoundError,
    NotPermittedError,
    NotRecoverableError,
    RefusedError,
    UsageError,
    WrongKeyError,
)
from ._kiln import Codec, Pool, Read, RepairPlan, __version__, codes
from ._reports import AverageCost, Costs, Family, Listed, Put, ShardState, Stat
from ._stripes import join, split

__all__ = [
    "AverageCost",
    "Codec",
    "Costs",
    "Family",
    "IoError",
    "KilnError",
    "Listed",
    "NotFoundError",
    "NotPermittedError",
    "NotRecoverableError",
    "Pool",
    "Put",
    "Read",
    "RefusedError",
    "RepairPlan",
    "ShardState",
    "Stat",
    "UsageError",
    "WrongKeyError",
    "__version__",
    "codes",
    "join",
    "split",
]

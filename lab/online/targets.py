"""What the study compares: pools of Ceph and volumes of kiln. A target is one row."""

from dataclasses import dataclass

VAN = "technique=reed_sol_van"


@dataclass(frozen=True)
class Target:
    """One place for images. `code` is Ceph's profile (replicas without one) or kiln's code; {k} and
    {m} stand for the size that a run has."""

    name: str
    label: str
    code: str = ""
    # Whether the profile needs kiln's plugin, and since when Ceph has it.
    plugin: bool = False
    since: int = 16
    # Of EC pools of 20.2: writes that do not read whole stripes.
    fast: bool = False

    @property
    def kind(self):
        """`ceph` or `volume`."""
        return self.name.split(":")[0]

    @property
    def image(self):
        """The name as a part of names of files and pools."""
        return self.name.replace(":", "-")

    def coded(self, k, m):
        """The code for a size."""
        return self.code.format(k=k, m=m)

    def words(self, k, m):
        """What pictures call it."""
        return self.label.format(k=k, m=m)


ALL = [
    Target("ceph:rep", "3 replicas"),
    Target("ceph:rs", "RS {k}+{m}", "plugin=jerasure k={k} m={m} " + VAN + " stripe_unit=4K"),
    Target("ceph:isa", "isa {k}+{m}", "plugin=isa k={k} m={m} " + VAN + " stripe_unit=4K"),
    Target("ceph:rs-4-2", "RS 4+2", "plugin=jerasure k=4 m=2 " + VAN + " stripe_unit=4K"),
    Target("ceph:isa-16k", "isa {k}+{m}, 16 KiB", "plugin=isa k={k} m={m} " + VAN
           + " stripe_unit=16K"),
    Target("ceph:isa-64k", "isa {k}+{m}, 64 KiB", "plugin=isa k={k} m={m} " + VAN
           + " stripe_unit=64K"),
    Target("ceph:fast", "isa {k}+{m}, FastEC", "plugin=isa k={k} m={m} " + VAN
           + " stripe_unit=4K", since=20, fast=True),
    Target("ceph:kiln", "kiln rs {k}+{m}", "plugin=kiln code=rs k={k} m={m} stripe_unit=4K",
           plugin=True),
    # A sub-chunk must be a multiple of 64 bytes, and 6+3 has 27 of them.
    Target("ceph:clay", "stock clay {k}+{m}", "plugin=clay k={k} m={m} scalar_mds=isa " + VAN
           + " stripe_unit=110592"),
    Target("ceph:kiln-clay", "kiln clay {k}+{m}",
           "plugin=kiln code=clay k={k} m={m} stripe_unit=110592", plugin=True),
    Target("volume:rep", "volume rep:3", "rep:3"),
    Target("volume:rs", "volume rs:{k}+{m}", "rs:{k}+{m}"),
    Target("volume:clay", "volume clay:{k}+{m}", "clay:{k}+{m}"),
]
BY_NAME = {target.name: target for target in ALL}

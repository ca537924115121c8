"""What is known of the tables of lab/results: the rules of `.ci/evidence.py`, page by page."""

from . import ceph, coding, devices, order, others, plan, repair, xor
from .page import Linked, Rule, Unchecked, check_tables

__all__ = ["check", "summary"]

# papers.md is made anew as a whole, and compared.
PAGES = {
    "core.md": [coding.quick], "core-full.md": [coding.full], "zen4.md": [coding.zen4],
    "avx2.md": [coding.avx2, xor.avx2], "neon.md": [others.neon],
    "xor.md": [xor.page], "plan.md": [plan.page], "order.md": [order.page],
    "order-devices.md": [devices.page], "repair.md": [repair.page], "ceph.md": [ceph.page],
    "online.md": [others.online], "online-peers.md": [others.peers],
    "online-files.md": [others.files],
    "hdfs.md": [others.hdfs], "clay.md": [others.clay],
    "clay-orders.md": [others.clay_orders], "s3.md": [others.s3],
    "volumes.md": [others.volumes], "trust.md": [others.trust], "pool.md": [others.pool],
    "agent.md": [others.agent], "house.md": [others.house],
}
# Sentences and lists that are made of data.
TEXTS = {"plan.md": plan.texts, "order.md": order.texts}


def check(path, text, complaints, seen):
    """A page of lab/results as it should be; what is wrong is added to the complaints."""
    rules = [rule for known in PAGES.get(path.name, ()) for rule in known(path.parent)]
    words = " ".join(text.split()) + " "
    complaints += [f"lab/results/{path.name} lacks what the data says: {wanted.strip()}"
                   for wanted in TEXTS.get(path.name, lambda _: ())(path.parent)
                   if wanted not in words]
    return check_tables(path, text, rules, complaints, seen)


def summary(seen):
    """How many tables there are of each kind."""
    return (f"{seen[Rule]} tables are what their data says, {seen[Linked]} have links, "
            f"{seen[Unchecked]} have no data")

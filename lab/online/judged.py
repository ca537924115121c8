"""The numbers of the online study judged twice: Ceph of today against the paper's Ceph, and kiln's
volumes, by the same cells over the same three replicas, against the paper's erasure codes; its
plugin in ISA-L's place over Jerasure. Applications ran on volumes in files. Pure.

A number within a quarter of the paper's reproduces it. A volume is better where it costs at least a
twentieth less over replicas than RS did in the paper, worse where it costs as much more, better in
part where its mean is better and its worst size of requests is worse.
"""

import re
from types import SimpleNamespace

from lab.online.claims import CLAIMS, REP, RS, number
from lab.online.summary import Medians

VOLUME = "volume:rs"
# kiln's in the place of what the paper measured.
INSTEAD = {RS: VOLUME, "ceph:isa": "ceph:kiln"}
PROCESSES = re.compile(r"([A-Z]+)(-p\d+)")
CLOSE, EVEN = 1.25, 1.05


def shown(value):
    """A ratio with three digits that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def cost(claim, value):
    """Rates turned, so that less is better of every number."""
    return 1 / value if claim.metric == "mb_s" else value


def reproduced(claim, here):
    """Whether a number of Ceph of today is the paper's, or within the bound that it gives."""
    ratio = cost(claim, here) / cost(claim, claim.paper)
    bounded = any(word in claim.words for word in ("at least", "at most", "at worst"))
    return ratio <= CLOSE and (bounded or ratio >= 1 / CLOSE)


def ceph(figure, report):
    """(text, verdict) of Ceph of today for a figure; `None` where nothing was measured."""
    told = [(claim, report["claims"][claim.key]["here"]) for claim in CLAIMS.get(figure, ())]
    told = [(claim, here) for claim, here in told if here is not None]
    if not told:
        return None
    marks = [reproduced(claim, here) for claim, here in told if claim.paper is not None]
    verdict = "no number" if not marks else "reproduced" if all(marks) \
        else "reproduced in part" if any(marks) else "not reproduced"
    return "; ".join(f"{claim.words} {shown(here)}" for claim, here in told), verdict


def swapped(claim, medians, kind):
    """(number, worst cell, number there) of a claim with kiln's in the paper's place; `None` where
    it has no such cells or kiln's was not measured in all of them."""
    pairs = claim.pairs(kind)
    if any(top[1] not in INSTEAD or bottom and bottom[1] not in (REP, RS)
           or bottom and (bottom[1] == RS) == (top[1] == RS) for top, bottom in pairs):
        return None
    found = [(number(medians, claim.metric, (top[0], INSTEAD[top[1]]), bottom), top[0])
             for top, bottom in pairs]
    if not found or any(value is None for value, _ in found):
        return None
    values = [value for value, _ in found]
    worst, cell = max(found, key=lambda one: cost(claim, one[0]))
    return max(values) if claim.largest else sum(values) / len(values), cell, worst


def on_files(claim, run):
    """(number, applications) of a claim about applications, of a run on files."""
    sizes = run["sizes"]
    medians = Medians(run["samples"])
    kind = SimpleNamespace(**sizes | {"processes": sizes["on_files"]})
    metric = "iops" if claim.metric == "mb_s" else claim.metric
    found = []
    for top, bottom in claim.pairs(kind):
        app = PROCESSES.fullmatch(top[0])
        cell = app and f"{app[1]}-files{app[2]}"
        value = app and number(medians, metric, (cell, VOLUME), bottom and (cell, REP))
        if value is not None:
            found.append((value, app[1]))
    apps = " and ".join(sorted({app for _, app in found}))
    return found and (sum(value for value, _ in found) / len(found), apps)


def volumes(figure, report, files):
    """(text, verdict) of kiln's volumes for a figure, of one run by size of requests and the worst
    of several of applications on files; `None` where the volume was not measured."""
    medians = Medians(report["samples"])
    kind = SimpleNamespace(**report["sizes"])
    parts, kinds = [], set()
    for claim in CLAIMS.get(figure, ()):
        words = re.sub(r" \(the paper[^)]*\)|^RS: |, RS over replicas", "", claim.words)
        words = words.replace("isa over", "kiln's plugin over")
        found = swapped(claim, medians, kind)
        runs = list(filter(None, (on_files(claim, run) for run in files)))
        if found:
            here, cell, worst = found
            note = cell if claim.largest else f"worst {shown(worst)}, {cell}"
            parts.append(f"{words} {shown(here)}"
                         + (f" ({note})" if len(claim.pairs(kind)) > 1 else ""))
        elif runs:
            here, apps = max(runs, key=lambda one: cost(claim, one[0]))
            worst = here
            parts.append(f"{words}, {apps} on files, the worse of {len(runs)} runs {shown(here)}")
        else:
            continue
        for value in (here, worst) if claim.paper is not None else ():
            ratio = cost(claim, value) / cost(claim, claim.paper)
            kinds.add("better" if ratio <= 1 / EVEN else "worse" if ratio >= EVEN else "equal")
    if not parts:
        return None
    verdict = "not comparable" if not kinds else kinds.pop() if len(kinds) == 1 \
        else "mixed" if "better" in kinds else "worse"
    return "; ".join(parts), verdict

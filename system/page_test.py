"""The page of a coordinator in a real browser, what is beside it, and the rules on its metrics.

    page_test.py FOLDER --kiln PROGRAM [--pictures DIR]

Agents, a pool and a coordinator run on this machine; everything that is started is ended. Without a
Chromium the page is looked at as text only, which is said.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from system.browser import Browser, program

NODES = 8
REPO = pathlib.Path(__file__).resolve().parents[1]
MONITORING = REPO / "dist" / "monitoring"
# Of the servers of volumes, which have a test of their own; of logs the coordinator tells.
FOREIGN = re.compile(r"kiln_volume_(?!log_)")


class Cluster:
    """Agents and a pool in a folder."""

    def __init__(self, folder, kiln):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.kiln, self.running = folder, kiln, {}

    def run(self, *words, fine=(0,)):
        """A command to its end; its standard output."""
        done = subprocess.run([self.kiln, *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode in fine, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def start(self, name, *words):
        """A command that stays, with its output in files."""
        files = [open(self.folder / f"{name}.{end}", "w") for end in ("out", "err")]
        process = subprocess.Popen([self.kiln, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=files[0], stderr=files[1])
        for file in files:
            file.close()
        self.running[name] = process

    def said(self, name, end, pattern, seconds=60):
        """What a command that stays says, as soon as it does."""
        until = time.monotonic() + seconds
        while True:
            text = (self.folder / f"{name}.{end}").read_text()
            found = re.search(pattern, text)
            if found:
                return found
            assert time.monotonic() < until, f"{name} never said {pattern}: {text}"
            assert self.running[name].poll() is None, f"{name} ended: {text}"
            time.sleep(0.05)

    def stop(self, name):
        """Ends a command that stays."""
        process = self.running.pop(name)
        process.terminate()
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def close(self):
        """Ends all of them."""
        for name in list(self.running):
            self.stop(name)

    def agents(self):
        """Agents, and a pool on them with a few objects."""
        self.run("agent", "--init", "--key", "k", "-q")
        nodes = []
        for at in range(NODES):
            self.start(f"d{at}", "agent", "--dir", f"d{at}", "--key", "k", "--listen",
                       "127.0.0.1:0", *(["--metrics", "127.0.0.1:0", "--json"] if at == 0 else []))
            place = self.said(f"d{at}", "out", r"kiln://[^\s\"]+").group()
            nodes += ["--node", f"{place},id=n{at},domain=rack{at}"]
        self.run("pool", "create", "-c", "clay:4+2", *nodes, "--key", "k")
        for at in range(6):
            data = b"".join((at * 7919 + i * 2654435761 & 0xFFFFFFFF).to_bytes(4, "little")
                            for i in range(500_000))
            (self.folder / "in").write_bytes(data)
            self.run("put", "in", f"films/{at}", "-q", "--key", "k")

    def coordinator(self, *words):
        """A coordinator with a page; its address."""
        self.start("c", "coordinator", "--stay", "--every", "1", "--key", "k", *words)
        return self.said("c", "err", r"page at (https?://[^\s]+)").group(1)


def get(url, token=None, wanted=200, context=None):
    """A document."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        asked = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(asked, timeout=20, context=context) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    assert status == wanted, (url, status, text)
    return text


def until(look, what, seconds=90):
    """Waits until it is true."""
    end = time.monotonic() + seconds
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, what
        time.sleep(0.1)


def status(url):
    """What the coordinator says as JSON."""
    return json.loads(get(url + "status.json"))


def calm(cluster):
    """A pool without trouble: the documents say what kiln status says; a scrub runs by itself."""
    finding = cluster.folder / "finding.json"
    shard = max((cluster.folder / "d1").glob("*.kiln"), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    url = cluster.coordinator("--http", "127.0.0.1:0", "--scrub-every", "1h", "--scrub-rate",
                              "200MiB", "--on-finding", "cat > finding.part && "
                              "mv finding.part finding.json", "--wait", "600")
    until(lambda: "serves" in ready(url), "it is never ready")
    assert get(url + "health") == "lives\n"
    get(url + "other", wanted=404)
    refused = urllib.request.Request(url, method="POST", data=b"x")
    try:
        urllib.request.urlopen(refused, timeout=20)
        raise SystemExit("something could be posted")
    except urllib.error.HTTPError as error:
        assert error.code == 405
    evil = urllib.request.Request(url, headers={"Host": "evil.example"})
    try:
        urllib.request.urlopen(evil, timeout=20)
        raise SystemExit("another site's name was answered")
    except urllib.error.HTTPError as error:
        assert error.code == 403
    # The scrub finds the flipped bit, tells the command, and the coordinator repairs it.
    until(finding.exists, "the finding was never told")
    told = json.loads(finding.read_text())
    assert told["damaged"] == 1 and told["pool"] == "pool" and len(told["findings"]) == 1, told
    until(lambda: status(url)["coordinator"]["scrub"]["rounds"] == 1, "the scrub never ended")
    until(lambda: status(url)["coordinator"]["repaired"] == 1, "it was never repaired")
    # Six and the object of their folder.
    until(lambda: status(url)["whole"] == 7, "the pool was never whole")
    said, known = status(url), json.loads(cluster.run("status", "--json", "--key", "k"))
    for name in ("pool", "objects", "bytes", "whole", "endangered", "unreadable", "incomplete"):
        assert said[name] == known[name], (name, said[name], known[name])
    assert [n["id"] for n in said["nodes"]] == [n["id"] for n in known["nodes"]]
    waits = {wait["for"] for wait in said["coordinator"]["waits"]}
    assert "scrub" in waits, waits
    metrics(cluster, url)
    assert cluster.stop("c") in (0, 1)
    # The next process knows where the scrub was.
    position = (cluster.folder / "pool.scrub.toml").read_text()
    assert "rounds = 1" in position and "findings = 1" in position, position
    print("calm: page, JSON, metrics and a scheduled scrub with its command: good")


def ready(url):
    """What /ready says, whatever its status."""
    try:
        return get(url + "ready")
    except AssertionError as error:
        return str(error.args[0][2]) if error.args[0][1] == 503 else ""


def metrics(cluster, url):
    """Rules and dashboard name nothing that is not emitted; promtool understands them."""
    agent = re.search(r"http://[^\"]+", (cluster.folder / "d0.out").read_text()).group()
    text = get(url + "metrics") + get(agent)
    there = set(re.findall(r"^(kiln_[a-z_]+)[{ ]", text, re.M))
    asked = (MONITORING / "alerts.yml").read_text() + (MONITORING / "dashboard.json").read_text()
    names = {name for name in re.findall(r"\bkiln_[a-z_]+", asked) if not FOREIGN.match(name)}
    # This one has rows only while objects lack something.
    there.add("kiln_pool_endangered_objects")
    # These while volumes are open.
    there |= {"kiln_volume_log_copies", "kiln_volume_log_copies_missing"}
    assert names <= there, f"nobody emits {sorted(names - there)}"
    if shutil.which("promtool"):
        for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True,
                                  text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
        rows = [target["expr"] for panel in panels for target in panel["targets"]]
        rules = [{"record": f"panel:{at}", "expr": row} for at, row in enumerate(rows)]
        file = cluster.folder / "dashboard-rules.yml"
        # JSON is YAML.
        file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
        done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        print(f"metrics: {len(names)} names, rules and {len(rows)} expressions of panels: good")
    else:
        print("SKIPPED: no promtool, rules and dashboard are compared by their names only")


def guarded(cluster):
    """Elsewhere than on loopback: over TLS, with a token."""
    import ssl
    done = subprocess.run([cluster.kiln, "coordinator", "--stay", "--http", "0.0.0.0:0", "--key",
                           "k"], cwd=cluster.folder, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 3 and "--http-token" in done.stderr, done.stderr
    url = cluster.coordinator("--http", "0.0.0.0:0", "--http-token", "token")
    url = url.replace("0.0.0.0", "127.0.0.1")
    assert url.startswith("https://")
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    token = (cluster.folder / "token").read_text().strip()
    get(url, wanted=401, context=context)
    get(url, token="wrong", wanted=401, context=context)
    assert "<h1>Pool" in get(url, token=token, context=context)
    assert cluster.stop("c") in (0, 1)
    print("guarded: refused without a token, served with it over TLS: good")


# What is true of the page at any width, in light and dark, as an expression that tells what is not.
CHECKS = """(() => {
  const bad = [];
  if (document.documentElement.scrollWidth > innerWidth) bad.push("it scrolls sideways");
  const channel = (c) => c / 255 <= .03928 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(channel);
    return .2126 * r + .7152 * g + .0722 * b; };
  const back = (e) => {
    const own = e ? getComputedStyle(e).backgroundColor : "rgb(255, 255, 255)";
    return own === "rgba(0, 0, 0, 0)" ? back(e.parentElement) : own;
  };
  for (const e of document.querySelectorAll("h1, h2, p, dt, dd, th, td, li, a, .badge, caption")) {
    if (!e.textContent.trim() || e.closest("svg") || e.closest(".skip")) continue;
    const a = light(getComputedStyle(e).color), b = light(back(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push(`${e.tagName} ${e.textContent.slice(0, 20)}: contrast ${ratio}`);
  }
  for (const e of document.querySelectorAll("progress, svg, .scroll"))
    if (!e.getAttribute("aria-label")) bad.push(`${e.tagName} has no name`);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) bad.push("an id comes twice");
  return bad.join("; ");
})()"""


def trouble(cluster, pictures):
    """A lost node, waited for and then rebuilt, as people see it."""
    cluster.stop("d3")
    url = cluster.coordinator("--http", "127.0.0.1:0", "--wait", "600")
    until(lambda: any(wait.get("node") == "n3" for wait in status(url)["coordinator"]["waits"]),
          "it never waits for the node")
    cluster.said("c", "err", r"waits for node n3 to come back.*: (10:00|9:\d\d) min")
    page = get(url)
    assert "unavailable" in page and re.search(r"given up in (10:00|9:\d\d) min", page), page
    browser = Browser(program()) if program() else None
    try:
        if browser:
            keyboard(browser, url)
            browser.look(url, 1280)
            # It counts down by itself.
            count = "document.querySelector('#waits ul').textContent"
            first = browser.evaluate(count)
            browser.until(f"{count} !== {json.dumps(first)}", "the page does not refresh")
            browser.look(url, 1280, scripts=False)
            assert "given up in" in browser.evaluate("document.body.innerText")
        cluster.stop("c")
        if browser:
            browser.look("about:blank#", 1280)
        url = cluster.coordinator("--http", "127.0.0.1:0", "--wait", "0", "--limit-rate", "150KiB",
                                  "--jobs", "2")
        until(lambda: (state := status(url)["coordinator"])["running"] and state["rate_bytes"]
              and any(load["sent"] for load in state["traffic"].values()), "no repair is seen")
        page = get(url)
        for words in ("<svg role=\"img\"", "Repairs that run", "Limit of each node: 150 KiB/s"):
            assert words in page, page
        if browser:
            views(browser, url, pictures)
    finally:
        if browser:
            browser.close()
        else:
            print("SKIPPED: no Chromium, the page was looked at as text only")
    cluster.stop("c")
    print("trouble: a node that is waited for, and its repair: good")


def keyboard(browser, url):
    """All that can be reached is reached by the Tab key, and is seen to be."""
    browser.look(url, 1280)
    wanted = browser.evaluate("document.querySelectorAll('a[href], .scroll').length")
    reached = set()
    for _ in range(wanted + 3):
        browser.key("Tab")
        at = browser.evaluate("""(() => { const e = document.activeElement;
            if (e === document.body) return "";
            const style = getComputedStyle(e);
            return style.outlineStyle === "none" || style.outlineWidth === "0px" ? "unseen"
                : e.getAttribute("href") || e.getAttribute("aria-label"); })()""")
        assert at != "unseen", "focus is not seen"
        reached.add(at)
    assert {"#main", "#state", "#nodes", "/status.json"} <= reached, reached


def views(browser, url, pictures):
    """The page at the widths of desktops and phones, in light and dark."""
    for width in (1280, 390):
        for dark in (False, True):
            browser.look(url, width, dark)
            browser.until("document.querySelector('#plan svg')", "no picture")
            bad = browser.evaluate(CHECKS)
            assert not bad, (width, dark, bad)
            paper = browser.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert (paper == "rgb(21, 24, 27)") == dark, paper
            if pictures:
                pictures.mkdir(parents=True, exist_ok=True)
                name = f"{'phone' if width < 600 else 'desktop'}-{'dark' if dark else 'light'}.png"
                browser.picture(pictures / name)
    print("views: 2 widths in light and dark, contrast, names, no sideways scrolling: good")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kiln", required=True, type=os.path.abspath)
    parser.add_argument("--pictures", type=pathlib.Path)
    args = parser.parse_args()
    cluster = Cluster(args.folder.absolute(), args.kiln)
    try:
        cluster.agents()
        calm(cluster)
        guarded(cluster)
        trouble(cluster, args.pictures)
    finally:
        cluster.close()
    shutil.rmtree(args.folder, ignore_errors=True)


if __name__ == "__main__":
    main()

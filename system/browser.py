"""A Chromium without a window, driven over its pipe: no library is needed for that."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program():
    """The browser of this machine; None: there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page in a browser of its own."""

    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="kiln-page-")
        read, self.out = os.pipe()
        self.answers, write = os.pipe()
        words = [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking",
                 "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"]
        shell = ["sh", "-c", f'exec "$@" 3<&{read} 4>&{write}', "sh", *words]
        self.process = subprocess.Popen(shell, pass_fds=(read, write), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self.buffer, self.number, self.session = b"", 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.ask("Page.enable")
        self.ask("Runtime.enable")

    def ask(self, method, **params):
        """The answer of the browser to one command; events are passed over."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                data = os.read(self.answers, 1 << 20)
                if not data:
                    raise SystemExit("the browser ended")
                self.buffer += data
            line, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, script):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def until(self, script, what, seconds=60):
        """Waits until an expression is true in the page."""
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(f"Boolean({script})")
            if value:
                return value
            assert time.monotonic() < end, f"{what}: {self.evaluate('document.body.innerText')}"
            time.sleep(0.1)

    def look(self, url, width, dark=False, scripts=True):
        """Opens a page at a width, in light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        phone = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844 if phone else 900,
                 deviceScaleFactor=1, mobile=phone)
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'", url)

    def picture(self, path):
        """The whole page as PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def key(self, name):
        """Presses a key."""
        code = {"Tab": 9, "Enter": 13}[name]
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                     windowsVirtualKeyCode=code)

    def close(self):
        """Ends the browser, and nobody else's."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

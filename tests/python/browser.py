"""A headless Chromium for the tests of pages: chromium and chromedriver, which `make test-pages` installs."""

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()


class Browser:
    """A headless Chromium, by the protocol of WebDriver."""

    def __init__(self, folder):
        log = open(folder / "driver.log", "w+")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=log, text=True
        )
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found[1]}/session"
                break
        options = {
            "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"],
            "binary": shutil.which("chromium"),
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self.send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.base += "/" + made["sessionId"]

    def send(self, method, path, data=None):
        body = json.dumps(data).encode() if data is not None else None
        request = urllib.request.Request(
            self.base + path, body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                request, timeout=120
            ) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(e.read().decode()) from None

    def command(self, name, **parameters):
        """Of the DevTools protocol."""
        return self.send("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def js(self, script):
        return self.send("POST", "/execute/sync", {"script": script, "args": []})

    def show(self, path, width=1280, height=900, dark=False):
        """Loads a page, a file or a URL, in a window of this size and waits until it has drawn."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.send("POST", "/url", {"url": "about:blank"})
        self.errors()  # of the page before: it may have asked a server that has gone
        url = path if "://" in str(path) else Path(path).as_uri()
        self.send("POST", "/url", {"url": url})
        self.drawn()

    def drawn(self):
        """Waits for two frames: what changed has been drawn."""
        wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(1)));"
        self.send("POST", "/execute/async", {"script": wait, "args": []})

    def drag(self, x1, x2, y):
        move = {"type": "pointerMove", "duration": 0, "origin": "viewport", "y": int(y)}
        actions = [
            move | {"x": int(x1)},
            {"type": "pointerDown", "button": 0},
            move | {"x": int(x2)},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.send("POST", "/actions", {"actions": [mouse]})
        self.drawn()

    def key(self, text):
        keys = [{"type": "keyDown", "value": text}, {"type": "keyUp", "value": text}]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})
        self.drawn()

    def errors(self):
        """What the console has got since the last call."""
        return [entry["message"] for entry in self.send("POST", "/se/log", {"type": "browser"})]

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.send("GET", "/screenshot")))

    def close(self):
        try:
            self.send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.communicate()

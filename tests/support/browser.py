"""A headless Chromium for the tests of pages, controlled through a pipe by the DevTools protocol."""

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --remote-debugging-pipe"
TIMEOUT_SECONDS = 300
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
"""Codes of the keys that do something without a script."""
DRAWN = "Promise.resolve(document.querySelector('[type=importmap]') && import('explorer/app.js').then(() => null))"
"""Settled when a page has unpacked and drawn its data, which is after it is loaded."""


class Browser:
    """One page in a browser without network access."""

    def __init__(self, read: int, write: int) -> None:
        self._input, self._output, self._buffer = read, os.fdopen(write, "wb", buffering=0), b""
        self._ids, self._session = itertools.count(1), None
        self.requested_urls: list[str] = []
        self.errors: list[str] = []  # in the console
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self._set_network(offline=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._output.write(json.dumps(message).encode() + b"\0")
        return next(one for one in self._messages() if one.get("id") == number)["result"]

    def _read(self) -> bytes:
        """The next message."""
        while b"\0" not in self._buffer:
            is_ready = select.select([self._input], [], [], TIMEOUT_SECONDS)[0]
            chunk = os.read(self._input, 2**16) if is_ready else b""
            assert chunk, "the browser does not answer"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return message

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            message = json.loads(self._read())
            if message.get("method") == "Network.requestWillBeSent":
                self.requested_urls.append(message["params"]["request"]["url"])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.consoleAPICalled":
                self.errors.append(str(message["params"]["args"]))
            if message.get("method") == "Runtime.exceptionThrown":
                raise AssertionError(message["params"]["exceptionDetails"])
            yield message

    def open(self, path: Path, *, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.open_url(path.as_uri())

    def open_url(self, url: str) -> None:
        """Navigate, and wait until the page is loaded."""
        self.call("Page.navigate", url=url)
        loaded = (message.get("method") == "Page.loadEventFired" for message in self._messages())
        next(filter(None, loaded))
        self.settled(DRAWN)

    def settled(self, promise: str) -> Any:
        """What a promise of the page is resolved to."""
        response = self.call("Runtime.evaluate", expression=promise, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in response, response
        return response["result"].get("value")

    @contextmanager
    def online(self) -> Iterator[None]:
        """Access to servers meanwhile."""
        self._set_network(offline=False)
        yield
        self._set_network(offline=True)

    def _set_network(self, *, offline: bool) -> None:
        limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.call("Network.emulateNetworkConditions", offline=offline, **limits)

    def wait(self, condition: str) -> None:
        """Wait until a condition of the page holds."""
        for _ in range(200):
            if self.get(condition):
                return
            time.sleep(0.05)
        raise AssertionError(f"{condition}: {self.get('document.body.innerText')}")

    def get(self, expression: str) -> Any:
        response = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in response, response
        return response["result"].get("value")

    def mouse(self, selector: str, number: int = 0, *, click: bool = False) -> None:
        """Move the mouse to the centre of an element, and click if `click`."""
        element = f"document.querySelectorAll({selector!r})[{number}]"
        self.get(f"{element}.scrollIntoView({{block: 'nearest', inline: 'nearest'}})")
        x, y = self.get(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({element}.getBoundingClientRect())")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = "\r" if key == "Enter" else ""
            for kind in ("keyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=KEYS.get(key, 0)
                )

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(1000):
            self.press("Tab")
            if self.get(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"the key Tab does not lead to {selector}")

    def choose(self, selector: str, value: object) -> None:
        act = f"e => {{ e.value = {str(value)!r}; e.dispatchEvent(new Event('change')) }}"
        self.get(f"({act})(document.querySelector({selector!r}))")


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in `folder`."""
    (child_read, write), (read, child_write) = os.pipe(), os.pipe()
    command = [str(CHROMIUM), *FLAGS.split(), f"--user-data-dir={folder / 'browser'}"]

    def pipes() -> None:  # Chromium uses descriptors 3 and 4, which may be in use here
        high = [os.dup2(os.dup(child_read), 100), os.dup2(os.dup(child_write), 101)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
    os.close(child_read)
    os.close(child_write)
    try:
        yield Browser(read, write)
    finally:
        process.kill()
        process.wait()
        os.close(read)

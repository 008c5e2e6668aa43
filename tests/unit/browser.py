"""A headless Chromium with a mouse and a keyboard, spoken to through a pipe: the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --remote-debugging-pipe"
PATIENCE = 300  # seconds
KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
}


class Browser:
    """One page in a browser without a network."""

    def __init__(self, reading: int, writing: int) -> None:
        self._from, self._to = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self._numbers, self._session = itertools.count(1), None
        self.asked_for: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        return next(answer for answer in self._messages() if answer.get("id") == number)["result"]  # type: ignore[no-any-return]

    def _messages(self) -> Iterator[dict[str, Any]]:
        buffer = b""
        while byte := self._from.read(1):
            if byte != b"\0":
                buffer += byte
                continue
            message, buffer = json.loads(buffer), b""
            if message.get("method") == "Network.requestWillBeSent":
                self.asked_for.append(message["params"]["request"]["url"])
            if message.get("method") == "Runtime.exceptionThrown":
                raise AssertionError(message["params"]["exceptionDetails"])
            yield message

    def open(self, path: Path, *, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Page.navigate", url=path.as_uri())
        loaded = (message.get("method") == "Page.loadEventFired" for message in self._messages())
        next(filter(None, loaded))

    def get(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def mouse(self, selector: str, number: int = 0, *, click: bool = False) -> None:
        """Move the mouse to the middle of an element, as a person would."""
        element = f"document.querySelectorAll({selector!r})[{number}]"
        self.get(f"{element}.scrollIntoView({{block: 'nearest', inline: 'nearest'}})")
        x, y = self.get(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({element}.getBoundingClientRect())")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        code = KEYS[key]
        text = {"tokenizer": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def choose(self, selector: str, value: object) -> None:
        """Pick an option of a select."""
        act = f"e => {{ e.value = {str(value)!r}; e.dispatchEvent(new Event('change')) }}"
        self.get(f"({act})(document.querySelector({selector!r}))")

    def photograph(self, path: Path) -> None:
        """All of the page, as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser that keeps its things in `folder`."""
    (reads, to), (back, writes) = os.pipe(), os.pipe()
    command = [str(CHROMIUM), *FLAGS.split(), f"--user-data-dir={folder / 'browser'}"]

    def pipes() -> None:  # which Chromium wants to be 3 and 4; first out of each other's way
        first, second = os.dup(reads), os.dup(writes)
        high = [os.dup2(first, 100), os.dup2(second, 101)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
    os.close(reads)
    os.close(writes)
    patience = threading.Timer(PATIENCE, process.kill)  # then there is nothing more to read, which is an error
    patience.start()
    try:
        yield Browser(back, to)
    finally:
        patience.cancel()
        process.kill()
        process.wait()

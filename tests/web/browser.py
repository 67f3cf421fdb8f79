"""A real browser, what a test does with it, and what it was heard to play."""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LISTEN_IN = """
(() => {
  const connect = AudioNode.prototype.connect;
  window.heard = { context: null, pieces: [] };
  AudioNode.prototype.connect = function (to, ...rest) {
    if (to instanceof AudioDestinationNode && this.context instanceof AudioContext) {
      const tap = this.context.createScriptProcessor(16384, 1, 1);
      const pieces = [];
      window.heard = { context: this.context, pieces };
      tap.onaudioprocess = ({ inputBuffer, playbackTime }) => {
        pieces.push([playbackTime, inputBuffer.getChannelData(0).slice()]);
      };
      connect.call(this, tap);
      connect.call(tap, to);
    }
    return connect.call(this, to, ...rest);
  };
})();
"""
"""Keeps everything that a page sends to the loudspeaker, with its time in the audio clock.

In pieces of 16,384 samples, a second at 16 kHz: the browser drops those that a busy page does not take in time. The
last second is therefore not there yet.
"""

_RECORDED = """
const { context, pieces } = window.heard;
if (!pieces.length) return [0, 0];
const seconds = pieces[0][1].length / context.sampleRate;
const began = Math.min(...pieces.map(([at], place) => at - place * seconds)) - 2 * seconds;
return [began, began + pieces.length * seconds];
"""
"""From when to when there is a recording, in the audio clock. A piece is told two lengths after it began, later when
the page was busy: the earliest is right."""

_TAKE = """
const { context, pieces } = window.heard;
const joined = new Int16Array(pieces.reduce((sum, [, piece]) => sum + piece.length, 0));
let place = 0;
for (const [, piece] of pieces) {
  for (const sample of piece) joined[place++] = Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
}
const bytes = new Uint8Array(joined.buffer);
let text = "";
for (let start = 0; start < bytes.length; start += 8192) {
  text += String.fromCharCode(...bytes.subarray(start, start + 8192));
}
return [context?.sampleRate ?? 0, btoa(text)];
"""

_WATCH = """
window.seen = { captions: [], doing: [], states: [], mouths: [], links: [] };
const watch = (css, what, options, value) => {
  const node = document.querySelector(css);
  new MutationObserver(() => seen[what].push(value(node))).observe(node, options);
};
watch("#caption", "captions", { childList: true }, (node) => node.textContent);
watch("#state", "states", { childList: true }, (node) => node.textContent);
watch("#face", "doing", { attributeFilter: ["data-doing"] }, (node) => node.dataset.doing);
watch("#server", "links", { childList: true }, (node) => node.textContent);
watch(".mouth", "mouths", { attributeFilter: ["d"] }, (node) => node.getAttribute("d"));
"""

_KEEP_FACE = """
window.faces ??= [];
const face = document.querySelector("#face");
faces.push([face.cloneNode(true), face.getAttribute("aria-label").split(": ").at(-1)]);
"""
_LAY_OUT = """
const sheet = document.body.appendChild(document.createElement("div"));
sheet.id = "sheet";
Object.assign(sheet.style, {
  position: "fixed", inset: "0 auto auto 0", width: "760px", padding: "12px", display: "grid", gap: "8px 16px",
  gridTemplateColumns: "repeat(4, 1fr)", background: "#f3f4f1", textAlign: "center", zIndex: 9,
});
for (const [face, name] of faces) {
  const cell = sheet.appendChild(document.createElement("figure"));
  cell.style.margin = 0;
  cell.append(face, name);
}
"""


@contextmanager
def chromium(profile: Path, *flags: str) -> Iterator[Any]:
    """One headless Chromium whose microphone is fake: it hears a beep once a second, or what `flags` say."""
    binary, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.fail("this needs a browser; scripts/test installs it: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync", "disable-dev-shm-usage", "use-fake-device-for-media-stream",
        "use-fake-ui-for-media-stream", f"user-data-dir={profile}", *flags,
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN_IN})
        yield driver
    finally:
        driver.quit()


def visit(
    browser: Any, url: str, *, language: str = "en", size: tuple[int, int] = (1100, 760), calm: bool = False
) -> None:
    """Go to a page as a person with this language, window and wish for less motion would."""

    def command(name: str, **values: Any) -> None:
        browser.execute_cdp_cmd(f"Emulation.{name}", values)

    # A headless window cannot be narrower than 500 px; this sets the page's own size, as a phone has it.
    command("setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 600)
    command("setUserAgentOverride", userAgent="test", acceptLanguage=language)
    motion = "reduce" if calm else "no-preference"
    command("setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": motion}])
    browser.get(url)


def complaints(browser: Any) -> list[str]:
    """What the browser logged since the last call: a broken content policy, or an error of the page's own.

    Chromium itself logs every answer that is not 2xx and every connection that was cut; what the page makes of those
    is what the tests look at.
    """
    log = [entry["message"] for entry in browser.get_log("browser")]
    own = ("Failed to load resource", "WebSocket connection to", "ScriptProcessorNode is deprecated")
    return [message for message in log if not any(each in message for each in own)]


def wait_for(look: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What `look` returns once it is true."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "the page never got there"
        time.sleep(0.03)
    return found


def find(page: Any, css: str) -> Any:
    return page.find_element("css selector", css)


def words(page: Any, css: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.innerText)"
    found: list[str] = page.execute_script(script, css)
    return found


def say(page: Any, line: str) -> None:
    find(page, "#line").send_keys(line)
    find(page, "#send").click()


def problem_text(page: Any) -> str:
    return str(wait_for(lambda: find(page, "#problem").text))


def key(page: Any, kind: str, name: str = " ", code: str = "Space", number: int = 32) -> None:
    page.execute_cdp_cmd(
        "Input.dispatchKeyEvent", {"type": kind, "key": name, "code": code, "windowsVirtualKeyCode": number}
    )


def escape(page: Any) -> None:
    key(page, "rawKeyDown", "Escape", "Escape", 27)
    key(page, "keyUp", "Escape", "Escape", 27)


def mouse(page: Any, kind: str, node: Any) -> None:
    box = node.rect
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    page.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "button": "left", "clickCount": 1, **where})


def doing(page: Any) -> str:
    """What the robot's light says it does."""
    return str(page.execute_script("return document.querySelector('#face').dataset.doing"))


def watch(page: Any) -> Callable[[], dict[str, list[str]]]:
    """Note from now on what may be shown for a moment only; call the result for it."""
    page.execute_script(_WATCH)
    return lambda: dict(page.execute_script("return seen"))


def keep_face(page: Any) -> None:
    """Put the face as it is now on the contact sheet."""
    page.execute_script(_KEEP_FACE)


def contact_sheet(page: Any) -> bytes:
    """PNG of all the faces that were kept, side by side, with their names."""
    page.execute_script(_LAY_OUT)
    picture: bytes = find(page, "#sheet").screenshot_as_png
    page.execute_script("document.querySelector('#sheet').remove()")
    return picture


def audio_clock(page: Any) -> float:
    return float(page.execute_script("return window.heard.context.currentTime"))


def heard(page: Any, seconds: float = 0.0) -> tuple[float, int, np.ndarray]:
    """What the page sent to the loudspeaker until now, and for `seconds` more.

    When it began in the audio clock, its rate in Hz, int16 samples.
    """
    until = audio_clock(page) + seconds
    wait_for(lambda: page.execute_script(_RECORDED)[1] >= until)
    began = float(page.execute_script(_RECORDED)[0])
    rate_hz, text = page.execute_script(_TAKE)
    return began, rate_hz, np.frombuffer(base64.b64decode(text), "<i2")

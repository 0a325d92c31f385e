"""A browser with WebGPU on the CPU, which is told over a pipe what to open and what to run.

Time that is virtual, by which ``browser`` waits, does not go on while a device works.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .browser import NAMES

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--remote-debugging-pipe",
)
LOADED = """if (document.readyState !== "complete") {
  await new Promise((go) => addEventListener("load", go));
}"""


class Driven:
    """One browser, started once; every page is opened in it."""

    def __init__(self, folder: Path) -> None:
        browser = next(filter(None, map(shutil.which, NAMES)), None)
        if browser is None:
            pytest.skip("no chromium is on PATH: nothing ran by WebGPU in a browser")
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        # the browser reads descriptor 3 and writes descriptor 4
        shell = f'exec "$0" "$@" 3<&{read} 4>&{write}'
        command = [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, *command],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._count, self._rest = 0, b""

    def close(self) -> None:
        """Ends the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _ask(self, method: str, session: str = "", **params: Any) -> Any:
        self._count += 1
        told = {"id": self._count, "method": method, "params": params}
        if session:
            told["sessionId"] = session
        os.write(self._to, json.dumps(told).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def after(self, address: str, code: str) -> Any:
        """What the body of an asynchronous function gives in a page."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.enable", session)
        self._ask("Page.navigate", session, url=address)
        found = self._ask(
            "Runtime.evaluate",
            session,
            expression=f"(async () => {{ {LOADED} {code} }})()",
            awaitPromise=True,
            returnByValue=True,
        )
        self._ask("Target.closeTarget", targetId=target)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

"""Measures how ranks reach one another, and looks at what a mesh then goes by; run by mpiexec."""

from __future__ import annotations

import contextlib
import io

import dlvm
from dlvm.cli import main


def links() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(["doctor", "--measure"])
    mesh = dlvm.mesh({"data": 2, "model": -1})
    apart = dlvm.mesh({"data": 2, "model": -1}, pieces={"data": 4})
    if mesh.rank:
        assert not said.getvalue()
        return
    found = dict(mesh.mesh.links)
    assert found["data"] == found["model"] and found["data"].latency > 0
    # results with pieces depend on no measurement
    assert apart.mesh.links and not apart.mesh.logical.links
    print(code, "ranks of one machine" in said.getvalue(), found["data"].bandwidth > 1e6)


if __name__ == "__main__":
    links()

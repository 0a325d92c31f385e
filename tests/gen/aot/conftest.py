"""One browser with WebGPU for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .driving import Driven


@pytest.fixture(scope="session")
def webgpu_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    driven = Driven(tmp_path_factory.mktemp("browser"))
    yield driven
    driven.close()

"""Which device runs programs: the first GPU of NVIDIA's driver, or the one that is named."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from dlvm.target import Target

from .device import Device
from .driver import check, driver

CHOSEN: ContextVar[Device | None] = ContextVar("device", default=None)


def current(target: Target) -> Device:
    """The device on which programs run here; without a driver an error that says so."""
    chosen = CHOSEN.get()
    if chosen is not None:
        return chosen
    found = driver()
    check(target, found.capability)
    return found


@contextmanager
def using(device: Device) -> Generator[Device]:
    """Programs for GPUs run on this device inside."""
    token = CHOSEN.set(device)
    try:
        yield device
    finally:
        CHOSEN.reset(token)

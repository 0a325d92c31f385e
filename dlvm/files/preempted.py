"""Whether the system has asked this process to end, by the signal SIGTERM."""

from __future__ import annotations

import signal
import threading
from typing import Any

from dlvm.base.errors import UserError
from dlvm.dsl.trace.scopes import user_origin


class Notice:
    """Notes SIGTERM from the first time that somebody asks; before, it ends the process."""

    def __init__(self) -> None:
        self.came = self.listens = False

    def asked(self) -> bool:
        """Whether the signal has come."""
        if not self.listens:
            self._listen()
        return self.came

    def _listen(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise UserError(
                "preempted: the first call must be in the main thread, which hears signals",
                origin=user_origin(),
                remedy="call it once in the main thread before other threads do",
            )
        before = signal.getsignal(signal.SIGTERM)

        def note(number: int, frame: Any) -> None:
            self.came = True
            if callable(before):
                before(number, frame)

        signal.signal(signal.SIGTERM, note)
        self.listens = True


NOTICE = Notice()
"""That of this process, which has one handler for a signal."""

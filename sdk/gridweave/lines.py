"""A line of progress on a terminal: below whatever is printed, gone when it is not needed.

One line of a process at a time is drawn, on stderr; where stderr is no terminal, none is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

_taken = threading.Lock()
_CLEAR = "\r\x1b[?25h\x1b[2K"  # to the start of the line, the cursor shown again, nothing in the line


class Line:
    """words: gives the text, in rich's markup, whenever it is drawn anew. Close it at the end."""

    def __init__(self, words: Callable[[], str], wanted: bool = True) -> None:
        self._words = words
        self._owned = wanted and sys.stderr is not None and sys.stderr.isatty() and _taken.acquire(blocking=False)
        self._live: Any = None

    @property
    def shown(self) -> bool:
        """Whether there is a terminal to draw on."""
        return bool(self._owned)

    def __rich__(self) -> str:
        return self._words()

    def draw(self) -> None:
        """Show it from now on."""
        if not self._owned or self._live is not None:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        shown = Spinner("dots", text=self)
        console = Console(stderr=True)
        self._live = Live(shown, console=console, transient=True, refresh_per_second=8, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def erase(self) -> None:
        """Take it away until it is drawn again."""
        if self._live is None:
            return
        live, self._live = self._live, None
        try:
            live.stop()
        except (KeyboardInterrupt, IndexError) as error:  # IndexError: of rich, if Ctrl-C has broken off its start
            live.console.file.write(_CLEAR)
            live.console.file.flush()
            if isinstance(error, KeyboardInterrupt):
                raise

    def close(self) -> None:
        """Take it away for good; another may then be drawn."""
        self.erase()
        if self._owned:
            self._owned = False
            _taken.release()

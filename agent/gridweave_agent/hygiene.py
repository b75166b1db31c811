"""What a process needs so that user code finds it as on a laptop, though a cluster's worker started it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

_ALLOWED = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LOGNAME", "SHELL", "TERM"})
_ALLOWED_PREFIXES = ("LC_", "SSL_CERT_", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "NVIDIA_", "ROCM_", "HSA_", "ONEAPI_")
_INSTALLER_PREFIXES = ("UV_", "PIP_")
_INSTALLER = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that user code may see: an allow-list, so that no secret of the node passes by being new."""
    return {key: value for key, value in environ.items() if key in _ALLOWED or key.startswith(_ALLOWED_PREFIXES)}


def scrubbed_for_installer(environ: Mapping[str, str]) -> dict[str, str]:
    """The same plus the site's package index, proxy and certificate settings, which an installer needs and user code does not."""
    extra = {key: value for key, value in environ.items() if key.upper() in _INSTALLER or key.startswith(_INSTALLER_PREFIXES)}
    return scrubbed(environ) | extra


def reset_priority() -> None:
    """Niceness 0 and no preference of the OOM killer, where permitted."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("0")


def reset_signals() -> None:
    """The dispositions and the mask that a fresh interpreter has."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignore_polite_signals() -> None:
    """For supervisors: they end when their run has, not when a terminal or an init says so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)

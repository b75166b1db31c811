"""How the kernel helps to end a run whole: a PID namespace of its own, or two nested subreapers.

In a namespace the end of its init is the proof that every process is gone. Where `unshare` or a fresh /proc is
refused, orphans are handed to the nearest subreaper above them, which kills them until none is left.
"""

from __future__ import annotations

import ctypes
import os
import signal

NAMESPACE, SUBREAPER, AUTO = "namespace", "subreaper", "auto"

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 0x4000, 1 << 19
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare_pids() -> None:
    """Children of this single-threaded process start a new PID namespace. Raises OSError where it is not allowed."""
    try:
        _checked(_libc.unshare(_CLONE_NEWPID), "unshare")
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def mount_own_proc() -> None:
    """Give this process, the init of a PID namespace, a /proc that shows that namespace. Raises OSError."""
    _checked(_libc.unshare(_CLONE_NEWNS), "unshare")
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "mount /")  # theirs still reach us, ours stay here
    _checked(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None), "mount /proc")
    if os.readlink("/proc/self") != str(os.getpid()):
        raise OSError("the mounted /proc shows another namespace")


def die_with_parent() -> None:
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of every orphan below."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def stay_readable_to_self() -> None:
    """Keep /proc/self of a process that changed its uid readable to itself. Raises OSError."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def choose(wanted: str) -> str:
    """The mode for runs: as wanted, and for "auto" a namespace if a trial of one works."""
    if wanted != AUTO:
        return wanted
    pid = os.fork()
    if pid == 0:
        os._exit(_trial())
    return NAMESPACE if os.waitpid(pid, 0)[1] == 0 else SUBREAPER


def _trial() -> int:
    try:
        unshare_pids()
        pid = os.fork()
        if pid == 0:
            try:
                mount_own_proc()
            except OSError:
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except OSError:
        return 1

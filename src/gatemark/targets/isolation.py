"""Keep a worker process away from the answers, by Landlock if the Linux kernel has it.

``isolate: true`` in a target makes its process start with these limits, which it and its children
cannot lift: it may read everything except the paths that are hidden from it (the pack's data, the
store, the repository's history), write only in its own temporary folder, and neither inspect nor
signal other processes. File names stay visible; the network stays open.

Landlock allows what is listed and nothing else. To hide a path, everything around it is listed, at
every level from the root down.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE: Final = 1 << 14
_IOCTL_DEVICE: Final = 1 << 15
_SCOPES: Final = 0b11
"""Abstract Unix sockets and signals are limited to the process itself."""
_RIGHTS_BY_ABI: Final = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_ABI_WITH_SCOPES: Final = 6
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "shm", "nvidia*", "dri", "kfd")


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_fs", ctypes.c_uint64),
        ("handled_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def get_landlock_version() -> int:
    """Return the version of Landlock that the running kernel offers; 0 without it."""
    if not sys.platform.startswith("linux"):
        return 0
    found = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return max(0, int(found))


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, for whatever reason (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def close_process_memory() -> None:
    """Hide this process's memory and environment from others of the same user (Linux only).

    Called before any code under examination starts. Root can read them still.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def restrict(hidden: Sequence[str], writable: Sequence[str]) -> None:
    """Permanently give up reading ``hidden`` paths and writing outside ``writable``."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = get_landlock_version()
    handled = sum(rights for abi, rights in _RIGHTS_BY_ABI.items() if abi <= version)
    ruleset = _Ruleset(handled, 0, _SCOPES if version >= _ABI_WITH_SCOPES else 0)
    rules = _check_call(
        libc.syscall(
            _CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), 0
        ),
        "landlock_create_ruleset",
    )
    _allow(libc, rules, "/", _READ_DIR)
    kept_from_it = {Path(path).resolve() for path in hidden}
    others = {path for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())}
    # Landlock itself protects only the memory of other processes, not their environment.
    for path in find_readable_paths(kept_from_it | others):
        _allow(libc, rules, path, _READ & handled)
    for device in _list_devices():
        # Shared memory is a folder like any other, and may contain a store.
        if not any(path.is_relative_to(device) for path in kept_from_it):
            _allow(libc, rules, str(device), handled)
    for path in writable:
        _allow(libc, rules, path, handled)
    _check_call(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check_call(libc.syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)


def _list_devices() -> list[Path]:
    return [device.resolve() for name in _DEVICES for device in Path("/dev").glob(name)]


def find_readable_paths(hidden: set[Path]) -> Iterator[str]:
    """Yield the largest files and folders that contain nothing hidden.

    Devices are left out, except what is alongside something hidden in shared memory.
    """
    hidden = {path.resolve() for path in hidden} | {Path("/dev")}
    above = {parent for path in hidden for parent in path.parents}
    waiting = [Path("/"), *(device for device in _list_devices() if device in above)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue  # what the process cannot list now it cannot read later either
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink() or path in hidden:
                continue  # a rule on a link would be one on what it leads to
            if path in above:
                waiting.append(path)
            else:
                yield entry.path


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _OF_FILES
        rule = _PathBeneath(rights, opened)
        _check_call(
            libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0),
            f"landlock_add_rule {path}",
        )
    finally:
        os.close(opened)


def _check_call(value: int, call: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return value

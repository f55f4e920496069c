"""The machine: what it is, pinning, and how busy it is."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ortwin.fast.library import Library
from ortwin.ref.errors import OrtwinError


class ParityError(OrtwinError):
    """The process does not run on exactly as many CPUs as threads are under test."""


def pin(threads: int) -> list[int]:
    """Restricts the process to `threads` CPUs, the last ones it may use (the first serves most interrupts).

    Threads that exist (numpy's) are moved too; those to come inherit the restriction.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < threads:
        raise ParityError(f"{threads} threads need as many CPUs, this process may use {len(allowed)}")
    chosen = allowed[-threads:]
    for task in _tasks():
        os.sched_setaffinity(task, chosen)
    return chosen


def parity_broken(threads: int) -> str:
    """ "" if every thread of the process is confined to exactly `threads` CPUs, else what is wrong."""
    for task in _tasks():
        try:
            cpus = os.sched_getaffinity(task)
        except ProcessLookupError:  # it ended meanwhile
            continue
        if len(cpus) != threads:
            return f"thread parity: a thread may use {len(cpus)} CPUs with {threads} threads under test"
    return ""


def _tasks() -> list[int]:
    return [int(task.name) for task in Path("/proc/self/task").iterdir()]


def runnable() -> int:
    """Processes and threads ready to run on the whole machine, this one included."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])


def facts(library: Library) -> dict[str, Any]:
    """Everything a reader needs to place the numbers."""
    packages: dict[str, str] = {}
    for name in ("ortwin", "onnxruntime", "onnx", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed as a package"
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "packages": packages,
        "library": {
            "path": str(library.path),
            "version": library.version(),
            "sha256": hashlib.sha256(library.path.read_bytes()).hexdigest(),
            "isas": library.isas(),
        },
        "commit": _commit(),
        "runnable": runnable(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _commit() -> str:
    """The commit of the tree the command was started in, with a mark if it has uncommitted changes."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()

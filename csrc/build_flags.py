"""How the C library is compiled: the one place for its flags, read by the build backend and by the lint session.

Standard library only, since nox loads this file outside every session's environment.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What the bits depend on. Every operation rounds once, as written (contract C2): no contraction to fma, no
# reassociation. These stand after what the environment asks for, so CFLAGS=-ffast-math cannot reach the arithmetic.
EXACT = ["-fno-fast-math", "-ffp-contract=off"]

# These cannot change a bit: all they give up is errno and the exception flags, which nothing here reads. With the
# first, sqrtf is one instruction, not a call to libm (-fno-fast-math would undo it, so this list comes later); with the
# second, both arms of a selection may be evaluated.
UNTRAPPED = ["-fno-math-errno", "-fno-trapping-math"]

RELEASE = ["-O3", "-DNDEBUG"]
# For builds that are tried and thrown away: the kernels compile in a sixth of the time. Without the optimiser gcc warns
# where an intrinsic is no function.
QUICK = ["-Og", "-DNDEBUG", "-w"]
# float-cast-overflow is not part of "undefined", but a float that does not fit its integer has no defined bits.
SANITIZERS = {"sanitize": "-fsanitize=address,undefined,float-cast-overflow", "tsan": "-fsanitize=thread"}
SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]

WARNINGS = shlex.split(
    "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wcast-qual -Wundef "
    "-Wvla -Wformat=2 -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition"
)

# Of the symbols only the entry points are visible, and the library always calls its own: another ortwin in the same
# process cannot step in. No soname, so the loader tells two builds apart by path; nothing undefined, nothing lazy.
LINK = ["-shared", "-pthread", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,now", "-Wl,--as-needed"]


def compiler() -> list[str]:
    """The C compiler as a command: the environment's CC, else gcc."""
    return shlex.split(os.environ.get("CC", "")) or ["gcc"]


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def sources() -> list[str]:
    """Every C source, relative to the root: compiled from there, no path of the machine gets into the library."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.c"))


def compile_flags(mode: str = "") -> list[str]:
    """Flags for one unit of the C library, with the CFLAGS of the environment before them. mode: a key of SANITIZERS
    for a build with these and with assertions, "interpreted" for one that is made quickly; else it is the release."""
    unsanitized = QUICK if mode == "interpreted" else RELEASE
    return [
        *shlex.split(os.environ.get("CFLAGS", "")),
        *("-std=c11", "-fPIC", "-fvisibility=hidden", "-pthread", "-Icsrc", f'-DORTWIN_VERSION="{version()}"'),
        *([*SANITIZE, SANITIZERS[mode]] if mode in SANITIZERS else unsanitized),
        *EXACT,
        *UNTRAPPED,
        *WARNINGS,
    ]


def link_flags(mode: str = "") -> list[str]:
    """Flags that make the shared object of the compiled units, with the LDFLAGS of the environment before them."""
    return [*shlex.split(os.environ.get("LDFLAGS", "")), *LINK, *([SANITIZERS[mode]] if mode in SANITIZERS else [])]

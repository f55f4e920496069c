"""Other builds of the C library: the tree's own sources with lines changed, for what a test must be able to see, and
those of another commit: `python tests/builds.py TREE LIBRARY`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(os.environ.get("ORTWIN_TREE") or Path(__file__).resolve().parent.parent)
"""The sources that builds are made of: this tree, unless mutate.py has another."""
COMPILE = (
    "import build_flags as b, subprocess, sys; subprocess.run([*b.compiler(), *b.compile_flags(*sys.argv[2:]), "
    "*b.sources(), *b.link_flags(), '-o', sys.argv[1]], check=True, cwd=b.ROOT)"
)


def compile_library(tree: Path, library: Path, *mode: str) -> None:
    """Compiles the csrc of a tree as its own build_flags says, in that mode; library: an absolute path."""
    subprocess.run([sys.executable, "-c", COMPILE, str(library), *mode], cwd=tree / "csrc", check=True)


def build_library(
    folder: Path,
    changes: Mapping[str, tuple[str, str]] | None = None,
    files: Mapping[str, str] | None = None,
    replace: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Compiles csrc, less optimised than a release. changes: by file in csrc, old text (found once) and new; replace:
    likewise, any number of old texts, found anywhere; files: new ones."""
    tree = folder / "tree"
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for name, (old, new) in (changes or {}).items():
        path = tree / "csrc" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} has {text.count(old)} places like {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    for name, texts in (replace or {}).items():
        path = tree / "csrc" / name
        for old, new in texts.items():
            text = path.read_text(encoding="utf-8")
            assert old in text, f"{name} has no {old!r}"
            path.write_text(text.replace(old, new), encoding="utf-8")
    for name, text in (files or {}).items():
        (tree / "csrc" / name).write_text(text, encoding="utf-8")
    library = folder / "libortwin.so"
    compile_library(tree, library, "interpreted")
    return library


if __name__ == "__main__":
    compile_library(Path(sys.argv[1]), Path(sys.argv[2]))

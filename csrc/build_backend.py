"""In-tree build backend (PEP 517): setuptools, and the three things it has no setting for.

- ref/, fast/ and conformance/ are installed as the package `ortwin`: each build starts by copying them to
  build/stage/ortwin, where setuptools finds packages as it expects them.
- ref/ is compiled by mypyc as one unit. ORTWIN_BUILD=interpreted leaves it as Python, and hardly optimises the C
  library either: the bits are the same, and a build takes a tenth of the time.
- csrc/ becomes one plain shared object, ortwin/fast/libortwin.so, which is no Python extension.
  ORTWIN_BUILD=sanitize builds it with AddressSanitizer, UndefinedBehaviorSanitizer and its assertions, and
  ORTWIN_BUILD=tsan with ThreadSanitizer and its assertions.

CC names the compiler, by default gcc. The folder build/ belongs to this file and is emptied by every build.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import ClassVar, NoReturn, cast

from setuptools import Extension, build_meta
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

import build_flags
from build_flags import ROOT

BUILD = ROOT / "build"
STAGE = BUILD / "stage"
LIBRARY = "ortwin.fast.libortwin"
PACKAGES = ("ref", "fast", "conformance")
SHIPPED = (
    *(*PACKAGES, "csrc", "tests", "docs", "noxfile.py", "pyproject.toml"),
    *("README.md", "CHANGELOG.md", "LICENSE", ".ci", ".clang-format", ".gitignore"),
)
DERIVED = shutil.ignore_patterns("__pycache__", ".*_cache", "*.py[cod]", "*.so", "*.o", "*.egg-info")

INIT = '"""ONNX models computed to the same bits everywhere: ortwin.ref, ortwin.fast, ortwin.conformance."""\n'

Settings = Mapping[str, str | list[str] | None] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of this tree. Raises SystemExit, with one sentence, when the build cannot start."""
    mode = os.environ.get("ORTWIN_BUILD", "") or "release"
    if mode not in ("release", "interpreted", *build_flags.SANITIZERS):
        others = '", "'.join(build_flags.SANITIZERS)
        raise SystemExit(f'ORTWIN_BUILD is "{mode}", but must be "interpreted", "{others}" or unset.')
    require_compiler(headers=mode != "interpreted")
    stage()
    BuildExt.mode = mode
    BuildExt.reference = [] if mode == "interpreted" else compile_reference()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the source distribution of this tree."""
    stage()
    return build_meta.build_sdist(sdist_directory, config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the wheel's metadata, without compiling anything."""
    stage()
    return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_editable(*_: object, **__: object) -> NoReturn:
    """Refuse: an installed ortwin is compiled from a copy of the tree."""
    raise SystemExit("ortwin is compiled, so it cannot be installed in editable mode: run `pip install .` instead.")


def require_compiler(headers: bool) -> None:
    command = os.environ["CC"] = shlex.join(build_flags.compiler())  # for setuptools too, which has its own default
    if shutil.which(build_flags.compiler()[0]) is None:
        raise SystemExit(
            f'ortwin is compiled on installation and the C compiler "{command}" was not found: '
            "install gcc and the C library's headers, or set CC to the compiler's command."
        )
    if headers and not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise SystemExit("ortwin is compiled on installation and Python.h was not found: install Python's headers.")


def stage() -> None:
    """Copy the packages to build/stage/ortwin, with nothing left over from an earlier build."""
    shutil.rmtree(BUILD, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, STAGE / "ortwin" / package, ignore=DERIVED)
    # A regular package, not a namespace: Python started beside a clone called ortwin would else join its folders to the
    # installed ones and import uncompiled sources.
    (STAGE / "ortwin" / "__init__.py").write_text(INIT, encoding="utf-8")


def compile_reference() -> list[Extension]:
    """Translate ref/ to C: one unit, so that calls between its modules are direct."""
    from mypyc.build import mypycify

    with chdir(STAGE):  # module names and the file names in tracebacks are relative to it
        # mypyc calls a compiled __init__ recursively on import, so those few lines stay Python.
        modules = sorted(str(path) for path in Path("ortwin/ref").rglob("*.py") if path.name != "__init__.py")
        options = ["--config-file=", "--namespace-packages", "--explicit-package-bases"]
        units = mypycify(
            [*options, *modules], group_name="ortwin.ref.compiled", debug_level="0", target_dir=str(BUILD / "mypyc")
        )
    extensions = cast("list[Extension]", units)
    for extension in extensions:
        # Without -fno-semantic-interposition small helpers are not inlined. Warnings in generated C are not ours.
        extension.extra_compile_args += [*build_flags.EXACT, "-fno-semantic-interposition", "-Wno-error"]
    return extensions


class BuildExt(build_ext):
    """Builds the compiled reference as setuptools does, and the C library by its own rules."""

    reference: ClassVar[list[Extension]] = []
    mode = ""

    def finalize_options(self) -> None:
        self.distribution.ext_modules += self.reference
        super().finalize_options()

    def build_extension(self, ext: Extension) -> None:
        if ext.name != LIBRARY:
            return super().build_extension(ext)
        target = Path(self.build_lib, "ortwin", "fast", "libortwin.so").absolute()  # no interpreter's tag in this name
        objects = {source: f"{BUILD}/objects/{source}.o" for source in build_flags.sources()}
        for file in (target, *map(Path, objects.values())):
            file.parent.mkdir(parents=True, exist_ok=True)
        flags = build_flags.compile_flags(self.mode)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda source: run([*flags, "-c", source, "-o", objects[source]]), objects))
        run([*objects.values(), *build_flags.link_flags(self.mode), "-o", str(target)])


class SourceDist(sdist):
    """Ships the tree as it is, rather than what setuptools would find in the stage."""

    def make_release_tree(self, base_dir: str, files: Iterable[str]) -> None:
        super().make_release_tree(base_dir, [])
        for name in SHIPPED:
            source, target = ROOT / name, Path(base_dir, name)
            if source.is_dir():
                shutil.copytree(source, target, ignore=DERIVED)
            else:
                shutil.copy2(source, target)


def run(arguments: list[str]) -> None:
    command = [*build_flags.compiler(), *arguments]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise SystemExit(f"The C compiler failed: {' '.join(command)}")

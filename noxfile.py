"""The project's lanes, one documented session each: `nox -l` lists them, plain `nox` runs tests and lint.

A wheel is built once in a run of nox, and every session installs that file.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "csrc"))

import build_flags  # noqa: E402  the C compiler's flags have one home

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests", "lint"]
nox.options.error_on_external_run = True

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
WHEELS = ROOT / ".nox" / "wheels"
PEER = "nxrt-ep-cpu==0.1.0.dev6"  # another published CPU plugin, which people will compare with
TSAN = ("libtsan.so", "libstdc++.so.6")
# A process per CPU, up to 4; a file's tests stay together, for they share what they build. -n 0 undoes it.
PARALLEL = ("-n", "auto", "--maxprocesses=4", "--dist", "loadfile")
built: dict[str, Path] = {}


def group(name: str) -> tuple[str, ...]:
    """The requirements of a dependency group in pyproject.toml."""
    return nox.project.dependency_groups(PYPROJECT, name)


def wheel(session: nox.Session, mode: str = "release", cc: str | None = None) -> Path:
    """Path of the wheel built in this mode (of ORTWIN_BUILD) with this compiler, built on first use."""
    key = f"{mode}-{cc}" if cc else mode
    if key not in built:
        folder = WHEELS / key
        shutil.rmtree(folder, ignore_errors=True)
        env = {"ORTWIN_BUILD": "" if mode == "release" else mode} | ({"CC": cc} if cc else {})
        session.run("python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT), env=env)
        (built[key],) = folder.glob("*.whl")
    return built[key]


def install(session: nox.Session, file: Path, *requirements: str, extras: str = "ort") -> None:
    """Install a wheel with ONNX Runtime, and see that it is the ortwin that will be imported."""
    session.install(f"ortwin[{extras}] @ {file.as_uri()}", *requirements)
    # In an environment that nox reuses, pip would keep an older build of the same version.
    session.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(file))
    where = "import sys, ortwin.ref as r; assert r.__file__.startswith(sys.prefix), f'not the wheel: {r.__file__}'"
    session.run("python", "-c", where)


@nox.session
def demo(session: nox.Session) -> None:
    """Run real models through ONNX Runtime with the execution provider and compare every node's bits with ref/."""
    install(session, wheel(session))
    session.run("python", "-m", "ortwin.conformance.demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test-suite on the installed wheel; arguments after -- go to pytest."""
    install(session, wheel(session), *group("test"))
    session.run("pytest", *PARALLEL, *session.posargs)  # as a command, it does not put the tree on the import path


@nox.session
def graphs(session: nox.Session) -> None:
    """Run thousands of random graphs on every arm, where the test-suite runs a few: nox -s graphs -- COUNT."""
    install(session, wheel(session), *group("test"))
    count = session.posargs[0] if session.posargs else "3000"
    session.run("pytest", "tests/test_graphs.py", env={"ORTWIN_GRAPHS": count})


@nox.session
def lint(session: nox.Session) -> None:
    """Check everything without running it: ruff, mypy --strict, compiler warnings (also for aarch64), clang-format."""
    requirements = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"]["ort"]]
    session.install(*requirements, *group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")

    # mypy sees the packages where they will be installed. Links keep its messages about the files people edit:
    # only "ortwin/" is put before their names.
    tree = Path(session.create_tmp()) / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "ortwin").mkdir(parents=True)
    for package in ("ref", "fast", "conformance"):
        (tree / "ortwin" / package).symlink_to(ROOT / package)
    others = ["tests", "noxfile.py", "csrc"]
    for name in others:
        (tree / name).symlink_to(ROOT / name)
    with session.chdir(tree):
        session.run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "ortwin", *others)

    lint_c(session, "gcc")
    if shutil.which("aarch64-linux-gnu-gcc"):
        lint_c(session, "aarch64-linux-gnu-gcc")
    else:
        session.warn("csrc was not compiled for aarch64: aarch64-linux-gnu-gcc is not installed.")
    c_files = sorted(str(path) for suffix in ("c", "h", "def") for path in Path("csrc").rglob(f"*.{suffix}"))
    session.run("clang-format", "--dry-run", "--Werror", *c_files)


def lint_c(session: nox.Session, cc: str) -> None:
    """Compile every C source in full (some warnings come from the optimiser), warnings being errors."""
    for mode in ("", *build_flags.SANITIZERS):  # without and with assertions
        for source in build_flags.sources():
            session.run(cc, *build_flags.compile_flags(mode), "-Werror", "-c", source, "-o", os.devnull, external=True)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run the tests with Address- and UndefinedBehaviorSanitizer, then the stress tests with ThreadSanitizer."""
    install(session, wheel(session, "sanitize"), *group("test"))
    # The interpreter is not instrumented, so the run-time libraries have to be in the process before it starts; and
    # libstdc++ with them, else AddressSanitizer does not find the __cxa_throw that ONNX Runtime's exceptions need.
    names = ("libasan.so", "libubsan.so", "libstdc++.so.6")
    runtimes = [subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip() for name in names]
    env = {
        "LD_PRELOAD": " ".join(runtimes),
        # CPython keeps objects to the end by design, so no leak check; and plain malloc, so that overruns are seen.
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "ORTWIN_BUILD": "sanitize",  # tests marked nosanitize are skipped, with their reason
    }
    # Capturing only in Python leaves standard error to the report that a sanitizer writes as it ends the process.
    session.run("pytest", "--capture=sys", *session.posargs, env=env)

    install(session, wheel(session, "tsan"))
    runtimes = [subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip() for name in TSAN]
    env = {
        "LD_PRELOAD": " ".join(runtimes),
        # The interpreter's locks are pthreads', which are seen; what is reported of others is named in that file.
        "TSAN_OPTIONS": f"exitcode=66:print_suppressions=0:suppressions={ROOT / 'csrc' / 'tsan.supp'}",
        "ORTWIN_BUILD": "tsan",
    }
    session.run("pytest", "--capture=sys", "-m", "stress", env=env)


@nox.session
def long(session: nox.Session) -> None:
    """Run the tests that are too long for every day: each length with each number of threads and instruction set."""
    install(session, wheel(session), *group("test"))
    session.run("pytest", "-m", "long", *session.posargs, env={"ORTWIN_LONG": "1"})


@nox.session
def compiled(session: nox.Session) -> None:
    """Compare the compiled reference with the interpreted one: the same digest for every case."""
    install(session, wheel(session))
    second = Path(session.create_tmp()) / "interpreted"  # an environment, as a compiled module hides its source
    session.run("python", "-m", "venv", "--clear", str(second))
    interpreter = str(second / "bin" / "python")
    session.run(interpreter, "-m", "pip", "install", "-q", str(wheel(session, "interpreted")), external=True)

    def digests(python: str, suffix: str) -> list[str]:
        right = f"import ortwin.ref.binary32 as b; assert b.__file__.endswith({suffix!r}), b.__file__"
        session.run(python, "-c", right, external=True)
        lines = session.run(python, "-m", "ortwin.conformance.digests", external=True, silent=True, stderr=None)
        return str(lines).splitlines()

    ours, theirs = digests("python", ".so"), digests(interpreter, ".py")
    if not ours:
        session.error("ortwin.conformance.digests printed no case.")
    if ours != theirs:
        lines = difflib.unified_diff(ours, theirs, "compiled", "interpreted", lineterm="", n=0)
        session.error("The compiled and the interpreted reference differ:\n" + "\n".join(lines))
    session.log(f"The compiled and the interpreted reference agree on all {len(ours)} cases.")


ARMS = [  # of ortwin conform, all that are held to the reference
    *("ref", "ref:interpreted"),
    *(f"{kind}:{isa}" for kind in ("fast", "ep") for isa in ("avx512", "avx2", "portable")),
]


@nox.session
@nox.parametrize("arm", ARMS, ids=ARMS)
def conformance(session: nox.Session, arm: str) -> None:
    """Hold an arm to the reference's bits; arguments after -- go to ortwin conform, such as --level full, or --arm."""
    install(session, wheel(session), extras="ort,conform")
    session.run("ortwin", "conform", "--arm", arm, *session.posargs)


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Recompute certificates over all 2^32 inputs: nox -s exhaustive -- OPS (default all; options of ortwin verify)."""
    install(session, wheel(session))
    session.run("ortwin", "verify", *session.posargs)


@nox.session
def clang(session: nox.Session) -> None:
    """Run the test-suite on a wheel compiled by clang, where clang is present."""
    if not shutil.which("clang"):
        session.skip("clang is not installed")
    install(session, wheel(session, cc="clang"), *group("test"))
    session.run("pytest", *PARALLEL, *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Break the sources in known ways, one at a time, and see that the test named for each notices; -- NAME chooses."""
    extra = PYPROJECT["project"]["optional-dependencies"]["ort"]
    session.install(*PYPROJECT["build-system"]["requires"], *PYPROJECT["project"]["dependencies"], *extra)
    session.install(*group("test"))
    session.run("python", "tests/mutate.py", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Leave wheel and source distribution in dist/, and see that the source distribution builds the same wheel."""
    session.install("build==1.6.1")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    direct = wheel(session)
    session.run("python", "-m", "build", "--outdir", str(dist), str(ROOT))  # the wheel here is made from the sdist
    (from_sdist,) = dist.glob("*.whl")
    contents = [{item.filename: item.CRC for item in zipfile.ZipFile(file).infolist()} for file in (direct, from_sdist)]
    if contents[0] != contents[1]:
        differing = sorted({name for name, _ in contents[0].items() ^ contents[1].items()})
        session.error("The source distribution builds another wheel; these differ: " + ", ".join(differing))
    install(session, from_sdist)
    session.run("ortwin", "--help")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the standard grid against ONNX Runtime, with the published peer plugin beside; or what -- names."""
    install(session, wheel(session))
    peer: list[str] = []
    try:
        session.install(PEER)
        where = session.run("python", "-c", "import nxrt_ep_cpu as p; print(p.get_library_path())", silent=True)
        peer = ["--arm", f"peer={str(where).strip()}"]
    except nox.command.CommandFailed:
        session.warn(f"{PEER} can't be installed: no arm for the peer.")
    session.run("ortwin", "bench", *peer, *session.posargs)


@nox.session
def regress(session: nox.Session) -> None:
    """Compare the C library of commit BASE with this tree's: nox -s regress -- BASE [cells, as for ortwin bench]."""
    if not session.posargs:
        session.error("A commit to compare with is needed: nox -s regress -- BASE")
    base, *cells = session.posargs
    install(session, wheel(session))
    tree = Path(session.create_tmp()).resolve() / "base"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    archive = tree / "base.tar"
    session.run("git", "archive", f"--output={archive}", base, "csrc", "pyproject.toml", external=True)
    session.run("tar", "-xf", str(archive), "-C", str(tree), external=True)
    library = tree / "libortwin.so"  # compiled as its own commit says
    session.run("python", "tests/builds.py", str(tree), str(library))
    head = session.run("python", "-c", "import ortwin.fast as f; print(f.library_path())", silent=True)
    session.run("python", "-m", "ortwin.conformance.bench.regress", str(library), str(head).strip(), *cells)

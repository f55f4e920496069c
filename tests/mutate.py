"""Breaks the sources in known ways, one at a time, and sees that the test named for each notices: `nox -s mutants`.

mutants.toml lists them. Each is a text that occurs once in a file, and what takes its place. A mutant is killed when
the test named for it fails or ends by a signal; it survives when that test passes, and then the test proves less than
it says. The reference is not compiled for this, as that would take most of the time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "__pycache__")


@dataclass(frozen=True)
class Mutant:
    """In `file`, `old` becomes `new`; `killed_by` is a test as pytest names it; `what` is said to people."""

    name: str
    what: str
    file: str
    old: str
    new: str
    killed_by: str

    def apply(self, tree: Path) -> None:
        """Changes the file under tree. ValueError unless the text occurs exactly once."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"mutant {self.name}: its text occurs {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """verdict: killed, survived, or broken, when nothing could be learnt; seconds for build and test."""

    mutant: Mutant
    verdict: str
    seconds: float
    output: str


def read() -> list[Mutant]:
    """All mutants of mutants.toml."""
    document = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(**entry) for entry in document["mutant"]]


def build(folder: Path, mutants: Sequence[Mutant]) -> Path:
    """An import path below folder that holds the package with these mutations; CalledProcessError if it won't build."""
    tree, site = folder / "tree", folder / "site"
    shutil.copytree(ROOT, tree, ignore=NOT_SOURCES)
    for mutant in mutants:
        mutant.apply(tree)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    for command in (
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(tree)],
        [*pip, "install", "--no-deps", "--no-index", "--find-links", str(wheels), "--target", str(site), "ortwin"],
    ):
        environment = os.environ | {"ORTWIN_BUILD": "interpreted"}
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    return site


def run_tests(site: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """pytest on the package at site."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    path = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "ORTWIN_TREE": str(site.parent / "tree")}
    return subprocess.run(command, cwd=ROOT, env=os.environ | path, capture_output=True, text=True)


def try_mutant(mutant: Mutant) -> Outcome:
    """Builds it and runs its test."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run_tests(build(Path(folder), [mutant]), [mutant.killed_by])
            verdict = {0: "survived", 1: "killed"}.get(done.returncode, "broken")
            if done.returncode < 0:  # by a signal, such as of a NULL that was followed
                verdict = "killed"
            output = done.stdout + done.stderr
        except subprocess.CalledProcessError as error:
            verdict, output = "broken", f"{error.stdout}{error.stderr}"
        except ValueError as error:
            verdict, output = "broken", str(error)
    return Outcome(mutant, verdict, time.monotonic() - start, output)


def main() -> int:
    """0 if every mutant chosen was killed."""
    mutants = {mutant.name: mutant for mutant in read()}
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("name", nargs="*", help="mutants (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (default: CPUs)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.name if name not in mutants]
    if unknown:
        parser.error(f"there is no mutant {unknown[0]}; there are {', '.join(mutants)}")
    chosen = [mutants[name] for name in arguments.name or mutants]
    console = Console()

    console.print("without a mutation, all of their tests pass: ", end="")
    with tempfile.TemporaryDirectory() as folder:
        sound = run_tests(build(Path(folder), []), sorted({mutant.killed_by for mutant in chosen}))
    console.print("no" if sound.returncode else "yes")
    if sound.returncode:
        console.print(sound.stdout + sound.stderr, markup=False)
        return 1

    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for outcome in pool.map(try_mutant, chosen):
            outcomes.append(outcome)
            console.print(f"{len(outcomes)}/{len(chosen)} {outcome.mutant.name}: {outcome.verdict}", highlight=False)
            if outcome.verdict == "broken":
                console.print(outcome.output[-3000:], markup=False)
    table = Table("mutant", "what is broken", "the test that must notice", "verdict", "s")
    for o in outcomes:
        table.add_row(o.mutant.name, o.mutant.what, o.mutant.killed_by, o.verdict, f"{o.seconds:.0f}")
    console.print(table)
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    console.print(f"killed {killed} of {len(outcomes)}")
    return 0 if killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

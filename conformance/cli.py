"""The `ortwin` command: run, check, explain, ops, conform, bench, sweep, certify, verify, sums, numerics.

Exit codes: 0 done, 1 a difference was found, 2 the request can't be met (one sentence on stderr says why).
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ortwin.conformance import check, explain, ops, run, sums
from ortwin.conformance.bench import command as bench
from ortwin.conformance.conform import command as conform
from ortwin.conformance.ortvalues import sentence
from ortwin.conformance.sweep import command as sweep
from ortwin.conformance.sweep import page, verify
from ortwin.fast.library import default_library
from ortwin.fast.ort import LEVELS
from ortwin.ref.errors import OrtwinError


class UsageError(OrtwinError):
    """The command line can't be understood."""


class OutputError(OrtwinError):
    """There is nowhere to write results to."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are exceptions, for main to say in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help shows what there is)")


class Pairs(argparse.Action):
    """Collects NAME=VALUE options in a dict; a name given twice is an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        name, equals, text = str(values).partition("=") if self.dest == "input" else str(values).rpartition("=")
        pairs = dict(getattr(namespace, self.dest))
        if not equals or not name or not text:
            parser.error(f"{option} needs {self.metavar}, not '{values}'")
        if name in pairs:
            parser.error(f"{option} names '{name}' twice")
        if self.dest == "dim" and not (text.isdecimal() and len(text) < 19):  # below 2^63 anyway
            parser.error(f"{option} {name} must be a size, not '{text:.40}'")
        pairs[name] = int(text) if self.dest == "dim" else text
        setattr(namespace, self.dest, pairs)


def threads(text: str) -> int:
    """A number of threads."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"must be 1 to 1024, not '{text}'")
    return int(text)


def parser() -> Parser:
    """The command line."""
    top = Parser(prog="ortwin", description="Exact ONNX inference on the CPU, and the checks that prove it.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, module: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=str(module.__doc__).split("\n\n")[0])
        made.set_defaults(function=module.command)
        made.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
        return made

    def add_model(made: argparse.ArgumentParser) -> None:
        made.add_argument("model", metavar="MODEL", help="path of an ONNX model")

    def add_inputs(made: argparse.ArgumentParser) -> None:
        add_model(made)
        made.add_argument("--threads", type=threads, metavar="N", help="threads to use (default 1)")
        made.add_argument("--isa", metavar="NAME", help="avx512, avx2 or portable (default: the widest available)")
        made.add_argument(
            "--input", action=Pairs, default={}, metavar="NAME=FILE.npy", help="an input; others come from the seed"
        )
        made.add_argument(
            "--dim", action=Pairs, default={}, metavar="NAME=N", help="size of a symbolic dimension (default 1)"
        )
        made.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs not given (default 0)")

    def add_level(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--graph-optimization",
            choices=list(LEVELS),
            default="as-written",
            metavar="LEVEL",
            help=f"of ONNX Runtime: {', '.join(LEVELS)} (default as-written)",
        )

    made = add("run", run, "run a model and show its outputs")
    add_inputs(made)
    made.add_argument("--backend", choices=run.BACKENDS, default="fast", help="what computes (default fast)")
    made = add("check", check, "run a model in ONNX Runtime and compare each node of the provider, bit for bit")
    add_inputs(made)
    add_level(made)
    made = add("explain", explain, "show which nodes the provider claims, and why not the others")
    add_inputs(made)
    add_level(made)
    made.add_argument("--run", action="store_true", help="run the model once, and count the nodes that were executed")
    add("ops", ops, "list what is executed")
    made = add("conform", conform, "run cases made to break kernels on every backend, or on somebody else's provider")
    conform.add_options(made)
    bench.add_parser(commands)
    sweep.add_parsers(commands, Pairs)
    verify.add_parser(commands)
    sums.add_parser(commands)
    page.add_parser(commands)
    top.add_argument("--version", action="store_true", help="print the version of the C library")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)

    def command() -> int:
        if arguments == ["--version"]:
            print(f"ortwin {default_library().version()}")
            return 0
        args = parser().parse_args(arguments)
        args.words = arguments
        code: int = args.function(args)
        return code

    return guard(command)


def guard(command: Callable[[], int]) -> int:
    """The command's exit code; for an error that the user can mend its sentence on stderr, and 2."""
    try:
        if sys.stdout is None:
            raise OutputError("standard output is closed")
        code = command()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough; the interpreter must not find that out again at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if _expected(error):
            print(f"ortwin: {_sentence(error)}", file=sys.stderr)
        else:  # a fault of this program: everything there is to know, and not the code of a difference
            traceback.print_exc()
        return 2


def _expected(error: Exception) -> bool:
    """Whether the user's request is at fault: our own errors, the operating system's, and those of ONNX Runtime, which
    share no base class."""
    return isinstance(error, OrtwinError | OSError | MemoryError) or type(error).__module__.startswith("onnxruntime")


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f" '{error.filename}'" if error.filename else ""
        return f"can't use{where}: {error.strerror}" if where else error.strerror
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}"
    return sentence(error)


if __name__ == "__main__":
    sys.exit(main())

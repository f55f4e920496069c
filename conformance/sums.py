"""`ortwin sums`: how MatMul and Gemm compare with ONNX Runtime's CPU provider and with plugins: how often the bits are
the same, and how far each is from the exact sums.

What is measured depends on the machine, so it is kept in a file with its versions, from which docs/numerics.md is made.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
import onnx.numpy_helper

from ortwin.conformance import markdown, plugins
from ortwin.conformance.ortvalues import sentence
from ortwin.conformance.sweep.arms import ORT, check, file_digest, host, label
from ortwin.conformance.tables import progress, say, table, write_json
from ortwin.fast.ort import onnxruntime
from ortwin.fast.session import Session
from ortwin.ref.errors import OrtwinError
from ortwin.ref.tensor import FLOAT

Floats = npt.NDArray[np.float32]

RESULTS: Final = Path(__file__).resolve().parent / "sums.json"
"""What was measured, shipped with the package."""

DEPTHS: Final = (300, 2048, 4096)
HEIGHTS: Final = (1, 4, 32, 128)
WIDTH: Final = 96
SEED: Final = 7


class SumsError(OrtwinError):
    """The file holds no results, or an arm does not run a product."""


@dataclass(frozen=True)
class Product:
    """A product of M rows and K terms a sum. transposed: Gemm with transB, else MatMul; constant: B is one."""

    m: int
    k: int
    constant: bool
    transposed: bool

    @property
    def form(self) -> str:
        """MatMul or Gemm, and what B is."""
        return f"{'Gemm transB' if self.transposed else 'MatMul'}, B {'constant' if self.constant else 'at run time'}"

    def operands(self) -> tuple[Floats, Floats]:
        """A [M, K] and B [K, N], standard normal. Row i of A and all of B are the same for every M."""
        rng = np.random.default_rng([SEED, self.k])
        b = rng.standard_normal((self.k, WIDTH)).astype(np.float32)
        return rng.standard_normal((max(HEIGHTS), self.k)).astype(np.float32)[: self.m], b

    def model(self, b: Floats) -> onnx.ModelProto:
        """Input a, and input b unless it is constant; output y."""
        stored = np.ascontiguousarray(b.T if self.transposed else b)
        node = onnx.helper.make_node("Gemm" if self.transposed else "MatMul", ["a", "b"], ["y"])
        if self.transposed:
            node.attribute.append(onnx.helper.make_attribute("transB", 1))
        inputs = [onnx.helper.make_tensor_value_info("a", FLOAT, [self.m, self.k])]
        if not self.constant:
            inputs.append(onnx.helper.make_tensor_value_info("b", FLOAT, stored.shape))
        output = onnx.helper.make_tensor_value_info("y", FLOAT, [self.m, WIDTH])
        constants = [onnx.numpy_helper.from_array(stored, "b")] if self.constant else []
        graph = onnx.helper.make_graph([node], "sums", inputs, [output], constants)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


PRODUCTS: Final = [
    Product(m, k, constant, transposed)
    for k, transposed, constant, m in itertools.product(DEPTHS, (False, True), (True, False), HEIGHTS)
]


@dataclass(frozen=True)
class Row:
    """What one arm gave on one product. same: results with the bits of ours; mean, largest: distance from the exact
    sums, in units of 2^-24 times the sum of the terms' magnitudes."""

    product: Product
    arm: str
    same: int
    mean: float
    largest: float


@dataclass(frozen=True)
class Results:
    """versions: what each foreign arm was; host: the widest instruction set of ours on that machine."""

    host: str
    versions: Mapping[str, str]
    rows: Sequence[Row]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        rows = [
            {**row.product.__dict__, **{k: v for k, v in row.__dict__.items() if k != "product"}} for row in self.rows
        ]
        return {"host": self.host, "versions": dict(self.versions), "width": WIDTH, "rows": rows}

    def text(self) -> str:
        """JSON, a row a line."""
        made = self.as_json()
        lines = ",\n".join("  " + json.dumps(row) for row in made.pop("rows"))
        head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in made.items())
        return f'{{\n{head} "rows": [\n{lines}\n ]\n}}\n'


def read(path: Path) -> Results:
    """A results file. SumsError if it is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
        rows = []
        for row in data["rows"]:
            product = Product(*(row.pop(key) for key in ("m", "k", "constant", "transposed")))
            rows.append(Row(product, **row))
        return Results(str(data["host"]), dict(data["versions"]), rows)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SumsError(f"{path} holds no results: {error}") from error


def runner(name: str, product: Product, b: Floats) -> Callable[[Floats], Floats]:
    """y from a on the arm of a name: ours, ort-cpu, or NAME=PATH of a plugin. SumsError if the arm does not run it."""
    model = product.model(b)
    feeds = {} if product.constant else {"b": np.ascontiguousarray(b.T if product.transposed else b)}
    if name == "ours":
        session: Any = Session(model)
    else:
        arm, _, path = name.partition("=")
        try:
            data = model.SerializeToString()
            session = (
                plugins.plugin_session(plugins.load(arm, path), data, 1)
                if path
                else plugins.cpu_session(data, 1, "as-written")
            )
        except OrtwinError:
            raise
        except Exception as error:  # whatever a provider raises says why it has no such product
            raise SumsError(f"{arm} does not run {product.form}: {sentence(error)[:200]}") from error
    return lambda a: np.asarray(session.run(None, {"a": a, **feeds})[0])


def measure(names: Sequence[str], products: Sequence[Product] = PRODUCTS) -> Results:
    """Runs every product on our kernels and on the arms of these names."""
    for name in names:
        if name != ORT and "=" not in name:
            raise SumsError(f"'{name}' is no arm: choose {ORT} or NAME=PATH")
    check(names)
    rows = []
    for product in progress(products, "sums"):
        a, b = product.operands()
        with np.errstate(all="ignore"):
            exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
            unit = (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)) * 2.0**-24
        ours = runner("ours", product, b)(a)
        for name in ("ours", *names):
            y = ours if name == "ours" else runner(name, product, b)(a)
            error = np.abs((y - exact) / unit).astype(np.float64)
            same = int(np.count_nonzero(y.view(np.uint32) == ours.view(np.uint32)))
            rows.append(Row(product, label(name), same, _short(error.mean()), _short(error.max())))
    return Results(host(), {label(name): _version(name) for name in names}, rows)


def _short(value: Any) -> float:
    return float(f"{float(value):.3g}")


def _version(name: str) -> str:
    ort = f"onnxruntime {onnxruntime().__version__}"
    return ort if name == ORT else f"{label(name)} {file_digest(Path(name.partition('=')[2]))} in {ort}"


# Command


def add_parser(commands: Any) -> None:
    """Adds sums to an argparse subparsers object."""
    made = commands.add_parser("sums", help="compare MatMul and Gemm with other providers: same bits, and errors")
    made.add_argument("--arm", action="append", default=[], metavar="A", help="ort-cpu (default), or NAME=PATH")
    made.add_argument("--write", action="store_true", help=f"keep the results in {RESULTS.name}, for docs/numerics.md")
    made.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    made.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Runs the command."""
    found = measure(args.arm or [ORT])
    if args.write:
        RESULTS.write_text(found.text(), "utf-8")
    if args.json:
        write_json(found.as_json())
        return 0
    columns = ["product", "M", "K", "arm", "same bits", "mean error", "largest"]
    rows = (
        [row.product.form, row.product.m, row.product.k, row.arm, share(row), f"{row.mean:g}", f"{row.largest:g}"]
        for row in found.rows
    )
    table("Sums", columns, rows, right=columns[1:3] + columns[4:])
    say("Errors are in units of 2^-24 times the sum of the terms' magnitudes.")
    return 0


def share(row: Row) -> str:
    """Same bits of how many."""
    return f"{row.same / (row.product.m * WIDTH):.1%}"


# The page


def section(results: Results) -> Iterator[str]:
    """The part of docs/numerics.md on sums."""
    foreign = list(results.versions)
    by = {(row.product, row.arm): row for row in results.rows}
    yield from ("## Sums of products", "")
    yield from markdown.prose(
        f"""MatMul and Gemm with B of {WIDTH} columns, A and B standard normal, one thread, on a machine with
        {results.host}: how many results have the bits of ours, which are those of the reference (C6). Ours are the
        same for every M, for a constant B and one at run time, and for both orders of B."""
    )
    forms = list(dict.fromkeys((row.product.form, row.product.m) for row in results.rows))
    depths = list(dict.fromkeys(row.product.k for row in results.rows))
    rows = []
    for form, m in forms:
        alike = {p.k: p for p, arm in by if (p.form, p.m) == (form, m)}
        rows.append([form, str(m), *(share(by[alike[k], arm]) for arm in foreign for k in depths)])
    yield from markdown.table(["product", "M", *(f"{arm}, K = {k}" for arm in foreign for k in depths)], rows, 1)
    yield from markdown.prose(
        """How far the results are from the exact sums, in units of 2^-24 times the sum of the terms' magnitudes: the
        mean, and the largest, over all products of a K."""
    )
    rows = []
    for k in depths:
        for arm in ("ours", *foreign):
            own = [row for row in results.rows if (row.product.k, row.arm) == (k, arm)]
            mean = sum(row.mean * row.product.m for row in own) / sum(row.product.m for row in own)
            rows.append([str(k), arm, f"{mean:.3g}", f"{max(row.largest for row in own):.3g}"])
    yield from markdown.table(["K", "arm", "mean", "largest"], rows, 2)
    yield from (f"{arm}: {version}." for arm, version in results.versions.items())
    yield ""

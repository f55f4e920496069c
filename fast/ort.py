"""ONNX Runtime with the execution provider: registration and sessions.

onnxruntime is an extra (`pip install ortwin[ort]`); it is imported when first needed.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

import onnx

from ortwin.fast.library import LibraryError, library_path
from ortwin.ref.errors import OrtwinError, UnsupportedError
from ortwin.ref.fenv import DefaultEnvironment
from ortwin.ref.graph import Model

LEVELS: Final = {
    "as-written": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}

VENDOR: Final = "ortwin"  # what the library's factory says
_libraries: Final[dict[str, Path]] = {}
_sessions: Final[dict[str, weakref.WeakSet[Any]]] = {}


def onnxruntime() -> Any:
    """The onnxruntime module. OrtwinError if it is not installed or older than 1.24."""
    try:
        import onnxruntime as module
    except ImportError as error:
        raise OrtwinError("onnxruntime is not installed: pip install ortwin[ort]") from error
    version = tuple(int(part) for part in module.__version__.split(".")[:2])
    if version < (1, 24):
        raise OrtwinError(f"onnxruntime {module.__version__} is too old: 1.24 or newer is needed")
    return module


def register(name: str = "ortwin", library: str | os.PathLike[str] | None = None) -> None:
    """Registers the library with ONNX Runtime, in this process, as an execution provider called `name`.

    library: another build's path; two builds can be registered under two names. A name that stands for the same
    library already, however it was registered, is left as it is; if it stands for another, that is a LibraryError.
    """
    path = Path(library).resolve() if library is not None else library_path()
    taken = _providers()
    if name in taken:
        if taken[name] not in (path, None):
            raise LibraryError(f"the name '{name}' is registered for {taken[name]}")
        return
    if not name or "\0" in name:
        raise LibraryError(f"{name!r} is no name for a provider")
    if not path.is_file():
        raise LibraryError(f"there is no library {path}")
    onnxruntime().register_execution_provider_library(name, str(path))
    _libraries[name] = path


def unregister(name: str = "ortwin") -> None:
    """Unregisters the provider. LibraryError while sessions of ort_session live; others must be deleted as well, since
    ONNX Runtime unloads the library under them."""
    if name not in _providers():
        raise LibraryError(f"no provider is registered as '{name}'")
    alive = len(_sessions.get(name, ()))
    if alive:
        raise LibraryError(f"{alive} session(s) of '{name}' still exist: delete them first")
    onnxruntime().unregister_execution_provider_library(name)


def _providers() -> dict[str, Path | None]:
    """The providers of ours that ONNX Runtime knows, with their libraries: before 1.25 it does not tell which, and None
    stands for one that was not registered here."""
    found: dict[str, Path | None] = {}
    for device in onnxruntime().get_ep_devices():
        if device.ep_vendor == VENDOR:
            told = device.ep_metadata.get("library_path")
            found[device.ep_name] = Path(told).resolve() if told else _libraries.get(device.ep_name)
    return found


def ort_session(
    model: Model,
    *,
    threads: int = 1,
    isa: str | None = None,
    cpu_fallback: bool = False,
    graph_optimization: str = "as-written",
    name: str = "ortwin",
    report: str | os.PathLike[str] | None = None,
    group: str = "graph",
    nbits_level: int = 4,
    session_options: Any = None,
    **session_config: str,
) -> Any:
    """An ordinary onnxruntime.InferenceSession whose nodes are executed by this provider.

    model: a path, the bytes of a model, or an onnx.ModelProto. threads: intra_op_num_threads of the session and the
    provider's budget in the session's pool; 0: ONNX Runtime's default, a thread per physical core. isa: as for
    ortwin.fast.Session. cpu_fallback: False makes a node that the provider declines an error; True leaves it to
    ONNX Runtime's CPU provider. graph_optimization: "as-written" switches ONNX Runtime's optimiser off, which would
    fold constants and fuse nodes with kernels that round differently; else "basic", "extended", "layout" or "all".
    name: of the provider, registered here if it is not yet. report: a file that gets one JSON line per node
    offered: claimed or the rule that declined it. group: "graph" claims the largest groups of nodes that ONNX Runtime
    can run as one, "node" each node by itself. nbits_level: as for ortwin.fast.Session. session_options: an
    onnxruntime.SessionOptions to start from. session_config: further session configuration entries, such as
    **{"session.set_denormal_as_zero": "1"} (which does not change this provider's results, C4).

    InferenceSession.run takes and returns no bfloat16; run_with_ort_values and run_with_iobinding do, and
    ortwin.conformance.ortvalues.run, which makes arrays of ml_dtypes.bfloat16 of it.

    OrtwinError: onnxruntime is missing or too old; LibraryError: a bad argument; UnsupportedError: without
    cpu_fallback, a node was declined (the message names nodes and rules). Other errors of ONNX Runtime are passed on
    as they are; those about isa and report quote the provider's sentence.
    """
    ort = onnxruntime()
    if graph_optimization not in LEVELS:
        raise LibraryError(f"graph_optimization '{graph_optimization}' is unknown: choose {', '.join(LEVELS)}")
    threads = operator.index(threads)
    if not 0 <= threads <= 1024:
        raise LibraryError(f"threads must be 0 to 1024, not {threads}")
    if name not in _providers():
        register(name)
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise LibraryError(f"ONNX Runtime lists no CPU device for '{name}'")
    options = ort.SessionOptions() if session_options is None else session_options
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[graph_optimization])
    options.intra_op_num_threads = threads
    entries = {
        "session.disable_cpu_ep_fallback": "0" if cpu_fallback else "1",
        "session.record_ep_graph_assignment_info": "1",
        **session_config,
    }
    if group not in ("graph", "node"):
        raise LibraryError(f"group '{group}' is unknown: choose graph or node")
    nbits_level = operator.index(nbits_level)
    if not 0 <= nbits_level <= 4:
        raise LibraryError(f"nbits_level must be 0 to 4, not {nbits_level}")
    provider = {"threads": str(threads), "group": group, "nbits_level": str(nbits_level)}
    if isa is not None:
        provider["isa"] = isa
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        told = Path(report) if report is not None else Path(scratch, "report.jsonl")
        with contextlib.suppress(OSError):  # ONNX Runtime's error will quote what is wrong with the path
            told.unlink(missing_ok=True)  # what an earlier session left there says nothing of this one
        if report is not None or not cpu_fallback:
            provider["report"] = str(told)
        options.add_provider_for_devices(devices, provider)
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        try:
            # set_denormal_as_zero leaves flush-to-zero set on the thread that makes the session: it is undone here
            with DefaultEnvironment():
                session = ort.InferenceSession(_source(model), options, enable_fallback=False)
            _sessions.setdefault(name, weakref.WeakSet()).add(session)
            return session
        except Exception as error:  # ONNX Runtime's exceptions share no other base
            declined = [] if cpu_fallback else _declined(told)
            if not declined:
                raise
            more = f"; and {len(declined) - 3} more" if len(declined) > 3 else ""
            raise UnsupportedError(
                f"{'; '.join(declined[:3])}{more} (cpu_fallback=True leaves what is declined to ONNX Runtime)"
            ) from error


def _declined(report: Path) -> list[str]:
    """The nodes that a report says were declined, each with the rule."""
    if not report.is_file():
        return []
    offers = [json.loads(line) for line in report.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [f"node '{offer['node']}' ({offer['op']}): {offer['reason']}" for offer in offers if not offer["claimed"]]


def _source(model: Model) -> str | bytes:
    if isinstance(model, onnx.ModelProto):
        return bytes(model.SerializeToString())
    return model if isinstance(model, bytes) else os.fspath(model)

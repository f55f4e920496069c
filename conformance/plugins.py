"""Sessions of ONNX Runtime by provider: its own CPU provider, builds of ours, and anybody else's plugin by path."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortwin.conformance.ortvalues import quiet_options
from ortwin.fast.library import Library, LibraryError
from ortwin.fast.ort import LEVELS, onnxruntime, ort_session, register


@dataclass(frozen=True)
class Plugin:
    """A registered provider library. library: its counters and version, when it is a build of ours; else None."""

    name: str
    path: Path
    ep_name: str
    library: Library | None


_loaded: dict[str, Plugin] = {}


def load(name: str, path: str | Path) -> Plugin:
    """Registers the plugin at path under a name, once. LibraryError if it can't be, or offers no CPU device."""
    path = Path(path).resolve()
    if name in _loaded:
        if _loaded[name].path != path:
            raise LibraryError(f"the name '{name}' stands for {_loaded[name].path} already")
        return _loaded[name]
    if not path.is_file():
        raise LibraryError(f"there is no library {path}")
    ort = onnxruntime()
    before = {device.ep_name for device in ort.get_ep_devices()}
    ours = hasattr(ctypes.CDLL(str(path)), "ortwin_version")
    if ours:
        register(name, path)
        found = [name]
    else:  # a foreign plugin may call its provider what it likes
        ort.register_execution_provider_library(name, str(path))
        found = sorted({device.ep_name for device in ort.get_ep_devices()} - before)
    if not found:
        raise LibraryError(f"the plugin {path} offers no new provider on this machine")
    _loaded[name] = Plugin(name, path, found[0], Library(path) if ours else None)
    return _loaded[name]


def plugin_session(plugin: Plugin, model: bytes, threads: int, isa: str | None = None) -> Any:
    """A session in which only this provider executes nodes; ONNX Runtime's exceptions where it can't."""
    if plugin.library is not None:
        return ort_session(model, threads=threads, isa=isa, name=plugin.name, session_options=quiet_options())
    ort = onnxruntime()
    options = _options(threads, "as-written")
    options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == plugin.ep_name], {})
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return ort.InferenceSession(model, options)


def cpu_session(model: bytes, threads: int, graph_optimization: str = "all") -> Any:
    """A session of ONNX Runtime's own CPU provider."""
    return onnxruntime().InferenceSession(
        model, _options(threads, graph_optimization), providers=["CPUExecutionProvider"]
    )


def assigned_nodes(session: Any) -> list[tuple[str, str, str]]:
    """(provider, node name, op) of every node, from ONNX Runtime's own record."""
    return [
        (group.ep_name, node.name, node.op_type)
        for group in session.get_provider_graph_assignment_info()
        for node in group.get_nodes()
    ]


def _options(threads: int, graph_optimization: str) -> Any:
    ort = onnxruntime()
    options = quiet_options()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[graph_optimization])
    return options

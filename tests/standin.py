"""A stand-in for ONNX Runtime: the real one behind a table of our own, which counts, refuses, hides and forgets.

It is a plugin library made for the tests. ONNX Runtime loads it as it would load the provider, and it loads the
provider with an API table in which every function that abi.h declares goes through a hook. All their arguments are
integers or pointers, at most six, so one kind of hook fits all.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builds import ROOT

ABI_H = ROOT / "csrc" / "ort" / "abi.h"
SILENT = {"ReleaseStatus", "ReleaseTensorTypeAndShapeInfo", "GetKeyValuePairs", "ReleaseKeyValuePairs"}
VALUES = {
    "HardwareDevice_Type",
    "GetEpApi",
    "TensorTypeAndShape_HasShape",
    "CreateStatus",
    "GetErrorCode",
    "GetErrorMessage",
}
"""Functions that return no status, and so can't refuse."""

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void *any;
typedef any hook(any, any, any, any, any, any);
typedef struct base { any *(*get_api)(uint32_t); const char *(*version)(void); } base;

enum { SLOTS = 500, EP = 1000, ALL = 1100 };  /* functions of the second table are numbered from EP on */
static hook *real[ALL];
static any table[SLOTS], ep_table[100];
static long calls[ALL], refusals[ALL];
static int refusable[ALL], hidden[SLOTS];
static long refuse_slot = -1, refuse_at, refuse_any, forget_slot = -1, forget_argument;
static uint32_t newest = 99;
static const base *host;
static base ours;
static char provider[4096];

void standin_reset(void) {
    refuse_slot = forget_slot = -1;
    refuse_at = refuse_any = 0;
}
long standin_calls(long slot) { return calls[slot]; }
long standin_refused(long slot) { return refusals[slot]; }
long standin_refusals(void) { long n = 0; for (int k = 0; k < ALL; k++) n += refusals[k]; return n; }
void standin_refuse(long slot, long at) { refuse_slot = slot; refuse_at = at; }
void standin_refuse_any(long at) { refuse_any = at; }
void standin_forget(long slot, long argument) { forget_slot = slot; forget_argument = argument; }
void standin_hide(long slot, int hide) { hidden[slot] = hide; } /* from the next registration on */
void standin_newest(uint32_t version) { newest = version; }
void standin_provider(const char *path) { snprintf(provider, sizeof provider, "%s", path); }

/* Statuses: given to the provider, released by it, and returned by its callbacks, which makes them the host's. */
static long given, released, returned;
long standin_statuses_lost(void) { return given - released - returned; }

static any refuse(long slot) {
    given++;
    refusals[slot]++;
    return ((any(*)(any, any, any, any, any, any))real[0])((any)1, (any) "refused by the stand-in", 0, 0, 0, 0);
}

static any pass(long slot, any a, any b, any c, any d, any e, any f) {
    calls[slot]++;
    if (refusable[slot] && refuse_any && --refuse_any == 0)
        return refuse(slot);
    if (slot == refuse_slot && --refuse_at <= 0)
        return refuse(slot);
    any result = real[slot](a, b, c, d, e, f);
    given += (refusable[slot] || slot == 0) && result;
    released += slot == @RELEASE_STATUS@;
    any arguments[6] = {a, b, c, d, e, f};
    if (slot == forget_slot)
        *(any *)arguments[forget_argument] = 0;
    return result;
}

#define HOOK(slot) \
    static any hook_##slot(any a, any b, any c, any d, any e, any f) { return pass(slot, a, b, c, d, e, f); }
@HOOKS@
static any hook_ep_api(any a, any b, any c, any d, any e, any f) {
    any *api = pass(@GET_EP_API@, a, b, c, d, e, f);
    memcpy(ep_table, api, 78 * sizeof *api);
    @EP@
    return ep_table;
}

static any *get_api(uint32_t version) {
    any *api = version <= newest ? host->get_api(version) : 0;
    if (!api)
        return 0;
    {
        memcpy(table, api, 426 * sizeof *api);
        @API@
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (hidden[slot])
            table[slot] = 0;
    return table;
}
static const char *version(void) { return host->version(); }


static any counted(any status) {
    returned += status != 0;
    return status;
}

/* Callbacks of the provider: member k of a structure is at its k-th word. */
static any (*real_devices)(any, any, size_t, any, size_t, any), (*real_create)(any, any, any, size_t, any, any, any **),
    (*real_capability)(any, any, any), (*real_compile)(any, any, any, size_t, any **, any),
    (*real_compute)(any, any, any);

static any compute(any a, any b, any c) { return counted(real_compute(a, b, c)); }
static any capability(any a, any b, any c) { return counted(real_capability(a, b, c)); }
static any compile(any ep, any graphs, any fused, size_t count, any **infos, any contexts) {
    any status = counted(real_compile(ep, graphs, fused, count, infos, contexts));
    for (size_t k = 0; k < count && !status; k++) {
        *(any *)&real_compute = infos[k][2];
        infos[k][2] = (any)compute;
    }
    return status;
}
static any create_ep(any a, any b, any c, size_t d, any e, any f, any **ep) {
    any status = counted(real_create(a, b, c, d, e, f, ep));
    if (!status) {
        *(any *)&real_capability = (*ep)[2];
        *(any *)&real_compile = (*ep)[3];
        (*ep)[2] = (any)capability;
        (*ep)[3] = (any)compile;
    }
    return status;
}
static any devices(any a, any b, size_t c, any d, size_t e, any f) { return counted(real_devices(a, b, c, d, e, f)); }

any CreateEpFactories(const char *name, const base *base, any logger, any factories, size_t room, size_t *count) {
    host = base;
    ours.get_api = get_api;
    ours.version = version;
    any library = dlopen(provider, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    any (*create)(const char *, any, any, any, size_t, size_t *);
    *(any *)&create = dlsym(library, "CreateEpFactories");
    any status = counted(create(name, &ours, logger, factories, room, count));
    if (*count) {
        any *factory = *(any **)factories;
        *(any *)&real_devices = factory[3];
        *(any *)&real_create = factory[4];
        factory[3] = (any)devices;
        factory[4] = (any)create_ep;
    }
    return status;
}
any ReleaseEpFactory(any factory) {
    any library = dlopen(provider, RTLD_NOW | RTLD_LOCAL);
    any (*release)(any);
    *(any *)&release = dlsym(library, "ReleaseEpFactory");
    any status = release(factory);
    dlclose(library);
    dlclose(library);
    return status;
}
"""


def declared(table: str) -> dict[str, int]:
    """Function to slot, as abi.h asserts them."""
    if not ABI_H.exists():
        pytest.skip(f"{ABI_H} is not there: the tests run without the sources")
    return {name: int(slot) for name, slot in re.findall(rf"ABI_SLOT\({table}, (\w+), (\d+)\)", ABI_H.read_text())}


def build(folder: Path) -> Path:
    """Compiles the stand-in."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("the stand-in host needs a C compiler")
    api, ep_api = declared("OrtApi"), declared("OrtEpApi")
    numbers = {**api, **{name: 1000 + slot for name, slot in ep_api.items()}}

    def entry(name: str, to: str) -> str:
        can = int(name not in SILENT | VALUES)
        slot = numbers[name]
        return f"real[{slot}] = (hook *){to}; {to} = (any)hook_{slot}; refusable[{slot}] = {can};"

    lines = [entry(name, f"table[{slot}]") for name, slot in api.items()]
    lines.append(f"table[{api['GetEpApi']}] = (any)hook_ep_api;")
    source = SOURCE.replace("@HOOKS@", "\n".join(f"HOOK({slot})" for slot in numbers.values()))
    source = source.replace("@GET_EP_API@", str(api["GetEpApi"])).replace("@RELEASE_STATUS@", str(api["ReleaseStatus"]))
    source = source.replace("@API@", "\n        ".join(lines))
    ep_lines = [entry(name, f"ep_table[{slot}]") for name, slot in ep_api.items()]
    source = source.replace("@EP@", "\n    ".join(ep_lines))
    path = folder / "standin.c"
    path.write_text(source)
    library = folder / "standin.so"
    command = [compiler, "-O1", "-w", "-shared", "-fPIC", str(path), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library


class StandIn:
    """What the hooks do, by names of functions."""

    def __init__(self, library: Path, provider: Path) -> None:
        self.path = library
        self.slots = {**declared("OrtApi"), **{name: 1000 + slot for name, slot in declared("OrtEpApi").items()}}
        self._dll = ctypes.CDLL(str(library))
        self._dll.standin_calls.restype = ctypes.c_long
        self._dll.standin_refusals.restype = ctypes.c_long
        self._dll.standin_refused.restype = ctypes.c_long
        self._dll.standin_statuses_lost.restype = ctypes.c_long
        self._dll.standin_provider(str(provider).encode())

    def calls(self) -> dict[str, int]:
        """How often each function was called."""
        return {name: int(self._dll.standin_calls(ctypes.c_long(slot))) for name, slot in self.slots.items()}

    def lost(self) -> int:
        """Statuses that the provider was given or made, and neither released nor returned."""
        return int(self._dll.standin_statuses_lost())

    def refused(self, name: str = "") -> int:
        """How often a function was refused, or all of them together."""
        if name:
            return int(self._dll.standin_refused(ctypes.c_long(self.slots[name])))
        return int(self._dll.standin_refusals())

    @contextmanager
    def refusing(self, name: str, at: int = 1) -> Iterator[None]:
        """Every call of a function from the one numbered `at` on returns an error."""
        self._dll.standin_refuse(ctypes.c_long(self.slots[name]), ctypes.c_long(at))
        yield
        self._dll.standin_reset()

    @contextmanager
    def refusing_any(self, at: int) -> Iterator[None]:
        """The call numbered `at`, of whatever function, returns an error."""
        self._dll.standin_refuse_any(ctypes.c_long(at))
        yield
        self._dll.standin_reset()

    @contextmanager
    def forgetting(self, name: str, argument: int) -> Iterator[None]:
        """Calls of a function succeed, but leave NULL where the argument points."""
        self._dll.standin_forget(ctypes.c_long(self.slots[name]), ctypes.c_long(argument))
        yield
        self._dll.standin_reset()

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """The table has NULL in the place of these functions. The provider must be registered anew meanwhile."""
        for name in names:
            self._dll.standin_hide(ctypes.c_long(self.slots[name]), 1)
        yield
        for name in names:
            self._dll.standin_hide(ctypes.c_long(self.slots[name]), 0)

    @contextmanager
    def offering(self, newest: int) -> Iterator[None]:
        """Grants no API version above this one."""
        self._dll.standin_newest(ctypes.c_uint32(newest))
        yield
        self._dll.standin_newest(ctypes.c_uint32(99))

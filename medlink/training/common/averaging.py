"""Average the weights of encoders trained from the same start: the mean is usually better than each of them.

Model soup (Wortsman et al. 2022, section 2, uniform soup), used in BioLORD-2023, section "Weight-averaging phase".
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from medlink.errors import EncoderError, needs_extra
from medlink.files.json import read_json
from medlink.models.encoders import Encoder, check_folder, load_encoder
from medlink.models.file_hashes import HASHES_FILE, write_hashes
from medlink.models.static.encoder import StaticEncoder, is_static, quantise
from medlink.training.common.card import write_card

_SETTINGS = {".json", ".txt", ".model"}
# notes of the libraries on the origin of a folder, and the state of a tokenizer after its last call
_IGNORED_KEYS = {
    "_name_or_path", "transformers_version", "__version__", "dtype", "torch_dtype", "truncation", "padding",
}  # fmt: skip
_RETRAIN = "train or fetch the encoder again"
_SAME_RECIPE = "average runs of one start and recipe"


def average(encoders: Sequence[StaticEncoder]) -> StaticEncoder:
    """Average the weights of static encoders; raise EncoderError if there is none, or if their shapes differ."""
    if not encoders:
        raise EncoderError("no encoders to average", remedy="name two or more")
    first = encoders[0]
    for encoder in encoders[1:]:
        digests = [each.forms and each.forms.digest for each in (encoder, first)]
        if encoder.config != first.config or digests[0] != digests[1]:
            problem = f"encoders of different shapes cannot be averaged: {first.config} and {encoder.config}"
            raise EncoderError(problem, path=encoder.folder, remedy="average runs of one configuration")
    tables = [e.tensors["table"].astype(np.float32) * e.tensors["scale"].astype(np.float32)[:, None] for e in encoders]
    codes, scale = quantise(np.mean(tables, axis=0).astype(np.float32))
    mean = {name: np.mean([e.tensors[name] for e in encoders], axis=0).astype(np.float32) for name in first.tensors}
    return StaticEncoder(first.config, {**mean, "table": codes, "scale": scale}, forms=first.forms)


def soup(folders: Sequence[str | Path], out: str | Path) -> Encoder:
    """Write the mean of the weights of encoders, all static or all transformers, tensor by tensor.

    Args:
        folders: model folders with the same configuration, tokenizer and shape; an output folder of self-distillation
            stands for all encoders in it.
        out: folder of the mean, written atomically.

    Raises:
        ConfigError: ``out`` holds something else.
        EncoderError: a folder holds no encoder, two do not match, a weight is NaN or infinite, or the disk is full.
    """
    with needs_extra("train", "training"):
        from medlink.training.common.run import new_folder

    paths, out = encoder_folders(folders), Path(out).resolve()
    for path in paths:
        if not (path / "modules.json").is_file():
            raise EncoderError("no encoder folder", path=path, remedy="name folders that hold a modules.json")
    kinds = [is_static(path) for path in paths]
    if any(kinds) and not all(kinds):
        problem, path = "a static encoder and a transformer cannot be averaged", paths[kinds.index(not kinds[0])]
        raise EncoderError(problem, path=path, remedy="average encoders of one kind")
    check_folder(out)
    with new_folder(out, "the mean") as draft:
        if all(kinds):
            average([StaticEncoder.load(path) for path in paths]).save(draft)
        else:
            _average_folders(paths, draft)
            write_hashes(draft)
        data = {f"SHA-256 of the weights of encoder {i + 1}": f"`{_digest(path)}`" for i, path in enumerate(paths)}
        write_card(
            draft,
            load_encoder(draft),
            title=f"Mean of {len(paths)} encoders",
            summary="every weight is the mean of the weights of encoders that were trained from one start "
            '(BioLORD-2023, section "Weight-averaging phase"; Wortsman et al. 2022)',
            command="medlink train biolord soup",
            data=data,
        )
    return load_encoder(out)


def encoder_folders(folders: Sequence[str | Path]) -> list[Path]:
    """Return the encoder folders, with each output folder of self-distillation replaced by the encoders in it."""
    paths = list[Path]()
    for folder in map(Path, folders):
        runs = [] if (folder / "modules.json").exists() else sorted(folder.glob("run-*"))
        paths += runs or [folder]
    return paths


def _average_folders(paths: list[Path], out: Path) -> None:
    settings, weights = _read_folder(paths[0])
    for path in paths[1:]:
        others, other_weights = _read_folder(path)
        for name in sorted(settings.keys() | others.keys()):
            if settings.get(name) != others.get(name):
                raise EncoderError(f"{name} differs from that of {paths[0]}", path=path, remedy=_SAME_RECIPE)
        if other_weights != weights:
            remedy = "save both with the same version of sentence-transformers"
            raise EncoderError(f"its files of weights are not those of {paths[0]}", path=path, remedy=remedy)
    for name in [*settings, *weights]:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        if name in settings:
            shutil.copyfile(paths[0] / name, out / name)
        else:
            _average_file([path / name for path in paths], out / name)


def _read_folder(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the content of each file of settings, and the names of the files of weights."""
    try:
        modules = sorted({folder, *(folder / module["path"] for module in read_json(folder / "modules.json"))})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EncoderError(f"modules.json cannot be read: {error}", path=folder, remedy=_RETRAIN) from error
    settings, weights = dict[str, Any](), list[str]()
    for path in (path for module in modules for path in sorted(module.iterdir())):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".safetensors":
            weights.append(name)
        elif path.suffix in _SETTINGS and path.name != HASHES_FILE:
            try:
                content = read_json(path) if path.suffix == ".json" else path.read_bytes()
            except ValueError as error:
                raise EncoderError(f"no JSON: {error}", path=path, remedy=_RETRAIN) from error
            if isinstance(content, dict):
                content = {key: value for key, value in content.items() if key not in _IGNORED_KEYS}
            settings[name] = content
    if not weights:
        remedy = "open it with sentence-transformers and save it again"
        raise EncoderError("no weights in safetensors", path=folder, remedy=remedy)
    return settings, weights


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in _read_folder(folder)[1]:
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _average_file(paths: list[Path], out: Path) -> None:
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    mean: dict[str, Any] = {}
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
            metadata = files[0].metadata()
            names = [set(file.keys()) for file in files]
            for name in sorted(set().union(*names)):
                tensors: list[Any] = [
                    file.get_tensor(name) if name in own else None for file, own in zip(files, names, strict=True)
                ]
                first = tensors[0]
                for path, tensor in zip(paths, tensors, strict=True):
                    problem = ""
                    if _describe(tensor) != _describe(first):
                        problem = f"is {_describe(tensor)}, {_describe(first)} in {paths[0]}"
                    elif tensor is None:
                        continue
                    elif not tensor.is_floating_point() and not torch.equal(tensor, first):
                        problem = f"holds other whole numbers than in {paths[0]}"
                    elif not bool(torch.isfinite(tensor).all()):
                        problem = "holds NaN or infinite weights"
                    if problem:
                        raise EncoderError(f"{name} {problem}", path=path, remedy=_SAME_RECIPE)
                mean[name] = first
                if first.is_floating_point():
                    mean[name] = (sum(tensor.double() for tensor in tensors) / len(tensors)).to(first.dtype)
    except SafetensorError as error:
        raise EncoderError(f"the weights cannot be read: {error}", path=paths[0].parent, remedy=_RETRAIN) from error
    save_file(mean, out, metadata=metadata)


def _describe(tensor: Any) -> str:
    return "missing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"

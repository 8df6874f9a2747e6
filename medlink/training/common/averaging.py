"""Averaging the weights of encoders trained from one start: better than any of them, at the cost of one.

Model soup (Wortsman et al. 2022, section 2, uniform soup), as BioLORD-2023, section "Weight-averaging phase", uses it
on runs that differ in their seed. It works because the runs share their first weights.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from medlink.errors import EncoderError, needs_extra
from medlink.models.encoders import Encoder, check_folder, load_encoder
from medlink.models.static.encoder import StaticEncoder, is_static, quantise
from medlink.training.common.card import write_card

_SETTINGS = {".json", ".txt", ".model"}
# what the libraries note of the way a folder was made, and what a tokenizer keeps of its last call
_PROVENANCE = {"_name_or_path", "transformers_version", "__version__", "dtype", "torch_dtype", "truncation", "padding"}


def average(encoders: Sequence[StaticEncoder]) -> StaticEncoder:
    """Mean of the weights of static encoders, quantised anew.

    Args:
        encoders: at least one; all of one shape.

    Returns:
        An encoder of the same shape.

    Raises:
        EncoderError: there is none, or their shapes differ.
    """
    if not encoders:
        raise EncoderError("no encoders to average")
    first = encoders[0]
    for other in encoders[1:]:
        if other.config != first.config:
            raise EncoderError(
                f"encoders of different shapes cannot be averaged: {first.config} and {other.config}",
                path=other.folder,
                remedy="average runs of one configuration",
            )
    table = np.mean(
        [e.tensors["table"].astype(np.float32) * e.tensors["scale"].astype(np.float32)[:, None] for e in encoders],
        axis=0,
    )
    codes, scale = quantise(table.astype(np.float32))
    others = {
        name: np.mean([e.tensors[name] for e in encoders], axis=0).astype(np.float32)
        for name in first.tensors
        if name not in ("table", "scale")
    }
    return StaticEncoder(first.config, {"table": codes, "scale": scale, **others})


def soup(folders: Sequence[str | Path], out: str | Path) -> Encoder:
    """Write the mean of the weights of encoders, all static or all transformers.

    Memory does not grow with the number of encoders.

    Args:
        folders: at least one model folder, of one configuration, tokenizer and shape; a folder of encoders that
            self-distillation made stands for all of them.
        out: folder of the mean, which appears whole.

    Returns:
        The mean, opened from ``out``.

    Raises:
        ConfigError: ``out`` is in use for something else.
        EncoderError: a folder holds no encoder, two do not match, a weight is NaN or infinite, or the disk is full.

    >>> import tempfile
    >>> from medlink.models.encoders import builtin_folder
    >>> soup([builtin_folder(), builtin_folder()], Path(tempfile.mkdtemp(), "mean")).dimension
    256
    """
    with needs_extra("train", "training"):
        from medlink.training.common.checkpoint import new_folder

    paths, out = encoder_folders(folders), Path(out).resolve()
    if not paths:
        raise EncoderError("no encoders to average")
    for path in paths:
        if not (path / "modules.json").is_file():
            raise EncoderError("no encoder folder", path=path, remedy="name folders that hold a modules.json")
    kinds = [is_static(path) for path in paths]
    if any(kinds) and not all(kinds):
        raise EncoderError(
            "a static encoder and a transformer cannot be averaged",
            path=paths[kinds.index(not kinds[0])],
            remedy="average encoders of one kind",
        )
    check_folder(out)
    with new_folder(out, "the mean") as draft:
        if all(kinds):
            average([StaticEncoder.load(path) for path in paths]).save(draft)
        else:
            _average_folders(paths, draft)
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
    """Folders of encoders, those in a folder that self-distillation made one by one."""
    return [
        one
        for folder in map(Path, folders)
        for one in ([folder] if (folder / "modules.json").exists() else sorted(folder.glob("run-*")) or [folder])
    ]


def _average_folders(paths: list[Path], beside: Path) -> None:
    """Write settings and averaged weights of matching transformers."""
    settings, weights = _settings(paths[0]), _weights(paths[0])
    for path in paths[1:]:
        others = _settings(path)
        for name in sorted(settings.keys() | others.keys()):
            if settings.get(name) != others.get(name):
                raise EncoderError(
                    f"{name} differs from that of {paths[0]}", path=path, remedy="average runs of one start and recipe"
                )
        if _weights(path) != weights:
            raise EncoderError(
                f"its files of weights are not those of {paths[0]}",
                path=path,
                remedy="save both with the same version of sentence-transformers",
            )
    for name in [*settings, *weights]:
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
    for name in settings:
        shutil.copyfile(paths[0] / name, beside / name)
    for name in weights:
        _average_file([path / name for path in paths], beside / name)


def _parts(folder: Path) -> list[Path]:
    """The folder itself and those of its modules."""
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        return sorted({folder, *(folder / module["path"] for module in modules)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EncoderError(f"modules.json cannot be read: {error}", path=folder) from error


def _settings(folder: Path) -> dict[str, Any]:
    """Configuration and tokenizer of a model folder: what decides what its weights mean, by relative path."""
    found: dict[str, Any] = {}
    for path in (path for part in _parts(folder) for path in sorted(part.iterdir()) if path.suffix in _SETTINGS):
        content: Any = path.read_bytes()
        if path.suffix == ".json":
            try:
                content = _stripped(json.loads(content))
            except ValueError as error:
                raise EncoderError(f"no JSON: {error}", path=path) from error
        found[path.relative_to(folder).as_posix()] = content
    return found


def _stripped(content: Any) -> Any:
    """JSON without what does not decide the embeddings."""
    if not isinstance(content, dict):
        return content
    return {key: value for key, value in content.items() if key not in _PROVENANCE}


def _weights(folder: Path) -> list[str]:
    """Files of weights, by relative path."""
    found = [path for part in _parts(folder) for path in sorted(part.glob("*.safetensors"))]
    if not found:
        raise EncoderError(
            "no weights in safetensors", path=folder, remedy="open it with sentence-transformers and save it again"
        )
    return [path.relative_to(folder).as_posix() for path in found]


def _digest(folder: Path) -> str:
    """SHA-256 of the files of weights of an encoder."""
    digest = hashlib.sha256()
    for name in _weights(folder):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _average_file(paths: list[Path], out: Path) -> None:
    """Write the mean of files of weights."""
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    remedy = "average runs of one start and recipe"
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
            shapes = [_shapes(one) for one in opened]
            for path, other in zip(paths, shapes, strict=True):
                for name in sorted(shapes[0].keys() | other.keys()):
                    if shapes[0].get(name) != other.get(name):
                        raise EncoderError(
                            f"{name} is {_words(other.get(name))}, {_words(shapes[0].get(name))} in {paths[0]}",
                            path=path,
                            remedy=remedy,
                        )
            mean: dict[str, Any] = {}
            for name in shapes[0]:
                tensors = [one.get_tensor(name) for one in opened]
                for path, tensor in zip(paths, tensors, strict=True):
                    if not tensor.is_floating_point() and not torch.equal(tensor, tensors[0]):
                        raise EncoderError(
                            f"{name} holds other whole numbers than in {paths[0]}", path=path, remedy=remedy
                        )
                    if not bool(torch.isfinite(tensor).all()):
                        raise EncoderError(f"{name} holds NaN or infinite weights", path=path, remedy="leave it out")
                mean[name] = tensors[0]
                if tensors[0].is_floating_point():
                    mean[name] = (sum(tensor.double() for tensor in tensors) / len(tensors)).to(tensors[0].dtype)
            metadata = opened[0].metadata()
    except SafetensorError as error:
        raise EncoderError(f"the weights cannot be read: {error}", path=paths[0].parent) from error
    save_file(mean, out, metadata=metadata)


def _shapes(opened: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Number type and shape of every tensor of an open file."""
    slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118  # no dictionary
    return {name: (one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}


def _words(shape: tuple[str, tuple[int, ...]] | None) -> str:
    """Number type and shape for an error."""
    return "missing" if shape is None else f"{shape[0]} {shape[1]}"

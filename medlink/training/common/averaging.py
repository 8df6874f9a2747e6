"""Averaging the weights of encoders trained from one start: better than any of them, at the cost of one.

Model soup (Wortsman et al. 2022, section 2, uniform soup), as BioLORD-2023, section "Weight-averaging phase", uses it
on runs that differ in their seed. It works because the runs share their first weights.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from medlink.errors import ConfigError, EncoderError
from medlink.models.encoders import Encoder, load_encoder
from medlink.models.static.encoder import StaticEncoder, is_static, quantise

_SETTINGS = {".json", ".txt", ".model"}
# what the libraries note of the way a folder was made, and what a tokenizer keeps of its last call
_PROVENANCE = {"_name_or_path", "transformers_version", "__version__", "dtype", "torch_dtype", "truncation", "padding"}
_AT_ONCE = 1 << 22
_CARD = """\
# Mean of {count} encoders

Embeds names of concepts in {dimension} dimensions; medlink scales them to length 1. Fingerprint `{fingerprint}`.
Every weight is the mean of the weights of the encoders below, which were trained from one start (BioLORD-2023, section
"Weight-averaging phase"; Wortsman et al. 2022).

Licence: to be filled in by whoever passes this encoder on; that of the terminology it was trained on has a say.

## Averaged

SHA-256 of their weights:

{parts}
"""


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

    Transformers are read and written in parts of a few million weights: memory does not grow with their number, and not
    with the size of a model until the result is opened.

    Args:
        folders: at least one model folder, of one configuration, tokenizer and shape.
        out: folder of the mean, written beside and renamed.

    Returns:
        The mean, opened from ``out``.

    Raises:
        ConfigError: ``out`` is in use for something else.
        EncoderError: a folder is none of an encoder, two do not match, a weight is no number, or the disk is full.

    >>> import tempfile
    >>> from medlink.models.encoders import builtin_folder
    >>> soup([builtin_folder(), builtin_folder()], Path(tempfile.mkdtemp(), "mean")).dimension
    256
    """
    from medlink.training.common import checkpoint

    paths, out = [Path(folder) for folder in folders], Path(out).resolve()
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
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "modules.json").exists())):
        raise ConfigError("it is there and holds no encoder", path=out, remedy="name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with checkpoint.replacing(out, "the mean") as beside:
        if all(kinds):
            average([StaticEncoder.load(path) for path in paths]).save(beside)
        else:
            try:
                _average_folders(paths, beside)
            except EncoderError:
                checkpoint.remove(beside)
                raise
        mean = load_encoder(beside)
        card = _CARD.format(
            count=len(paths),
            dimension=mean.dimension,
            fingerprint=mean.fingerprint,
            parts="\n".join(f"- `{_digest(path)}`" for path in paths),
        )
        (beside / "README.md").write_text(card, encoding="utf-8")
    return load_encoder(out)


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
    """Put the mean of files of weights into a copy of the first of them.

    A safetensors file is the length of a header in 8 bytes, the header, and the tensors one after the other. The
    library itself only writes tensors that are all in memory.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with ExitStack() as stack, out.open("r+b") as file:
            opened = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
            shapes = [_shapes(one) for one in opened]
            for path, other in zip(paths, shapes, strict=True):
                for name in sorted(shapes[0].keys() | other.keys()):
                    if shapes[0].get(name) != other.get(name):
                        raise EncoderError(
                            f"{name} is {_words(other.get(name))}, {_words(shapes[0].get(name))} in {paths[0]}",
                            path=path,
                            remedy="average runs of one start and recipe",
                        )
            for name, (_, shape) in shapes[0].items():
                file.seek(8 + length + header[name]["data_offsets"][0])
                for rows in _blocks(shape):
                    blocks = [_read(one, name, rows) for one in opened]
                    for path, block in zip(paths, blocks, strict=True):
                        if not blocks[0].is_floating_point() and not torch.equal(block, blocks[0]):
                            raise EncoderError(
                                f"{name} holds other whole numbers than in {paths[0]}",
                                path=path,
                                remedy="average runs of one start and recipe",
                            )
                        if not bool(torch.isfinite(block).all()):
                            raise EncoderError(f"{name} holds what is no number", path=path, remedy="leave it out")
                    mean = blocks[0]
                    if mean.is_floating_point():
                        mean = (sum(block.double() for block in blocks) / len(blocks)).to(mean.dtype)
                    file.write(mean.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    except SafetensorError as error:
        raise EncoderError(f"the weights cannot be read: {error}", path=paths[0].parent) from error


def _shapes(opened: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Number type and shape of every tensor of an open file."""
    slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118  # no dictionary
    return {name: (one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}


def _words(shape: tuple[str, tuple[int, ...]] | None) -> str:
    """Number type and shape for an error."""
    return "missing" if shape is None else f"{shape[0]} {shape[1]}"


def _blocks(shape: tuple[int, ...]) -> Iterator[slice | None]:
    """Rows of a tensor, a few million numbers at a time; ``None`` is the whole of one without rows."""
    if not shape:
        yield None
        return
    step = max(1, _AT_ONCE // max(1, prod(shape[1:])))
    yield from (slice(start, start + step) for start in range(0, shape[0], step))


def _read(opened: Any, name: str, rows: slice | None) -> Any:
    """A block of a tensor."""
    return opened.get_tensor(name) if rows is None else opened.get_slice(name)[rows]

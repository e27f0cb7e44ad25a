"""Tuned launch configurations: data files, one for each device and layer shape.

A file belongs to one device and one minor version of Triton, whose compiler decides what is fast. One that belongs to another is
ignored as a whole, with one warning. Files are looked for in the directory that the option ``configs`` names, then among those that
ship with the package.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from moe_select_triton.config import Few, Gemm, Plan, as_json

PACKAGED: Final = Path(__file__).parent / "configs"
_WARNED: Final[set[Path]] = set()


class TunedFileWarning(UserWarning):
    """A file of launch configurations is ignored."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file is about."""

    device: str
    """As the driver spells it: ``NVIDIA H200``."""
    scheme: str
    """``w8a8``, ``w8a16`` or ``unquantized``."""
    dtype: str
    experts: int
    topk: int
    hidden_size: int
    intermediate_size: int
    gated: bool

    @property
    def filename(self) -> str:
        """The file's name."""
        size = f"E{self.experts}_topk{self.topk}_H{self.hidden_size}_I{self.intermediate_size}"
        plain = "" if self.gated else "_plain"
        return f"{self.device.replace(' ', '_')}/{self.scheme}_{self.dtype}_{size}{plain}.json"


def minor(version: str) -> str:
    """``3.6`` of ``3.6.0``."""
    return ".".join(version.split(".")[:2])


def save(directory: Path, shape: Shape, facts: Mapping[str, Any], plans: Mapping[int, Plan]) -> Path:
    """Write a file. ``facts`` are versions and the date; ``triton`` must be among them."""
    path = directory / shape.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({**asdict(shape), **facts}, indent=1)[:-2]
    lines = ",\n".join(f'  "{tokens}": {json.dumps(as_json(plan))}' for tokens, plan in sorted(plans.items()))
    path.write_text(f'{head},\n "plans": {{\n{lines}\n }}\n}}\n')
    return path


def load(directory: Path | None, shape: Shape, triton_version: str) -> dict[int, Plan]:
    """Plans by number of tokens; empty where no file fits."""
    for folder in (directory, PACKAGED):
        path = None if folder is None else folder / shape.filename
        if path is None or not path.is_file():
            continue
        try:
            found = _read(path, shape, triton_version)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _warn(path, f"is not a file of launch configurations ({error})")
            continue
        if found:
            return found
    return {}


def nearest(plans: Mapping[int, Plan], tokens: int) -> Plan:
    """The plan of the nearest number of tokens by ratio; of two that are as near, the larger.

    The one-token plan serves one token only, and one token nothing else: its kernels are others.
    """
    if tokens == 1 and 1 in plans:
        return plans[1]
    known = [number for number in plans if number > 1] or list(plans)
    return plans[min(known, key=lambda number: (max(number / tokens, tokens / number), -number))]


def _read(path: Path, shape: Shape, triton_version: str) -> dict[int, Plan]:
    data = json.loads(path.read_text())
    if not isinstance(data, dict):
        raise TypeError("not a mapping")
    wrong = list(_mismatches(data, shape, triton_version))
    if wrong:
        _warn(path, "; ".join(wrong))
        return {}
    return {int(tokens): _plan(plan) for tokens, plan in data["plans"].items()}


def _mismatches(data: Mapping[str, Any], shape: Shape, triton_version: str) -> Iterator[str]:
    for name, wanted in asdict(shape).items():
        if data.get(name) != wanted:
            yield f"{name} is {data.get(name)!r}, here it is {wanted!r}"
    tuned_with = minor(str(data.get("triton")))
    if tuned_with != minor(triton_version):
        yield f"tuned with Triton {tuned_with}, here it is {minor(triton_version)}"


def _plan(data: Mapping[str, Any]) -> Plan:
    gemms = [Gemm(**data[name]) if "bm" in data[name] else Few(**data[name]) for name in ("gemm1", "gemm2")]
    return Plan(gemms[0], gemms[1], bool(data["lookup"]), int(data["pdl"]))


def _warn(path: Path, why: str) -> None:
    if path in _WARNED:
        return
    _WARNED.add(path)
    remedy = "run `moe-select tune triton` again for this device"
    warnings.warn(f"launch configurations in {path} are ignored: {why}; {remedy}", TunedFileWarning, stacklevel=4)

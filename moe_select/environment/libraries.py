"""Versions of installed distributions, found without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

COMMON: Final = (
    "aiter",
    "deep-ep",
    "deep-gemm",
    "flashinfer-python",
    "humming-kernels",
    "pydantic",
    "torch",
    "transformers",
    "triton",
    "vllm",
    "zentorch",
)
"""Distributions that decisions are often about: they are part of every probed environment."""

_ALSO: Final = {
    "aiter": ("amd-aiter",),
    "triton": ("pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-rocm", "triton-xpu"),
}
"""Other distributions of a library: what counts is that it can be imported under its name."""


def installed(requirements: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the common distributions and of those that PEP 508 requirements name, where present.

    A requirement that cannot be read names nothing: whoever declared it is told where it is checked.
    """
    names = {*COMMON, *(name for requirement in requirements for name in _name(requirement))}
    found = {name: _version(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version is not None}


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in (name, *_ALSO.get(name, ())):
        try:
            found: str | None = version(distribution)  # None where an installation was cut short
        except (PackageNotFoundError, KeyError):
            continue
        if found:
            return found
    return None


def _name(requirement: str) -> Iterable[str]:
    try:
        yield canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:
        return

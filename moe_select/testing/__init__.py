"""The plugin author's kit: requests, fake environments and distributions, a float64 oracle and a conformance suite.

Importing this package imports neither torch nor pytest; its names load their modules when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moe_select.testing.bounds import error_bound
    from moe_select.testing.builders import gpu_or_interpreter, make_environment, make_request
    from moe_select.testing.conformance import ExpertsConformance
    from moe_select.testing.distributions import install
    from moe_select.testing.float64 import oracle
    from moe_select.testing.layers import Tokens, random_tokens, relative_error

_HOMES: Final = {
    "ExpertsConformance": "conformance",
    "Tokens": "layers",
    "error_bound": "bounds",
    "gpu_or_interpreter": "builders",
    "install": "distributions",
    "make_environment": "builders",
    "make_request": "builders",
    "oracle": "float64",
    "random_tokens": "layers",
    "relative_error": "layers",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ExpertsConformance",
    "Tokens",
    "error_bound",
    "gpu_or_interpreter",
    "install",
    "make_environment",
    "make_request",
    "oracle",
    "random_tokens",
    "relative_error",
]

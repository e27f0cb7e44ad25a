"""Every exception this library raises on purpose.

MoESelectError
├── InvalidValueError       (ValueError)
│   ├── RequestError                      a contradictory or malformed request
│   └── InvalidEnvironmentError           a malformed environment, or an unknown preset
├── PolicyError             (ValueError)  problems in backends.yaml or MOE_SELECT_* variables
├── PluginError                           a plugin broke its contract, in strict mode
│   └── RegistryFrozenError               registration after the registry was frozen
├── SelectionError                        no candidate can serve the request; carries the report
└── BuildError
    ├── WeightError         (ValueError)  a tensor that is missing, contradictory or misshapen
    └── KernelCallError     (ValueError)  a call whose tensors do not fit the built kernel
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moe_select.policy.problems import Problem
    from moe_select.selection.report import Selection


class MoESelectError(Exception):
    """Base of every error raised on purpose by this library."""


class InvalidValueError(MoESelectError, ValueError):
    """A frozen value contradicts itself or has an unknown field; ``problems`` and the message list all of it."""

    def __init__(self, label: str, problems: list[str]) -> None:
        self.label, self.problems = label, problems
        super().__init__("\n".join([f"invalid {label}:", *(f"  - {problem}" for problem in problems)]))

    def __reduce__(self) -> tuple[type[InvalidValueError], tuple[str, list[str]]]:
        return type(self), (self.label, self.problems)


class RequestError(InvalidValueError):
    """A request contradicts itself, or has a malformed or unknown field."""


class InvalidEnvironmentError(InvalidValueError):
    """An environment is malformed, or a preset does not exist."""


class PolicyError(MoESelectError, ValueError):
    """A policy has problems. ``problems`` holds all of them, each with its ``file:line:column``."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        count = len(problems)
        head = f"{count} problem{'s' if count != 1 else ''} in the policy"
        super().__init__("\n\n".join([head, *(problem.render() for problem in problems)]))


class PluginError(MoESelectError):
    """A plugin broke its contract (raised only in strict mode)."""


class RegistryFrozenError(PluginError):
    """A plugin tried to register after the registry was frozen."""


class SelectionError(MoESelectError):
    """No candidate can serve the request. ``selection`` is the full report."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        super().__init__(selection.to_text())

    def __reduce__(self) -> tuple[type[SelectionError], tuple[Selection]]:
        return type(self), (self.selection,)


class BuildError(MoESelectError):
    """A selection cannot be turned into a kernel."""


class WeightError(BuildError, ValueError):
    """A weight, scale, zero point or bias is missing, contradictory or has the wrong shape."""


class KernelCallError(BuildError, ValueError):
    """The tensors of a call do not fit the kernel that was built."""

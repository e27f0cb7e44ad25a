"""What plugins declare, and what the registry stamps on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

if TYPE_CHECKING:
    from moe_select.kernels.experts import Experts
    from moe_select.kernels.prepare_finalize import PrepareFinalize
    from moe_select.vocabulary import MoEConfig

Progress = Callable[[str, int, int], None]
"""(what is being done, steps done, of how many)."""
Tune = Callable[["MoEConfig", Sequence[int], Path, Progress], Path]
"""(layer with its sizes, numbers of tokens, directory, progress) to the file that was written."""

NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One backend: a name and its experts classes, best first. Declaring it does no work and imports no kernel.

    Raises:
        ValueError: the name is not lower snake case, or there is no experts class.

    """

    name: str
    experts: tuple[type[Experts], ...]
    description: str = ""
    options: type[BaseModel] | None = None
    """Model that validates the ``options:`` a policy passes to this backend; None takes no options."""
    tune: Tune | None = None
    """What ``moe-select tune`` runs; it imports what it needs when it is called. None has nothing to tune."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "experts", tuple(self.experts))
        if not NAME_PATTERN.fullmatch(self.name):
            raise ValueError(f"backend name {self.name!r} must be lower snake case, such as 'my_backend'")
        if not self.experts:
            raise ValueError(f"backend {self.name!r} declares no experts classes")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a declaration came from."""

    plugin: str
    """Entry point name."""
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class RegisteredBackend:
    """A backend stamped with its provider."""

    backend: Backend
    provider: Provider

    @property
    def name(self) -> str:
        """Bare name."""
        return self.backend.name

    @property
    def qualified_name(self) -> str:
        """``distribution:backend``."""
        return f"{self.provider.distribution}:{self.backend.name}"


@dataclass(frozen=True, slots=True)
class RegisteredPrepareFinalize:
    """A prepare/finalize class stamped with its provider."""

    implementation: type[PrepareFinalize]
    provider: Provider

    @property
    def name(self) -> str:
        """The name policies and reports use."""
        return self.implementation.name


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plugin that could not be loaded, registered or asked."""

    provider: Provider
    stage: str
    """``import``, ``register``, ``hook`` or ``declaration``."""
    cause: str

    def may_provide(self, backend: str) -> bool:
        """Whether a backend name points at this plugin: nobody can ask a broken plugin what it would have declared, but
        its entry point or distribution usually carries the backend's name.
        """
        name = backend.partition(":")[0].replace("_", "-")
        return name in (self.provider.plugin.replace("_", "-"), self.provider.distribution.replace("_", "-"))

    def __str__(self) -> str:
        return f"plugin {self.provider.plugin!r} of {self.provider} failed at {self.stage}: {self.cause}"

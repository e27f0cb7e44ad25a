"""Checking what a plugin declares, before anything relies on it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel

from moe_select.plugins.types import (
    NAME_PATTERN,
    Backend,
    Provider,
    RegisteredBackend,
    RegisteredPrepareFinalize,
)
from moe_select.support import Support
from moe_select.vocabulary import ActivationFormat

if TYPE_CHECKING:
    from moe_select.kernels.prepare_finalize import PrepareFinalize

T = TypeVar("T")


class DeclarationError(TypeError):
    """A plugin declared something that is not what the contract says."""


class Declarations(NamedTuple):
    """What one plugin declares."""

    backends: tuple[RegisteredBackend, ...]
    prepare_finalize: tuple[RegisteredPrepareFinalize, ...]


def read_declarations(provider: Provider, backends: Iterable[Any], prepare_finalize: Iterable[Any]) -> Declarations:
    """Check and stamp the answers of a plugin's hooks.

    Raises:
        DeclarationError: something is not what the contract says.

    """
    return Declarations(
        tuple(RegisteredBackend(item, provider) for item in _checked(backends, "moe_select_backends", _backend)),
        tuple(
            RegisteredPrepareFinalize(item, provider)
            for item in _checked(prepare_finalize, "moe_select_prepare_finalize", _prepare_finalize)
        ),
    )


def _checked(answers: Iterable[Any], hook: str, check: Callable[[Any, str], T]) -> Iterator[T]:
    """What the hook yields, one by one; pluggy wraps each implementation's answer in a list."""
    names: set[str] = set()
    for answer in answers:
        if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
            raise DeclarationError(f"{hook} returned {_kind(answer)}; expected to yield declarations")
        for item in answer:
            checked = check(item, hook)
            name: str = checked.name  # type: ignore[attr-defined]
            if name in names:
                raise DeclarationError(f"{hook} declares {name!r} twice")
            names.add(name)
            yield checked


def _backend(item: Any, hook: str) -> Backend:
    from moe_select.kernels.experts import Experts, ModularExperts, MonolithicExperts

    if not isinstance(item, Backend):
        raise DeclarationError(f"{hook} yielded {_kind(item)}; expected Backend")
    if item.options is not None and not (inspect.isclass(item.options) and issubclass(item.options, BaseModel)):
        raise DeclarationError(f"options of backend {item.name!r} are {_kind(item.options)}; expected a pydantic model")
    if item.tune is not None and not callable(item.tune):
        raise DeclarationError(f"tune of backend {item.name!r} is {_kind(item.tune)}; expected a function")
    seen: set[str] = set()
    for experts in item.experts:
        if not (inspect.isclass(experts) and issubclass(experts, Experts)):
            raise DeclarationError(f"backend {item.name!r} lists {_kind(experts)}; expected an experts class")
        label = f"{item.name}/{experts.__name__}"
        if not issubclass(experts, ModularExperts | MonolithicExperts):
            raise DeclarationError(f"{label} must derive from ModularExperts or MonolithicExperts")
        if not isinstance(getattr(experts, "support", None), Support):
            raise DeclarationError(f"{label} has no `support = Support(...)`")
        if not isinstance(experts.activation_format, ActivationFormat):
            raise DeclarationError(f"{label}.activation_format is {_kind(experts.activation_format)}")
        _check_concrete(experts, label)
        if experts.__name__ in seen:
            raise DeclarationError(f"backend {item.name!r} lists {experts.__name__} twice")
        seen.add(experts.__name__)
    return item


def _prepare_finalize(item: Any, hook: str) -> type[PrepareFinalize]:
    from moe_select.kernels.prepare_finalize import PrepareFinalize

    if not (inspect.isclass(item) and issubclass(item, PrepareFinalize)):
        raise DeclarationError(f"{hook} yielded {_kind(item)}; expected a PrepareFinalize class")
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise DeclarationError(f"{item.__name__}.name is {name!r}; expected lower snake case")
    if not isinstance(getattr(item, "activation_format", None), ActivationFormat):
        raise DeclarationError(f"{item.__name__} has no activation_format")
    _check_concrete(item, item.__name__)
    return item


def _check_concrete(cls: type, label: str) -> None:
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))  # type: ignore[attr-defined]
        raise DeclarationError(f"{label} does not implement {missing}")


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if inspect.isclass(value) else f"{type(value).__name__} {value!r:.60}"

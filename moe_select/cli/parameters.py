"""Types of command-line values. What is legal comes from the vocabulary, and so do the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from moe_select.vocabulary import (
    Activation,
    ActivationFormat,
    All2AllBackend,
    QuantKey,
    Role,
    RoutingMethod,
    parse_optional_key,
)
from moe_select.vocabulary.dtypes import DTYPES, parse_dtype
from moe_select.vocabulary.quant_keys import NAMED_KEYS

T = TypeVar("T")

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # older versions of click have no generic one


class Parsed(ParamType, Generic[T]):
    """A value that a function of the library parses; its ``ValueError`` is the usage error.

    Args:
        name: what the value is called in usage lines.
        parse: the function.
        known: values to complete in a shell; a function where making them costs something.

    """

    def __init__(
        self,
        name: str,
        parse: Callable[[str], T],
        known: Iterable[str] | Callable[[], Iterable[str]] = (),
    ) -> None:
        self.name = name
        self._parse, self._known = parse, known

    def known(self) -> list[str]:
        """Values to choose from."""
        return list(self._known() if callable(self._known) else self._known)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse text; anything else was parsed before."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:  # noqa: ARG002
        """The name; what is legal is in the help, since some sets are long."""
        return self.name.upper()

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Known values that start like the word."""
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


def term(terms: type[Activation | ActivationFormat | All2AllBackend | Role | RoutingMethod]) -> Parsed[Any]:
    """One of the vocabulary's closed sets."""
    return Parsed("name", terms, [member.value for member in terms])


def name_and_value(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as a pair.

    Raises:
        ValueError: there is no ``=``, or nothing before it.

    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def preset_names() -> list[str]:
    """Names of the presets."""
    from moe_select.environment import preset_names as names

    return list(names())


QUANT_KEY: Parsed[QuantKey | None] = Parsed("key", parse_optional_key, ["none", *NAMED_KEYS])
DTYPE: Parsed[str] = Parsed("dtype", parse_dtype, [name for name, info in DTYPES.items() if info.bits >= 16])
PRESET: Parsed[str] = Parsed("name", str, preset_names)
PAIR: Parsed[tuple[str, str]] = Parsed("name=value", name_and_value)


def token_counts(text: str) -> tuple[int, ...]:
    """``1,16,256`` as numbers.

    Raises:
        ValueError: something is not a positive integer.

    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise ValueError(f"{word!r} is not a number of tokens; expected numbers from 1 on, such as 1,16,256")
    return tuple(map(int, words))


TOKEN_COUNTS: Parsed[tuple[int, ...]] = Parsed("n,...", token_counts)

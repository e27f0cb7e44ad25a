"""Finding the layers of the policy, reading them, and putting them together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moe_select.errors import PolicyError
from moe_select.policy.document import PACKAGED, Document
from moe_select.policy.merge import Merger
from moe_select.policy.model import Origin, Policy
from moe_select.policy.problems import Problem, Problems, in_order
from moe_select.policy.python_nodes import read_python
from moe_select.policy.read_document import read_document
from moe_select.policy.resolve import check_names, pin_packaged_names
from moe_select.policy.variables import CONFIG, read_variables
from moe_select.policy.yaml_nodes import read_yaml
from moe_select.user_files import user_directory

if TYPE_CHECKING:
    from moe_select.plugins import Registry

PolicySource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Policy
"""A layer: the path of a file, a document as plain data, or a finished policy, which replaces everything below it."""

ARGUMENT_SOURCE: Final = "<policy argument>"
MAX_BYTES: Final = 1 << 20
Layer: TypeAlias = Document | Policy


def load_policy(
    *, environ: Mapping[str, str], extra: Sequence[PolicySource] = (), registry: Registry | None = None
) -> Policy:
    """The merged policy of the packaged default, the user's files, the environment variables and ``extra``.

    Args:
        environ: environment variables; nothing else of the process is looked at.
        extra: stronger layers, weakest first.
        registry: installed backends, to check names and options against. None checks the documents only.

    Raises:
        PolicyError: with every problem of every layer.

    """
    # What is wrong with variables says nothing against reading the files.
    problems = Problems()
    of_variables = Problems(problems.texts)
    layers = (
        read_default(problems),
        _read_user_file(environ, problems),
        _read_named_file(environ, problems),
        read_variables(environ, of_variables),
        *(_read_source(source, problems) for source in extra),
    )
    policy = merge_layers([layer for layer in layers if layer is not None], registry, problems)
    return _raise_errors(policy, of_variables + problems)


def parse_policy(text: str, source: str = "<string>") -> Policy:
    """One document as a whole policy, without any layer below it.

    Raises:
        PolicyError: with every problem.

    """
    problems = Problems()
    document = read_text(text, source, problems)
    return _raise_errors(merge_layers([document] if document else [], None, problems), problems)


@cache
def default_policy() -> Policy:
    """The packaged default alone."""
    problems = Problems()
    return _raise_errors(merge_layers([read_default(problems)], None, problems), problems)


def merge_layers(layers: Sequence[Layer], registry: Registry | None, problems: Problems) -> Policy:
    """Merge layers, weakest first; what is wrong with them together goes to ``problems``."""
    readable = not problems
    whole = [i for i, layer in enumerate(layers) if isinstance(layer, Policy)]
    kept = [pin_packaged_names(layer, registry) for layer in layers[whole[-1] if whole else 0 :]]
    found = Problems(problems.texts)
    merger = Merger(found)
    for layer in kept:
        merger.start_from(layer) if isinstance(layer, Policy) else merger.add(layer)
    policy = merger.policy()
    # What only shows after merging is guesswork while parts of the layers could not be read.
    if readable:
        problems.extend(found)
    for layer in kept:
        if isinstance(layer, Document):
            check_names(layer, policy, registry, problems)
    return policy


def _raise_errors(policy: Policy, problems: list[Problem]) -> Policy:
    if problems:
        raise PolicyError(in_order(problems))
    return policy


def read_text(text: str, source: str, problems: Problems, *, needs_version: bool = True) -> Document | None:
    """A document from YAML, or None when it cannot be read."""
    node = read_yaml(text, source, problems)
    return None if node is None else read_document(node, source, problems, needs_version=needs_version)


def read_file(path: str | os.PathLike[str], problems: Problems, named_by: str | None = None) -> Document | None:
    """A document from a file; a file that is not there or cannot be read is a problem."""
    source = os.fspath(path)
    try:
        with open(source, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        help = named_by and f"the file is named by {named_by}"
        problems.error(Origin(source), f"cannot read the policy: {reason}", help)
        return None
    if len(content) > MAX_BYTES:
        problems.error(Origin(source), f"longer than {MAX_BYTES >> 10} KiB: this is not a policy")
        return None
    try:
        return read_text(content.decode("utf-8-sig"), source, problems)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{content[error.start]:02x}"
        problems.error(Origin(source, line, column), message, "save the file as UTF-8")
        return None


@cache
def _default_text() -> str:
    return Path(__file__).parents[1].joinpath("backends.yaml").read_text(encoding="utf-8")


def read_default(problems: Problems) -> Document:
    """The packaged default as a layer."""
    document = read_text(_default_text(), PACKAGED, problems)
    assert document is not None
    return document


def _read_user_file(environ: Mapping[str, str], problems: Problems) -> Document | None:
    path = user_file(environ)
    return read_file(path, problems) if path is not None and os.path.lexists(path) else None


def user_file(environ: Mapping[str, str]) -> str | None:
    """Where the user's own layer is looked for."""
    base = user_directory(environ)
    return None if base is None else os.fspath(base / "backends.yaml")


def _read_named_file(environ: Mapping[str, str], problems: Problems) -> Document | None:
    path = environ.get(CONFIG, "")
    return read_file(path, problems, CONFIG) if path.strip() else None


def _read_source(source: PolicySource, problems: Problems) -> Layer | None:
    if isinstance(source, Policy):
        return source
    if isinstance(source, Mapping):
        node = read_python(source, ARGUMENT_SOURCE, problems)
        return read_document(node, ARGUMENT_SOURCE, problems, needs_version=False)
    if isinstance(source, str | os.PathLike):
        return read_file(source, problems)
    problems.error(Origin(ARGUMENT_SOURCE), f"expected a path, a mapping or a Policy, got {type(source).__name__}")
    return None

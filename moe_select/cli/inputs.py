"""From options to what a decision is made of: request, environment, policy, registry, explicit backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from packaging.utils import canonicalize_name

from moe_select.cli.json_input import construct, read_json_object
from moe_select.cli.parameters import PAIR, PRESET
from moe_select.cli.request_options import request_from, request_options

if TYPE_CHECKING:
    from moe_select.environment import Environment
    from moe_select.plugins import Registry
    from moe_select.policy import Policy
    from moe_select.selection import Selection
    from moe_select.vocabulary import MoEConfig

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Inputs:
    """The arguments of one decision."""

    request: MoEConfig
    environment: Environment
    policy: Policy
    registry: Registry
    backend: str | None

    def explain(self) -> Selection:
        """Decide. A question is not a decision of a running engine: nothing is logged, cached or shown to plugins."""
        from moe_select.policy import ExplicitBackend, Origin
        from moe_select.selection import decide
        from moe_select.selection.ambient import resolve_explicit

        if self.backend is not None:
            explicit: ExplicitBackend | None = ExplicitBackend(self.backend, Origin("--backend"))
        else:
            explicit = resolve_explicit(None, self.request, self.policy)
        return decide(self.request, self.environment, self.policy, self.registry, explicit)


def decision_options(command: F) -> F:
    """Everything that a decision depends on, as options of a command."""
    backend = click.option("--backend", metavar="NAME", help="Explicit backend, alias or backend/ExpertsClass.")
    return request_options(backend(policy_option(environment_options(command))))


def policy_option(command: F) -> F:
    """``--policy FILE``."""
    policy = click.Path(exists=True, dir_okay=False)
    return click.option("--policy", type=policy, help="Policy file on top of the installed layers.")(command)


def library_option(command: F) -> F:
    """``--library NAME=VERSION``."""
    help = "Pretend that a library is installed. Repeatable."
    option = click.option("--library", "libraries", type=PAIR, multiple=True, metavar="NAME=VERSION", help=help)
    return option(command)


def environment_options(command: F) -> F:
    """``--preset``, ``--environment`` and ``--library``."""
    options = (
        click.option("--preset", type=PRESET, help="A named machine instead of this one (`moe-select env --presets`)."),
        click.option(
            "--environment",
            "environment_file",
            type=click.File(encoding="utf-8"),
            help="Environment as JSON (`moe-select env --json`); - reads stdin.",
        ),
        library_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_inputs(options: Mapping[str, Any]) -> Inputs:
    """Inputs from the options of a command.

    Raises:
        MoESelectError: for what is wrong with the request, the environment or the policy.

    """
    from moe_select.plugins import default_registry

    registry = default_registry()
    policy = read_policy(options["policy"], registry)
    return Inputs(
        request=request_from(options, policy),
        environment=read_environment(options, registry),
        policy=policy,
        registry=registry,
        backend=options["backend"],
    )


def read_policy(file: str | None, registry: Registry) -> Policy:
    """The policy in force in this process, with a file on top if one was given."""
    from moe_select.policy import load_policy

    return load_policy(environ=os.environ, extra=(file,) if file else (), registry=registry)


def read_environment(options: Mapping[str, Any], registry: Registry) -> Environment:
    """A preset, an environment from a file, or this machine; with libraries added."""
    file, name = options["environment_file"], options["preset"]
    if file is not None and name is not None:
        raise click.UsageError("--preset and --environment exclude each other")
    environment = _from_file(file) if file is not None else _preset_or_here(name, registry)
    return with_libraries(environment, options["libraries"])


def with_libraries(environment: Environment, libraries: tuple[tuple[str, str], ...]) -> Environment:
    """A copy with libraries added or changed."""
    if not libraries:
        return environment
    added = {canonicalize_name(name): version for name, version in libraries}
    return environment.replace(libraries={**dict(environment.libraries), **added})


def _preset_or_here(name: str | None, registry: Registry) -> Environment:
    from moe_select.environment import current, preset

    return current(registry.requirements) if name is None else preset(name)


def _from_file(file: Any) -> Environment:
    from moe_select.environment import Environment

    return construct(Environment, read_json_object(file, "environment"))

"""``tune``: launch configurations for one layer on this machine's device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moe_select.cli.errors import InputError
from moe_select.cli.inputs import policy_option, read_policy
from moe_select.cli.parameters import TOKEN_COUNTS
from moe_select.cli.progress import make_progress
from moe_select.cli.request_options import REQUEST_OPTIONS, request_from, request_options
from moe_select.user_files import tuned_directory
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from moe_select.plugins import Registry
    from moe_select.plugins.types import Tune
    from moe_select.vocabulary import MoEConfig

_NEEDED: Final = ("num_experts", "topk", "hidden_dim", "intermediate_size")


@click.command("tune")
@click.argument("backend")
@request_options
@policy_option
@click.option(
    "--tokens",
    type=TOKEN_COUNTS,
    default="1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384",
    show_default=True,
    help="Numbers of tokens to find configurations for.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the file. Default: where the backend looks by itself.",
)
def tune_command(*, backend: str, tokens: tuple[int, ...], out: Path | None, **options: Any) -> None:
    """Measure launch configurations of BACKEND for one layer on this machine's device, and write the best ones to a file
    that the backend reads when it builds that layer here. Needs the layer's sizes.

    \b
    Example:
      moe-select tune triton --scheme int8 --experts 128 --topk 8 --hidden 2048 --intermediate 768
    """
    from moe_select.plugins import default_registry

    registry = default_registry()
    request = request_from(options, read_policy(options["policy"], registry))
    _check_sizes(request)
    tune = _tuner(backend, registry)
    directory = tuned_directory(backend.rpartition(":")[2]) if out is None else out
    if directory is None:
        raise InputError("there is no home directory to keep the file in; say where by --out")
    with make_progress() as progress:
        task = progress.add_task("starting", total=None)

        def report(doing: str, done: int, total: int) -> None:
            progress.update(task, description=doing, completed=done, total=total)

        written = tune(request, tokens, directory, report)
    click.echo(os.fspath(written))


def _check_sizes(request: MoEConfig) -> None:
    flags = {option.path: option.flag for option in REQUEST_OPTIONS}
    missing = [flags[name] for name in _NEEDED if getattr(request, name) is None]
    if missing:
        raise InputError(f"configurations are found for one shape; give {', '.join(missing)}")


def _tuner(name: str, registry: Registry) -> Tune:
    found = registry.find(name)
    tunable = [item.name for item in registry.backends if item.backend.tune is not None]
    known = ", ".join(tunable) or "none"
    if not found:
        known_names = [item.name for item in registry.backends]
        raise InputError(
            f"no backend {name!r} is installed{did_you_mean(name, known_names)}; backends that can be tuned: {known}"
        )
    if len(found) > 1:
        choices = ", ".join(item.qualified_name for item in found)
        raise InputError(f"{name!r} is declared by several distributions; say which: {choices}")
    tune = found[0].backend.tune
    if tune is None:
        raise InputError(f"backend {name!r} has nothing to tune; backends that can be tuned: {known}")
    return tune

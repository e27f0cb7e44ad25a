"""``demo``: one int8 MoE layer, chosen, built, run, checked and timed on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from moe_select.cli.choose import print_selection
from moe_select.cli.inputs import Inputs, read_policy
from moe_select.cli.output import finish, show
from moe_select.cli.parameters import TOKEN_COUNTS
from moe_select.cli.progress import make_progress

if TYPE_CHECKING:
    from rich.table import Table

    from moe_select.cli.demo_layer import Measurement
    from moe_select.selection import Selection
    from moe_select.vocabulary import MoEConfig

PRESETS: Final = ("h200", "mi300x", "zen4")
_SIZE: Final = click.IntRange(min=1)


@click.command("demo")
@click.option("--experts", type=_SIZE, default=128, show_default=True, help="E.")
@click.option("--topk", type=_SIZE, default=8, show_default=True, help="Experts per token.")
@click.option("--hidden", type=_SIZE, default=2048, show_default=True, help="H.")
@click.option("--intermediate", type=_SIZE, default=768, show_default=True, help="I.")
@click.option("--tokens", type=TOKEN_COUNTS, default="1,16,256", show_default=True, help="Tokens of each call.")
@click.option("--backend", metavar="NAME", help="Explicit backend.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of weights and tokens.")
def demo_command(
    *,
    experts: int,
    topk: int,
    hidden: int,
    intermediate: int,
    tokens: tuple[int, ...],
    backend: str | None,
    seed: int,
) -> None:
    """Build one MoE layer of the size of Qwen3-30B-A3B with random weights, quantize it to int8, explain which backend
    runs it, run it, and compare it with a float64 reference and with the same layer in bfloat16.

    Takes about a minute on two cores and 5 GB of memory. Exit code 1 when no backend can run the layer.

    \b
    Examples:
      moe-select demo
      moe-select demo --experts 8 --topk 2 --tokens 1,64
    """
    from moe_select.vocabulary import MoEConfig
    from moe_select.vocabulary.quant_keys import kInt8DynamicTokenSym, kInt8StaticChannelSym

    request = MoEConfig(
        num_experts=experts,
        topk=topk,
        hidden_dim=hidden,
        intermediate_size=intermediate,
        weight_key=kInt8StaticChannelSym,
        activation_key=kInt8DynamicTokenSym,
        max_tokens=max(tokens),
    )
    selection = _decide(request, backend)
    print_selection(selection)
    if not selection.ok:
        finish(False)
    _measure(selection, tokens, seed)
    click.echo("\nThe same request elsewhere:")
    show(_elsewhere({name: _decide(request, None, name) for name in PRESETS}))


def _decide(request: MoEConfig, backend: str | None, preset_name: str | None = None) -> Selection:
    from moe_select.environment import current, preset
    from moe_select.plugins import default_registry

    registry = default_registry()
    environment = preset(preset_name) if preset_name else current(registry.requirements)
    return Inputs(request, environment, read_policy(None, registry), registry, backend).explain()


def _measure(selection: Selection, counts: tuple[int, ...], seed: int) -> None:
    from moe_select.cli.demo_layer import Demo

    demo = Demo(selection, counts, seed)
    with make_progress() as progress:
        task = progress.add_task("", total=demo.steps)
        for doing in demo.run():
            progress.update(task, description=doing, advance=1)
        progress.update(task, description="done")
    show(_table(demo.measurements, demo.baseline))


def _table(measurements: list[Measurement], baseline: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("tokens", "int8", "tokens/s", f"bfloat16 ({baseline})", "int8 is", "error against float64"):
        table.add_column(header, justify="right")
    for row in measurements:
        table.add_row(
            str(row.tokens),
            f"{row.seconds * 1e3:.2f} ms",
            f"{row.tokens / row.seconds:.0f}",
            f"{row.bf16_seconds * 1e3:.2f} ms",
            _ratio(row.bf16_seconds / row.seconds),
            f"{row.error:.2%}",
        )
    return table


def _elsewhere(selections: dict[str, Selection]) -> Table:
    """What other machines would run, and what decided it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("preset", "device", "runs", "because"):
        table.add_column(header)
    for name, selection in selections.items():
        if selection.winner is not None:
            runs, because = selection.winner.name, f"first that can, of those at {selection.deciding}"
        else:
            nearest = selection.refused[0]
            runs, because = "nothing", f"{nearest.name}: {nearest.refusals[0].detail}"
        table.add_row(name, selection.environment.device.name, runs, because)
    return table


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}x faster" if ratio >= 1 else f"{1 / ratio:.2f}x slower"

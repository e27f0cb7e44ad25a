"""Short phrases that the text, the log line and the table share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moe_select.environment.environment import DeviceType, Environment
from moe_select.policy.problems import printable
from moe_select.support import Verdict
from moe_select.vocabulary import MoEConfig, format_optional_key

if TYPE_CHECKING:
    from pydantic import BaseModel

    from moe_select.policy.model import Origin
    from moe_select.selection.report import Candidate, Effect, Selection

SIZES: Final = {"num_experts": "E", "topk": "topk", "hidden_dim": "H", "intermediate_size": "I"}
"""Field to its short name."""

_SHOWN_ELSEWHERE: Final = {*SIZES, "weight_key", "activation_key", "activation", "in_dtype", "activation_format"}

_MOVES: Final = {"require": "requires it", "prefer": "prefers it"}


def one_line(text: str) -> str:
    """The text on one line, with nothing in it that a terminal or a log reader would act on."""
    return printable(" ".join(text.split()))


def quant_phrase(selection: Selection) -> str:
    """The (weights, activations) pair and its scheme."""
    request = selection.request
    weights, activations = format_optional_key(request.weight_key), format_optional_key(request.activation_key)
    scheme = f"scheme {selection.scheme}" if selection.scheme else "no scheme of the policy"
    return f"weights {weights}, activations {activations} ({scheme})"


def sizes_phrase(request: MoEConfig) -> str:
    """``E=128 topk=8 H=2048 I=768``; sizes that are not given are left out."""
    given = [f"{short}={getattr(request, name)}" for name, short in SIZES.items() if getattr(request, name) is not None]
    return " ".join(given) or "no sizes given"


def layer_phrase(request: MoEConfig) -> str:
    """Sizes, activation, dtype and format."""
    words = (
        sizes_phrase(request),
        request.activation.value,
        request.in_dtype,
        request.resolved_activation_format.value,
    )
    return ", ".join(words)


def extras_phrase(request: MoEConfig) -> str:
    """Every other field that was set to something else than its default; empty when there is none."""
    found = _changed(request.parallel)
    if request.parallel.tp_size > 1 and request.intermediate_size is not None:
        found.append(f"I={request.intermediate_size_per_partition} per rank")
    if request.parallel.ep_size > 1 and request.local_experts is not None:
        found.append(f"E={request.local_experts} per rank")
    return ", ".join([*_changed(request), *found])


def _changed(value: BaseModel) -> list[str]:
    """``name=value`` of the fields that differ from their defaults, the bare name for flags."""
    found = []
    for name, field in type(value).model_fields.items():
        given: Any = getattr(value, name)
        if name in _SHOWN_ELSEWHERE or name == "parallel" or given == field.default:
            continue
        found.append(name if given is True else f"{name}={given}")
    return found


def environment_phrase(environment: Environment) -> str:
    """The device, in the words an operator knows it by, and the preset it came from."""
    device, host = environment.device, environment.cpu
    host_words = " ".join(word for word in (host.arch, host.uarch) if word)
    if device.type is DeviceType.CPU:
        name = device.name or "cpu"
        facts = [host_words]
    else:
        capability = ".".join(map(str, device.capability)) if device.capability else None
        name = device.name or device.type.value
        facts = [" ".join(word for word in (device.type.value, capability, device.arch) if word)]
    if device.memory_gib is not None:
        facts.append(f"{device.memory_gib:.4g} GiB")
    if device.type is not DeviceType.CPU:
        facts.append(f"host {host_words}")
    preset = f", preset {environment.preset}" if environment.preset else ""
    return f"{name} ({', '.join(facts)}){preset}"


def outcome_phrase(selection: Selection) -> str:
    """The outcome in one sentence."""
    layer = f"layer {selection.request.layer}" if selection.request.layer else "this MoE layer"
    if selection.winner is not None:
        emulated = " (last resort)" if selection.winner.verdict is Verdict.LAST_RESORT else ""
        return f"{selection.winner.name}{emulated} runs {layer}"
    explicit = selection.explicit
    if explicit is not None and not explicit.is_auto:
        return f"the explicit backend {explicit.name!r} ({explicit.origin}) cannot run {layer}"
    if not selection.candidates:
        return f"no backend for {layer}: the policy has no candidates for it"
    count = len(selection.candidates)
    return f"no backend can run {layer}: {'all ' if count > 1 else ''}{plural(count, 'candidate')} refused"


def deciding_phrase(selection: Selection) -> str:
    """Why the winner is the winner, without the place; empty when there is no winner."""
    winner, explicit = selection.winner, selection.explicit
    if winner is None:
        return ""
    if explicit is not None and not explicit.is_auto:
        return f"explicit backend {explicit.name!r}"
    for effect in reversed(winner.effects):
        if _decides(effect, selection.deciding):
            return f"rule {effect.rule!r} {_MOVES[effect.verb]}" + (f": {effect.reason}" if effect.reason else "")
    listed = f"listed in scheme {selection.scheme!r}" if selection.scheme else "listed"
    return f"{listed}, nothing before it can run" if _is_preceded(selection, winner) else f"{listed} first"


def _is_preceded(selection: Selection, winner: Candidate) -> bool:
    return bool(selection.candidates) and selection.candidates[0] is not winner


def origin_phrase(candidate: Candidate) -> str:
    """``moe-select 0.1.0, listed at backends.yaml:23:16``."""
    provider = str(candidate.provider) if candidate.provider else "not installed"
    return f"{provider}, named at {candidate.origin}"


def telling_effects(candidate: Candidate, deciding: Origin | None = None) -> list[Effect]:
    """Effects that neither the refusals nor the deciding phrase tell already."""
    return [effect for effect in candidate.effects if effect.verb != "deny" and not _decides(effect, deciding)]


def _decides(effect: Effect, deciding: Origin | None) -> bool:
    return effect.verb in _MOVES and effect.origin == deciding


def options_phrase(candidate: Candidate) -> str:
    """``gemm_type=grouped, split=2``; empty without options. What is None is not set."""
    return ", ".join(f"{name}={value}" for name, value in candidate.options.items() if value is not None)


def plural(count: int, noun: str) -> str:
    """``1 candidate``, ``2 candidates``.

    >>> plural(1, "candidate"), plural(0, "candidate")
    ('1 candidate', '0 candidates')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"

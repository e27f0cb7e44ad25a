"""Judging one entry: everything its class says about the request, with a predicate that raises contained."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from moe_select.environment import Environment
from moe_select.selection.candidates import Entry
from moe_select.selection.report import Candidate
from moe_select.support import Code, Refusal, Unproven, Verdict
from moe_select.vocabulary import MoEConfig
from moe_select.vocabulary.frozen import describe_errors


def judge(entry: Entry, request: MoEConfig, environment: Environment) -> Candidate:
    """The entry as a candidate, with every reason against it."""
    refusals, unproven = list(entry.refusals), list[Unproven]()
    options: BaseModel | None = None
    if entry.registered is not None and entry.experts_class is not None:
        options = _validated_options(entry, refusals)
        _collect(entry, request, environment, options, refusals, unproven)
        if entry.experts_class.last_resort and not entry.named:
            detail = "last resort: runs only where a policy or a caller names it"
            refusals.append(Refusal(Code.NOT_REQUESTED, detail, f"name {entry.backend!r} to use it"))
    return Candidate(
        backend=entry.backend,
        experts=entry.experts,
        provider=entry.registered.provider if entry.registered else None,
        verdict=_verdict(entry, refusals),
        origin=entry.origin,
        refusals=tuple(refusals),
        unproven=tuple(unproven),
        effects=tuple(entry.effects),
        options=options.model_dump(mode="json") if options is not None else dict(entry.options),
        experts_class=entry.experts_class,
        validated_options=options,
    )


def _verdict(entry: Entry, refusals: list[Refusal]) -> Verdict:
    if refusals:
        return Verdict.REFUSED
    return Verdict.LAST_RESORT if entry.experts_class and entry.experts_class.last_resort else Verdict.SUPPORTED


def _validated_options(entry: Entry, refusals: list[Refusal]) -> BaseModel | None:
    assert entry.registered is not None
    model = entry.registered.backend.options
    if model is None:
        if entry.options:
            detail = f"backend {entry.backend!r} takes no options, given: {', '.join(sorted(entry.options))}"
            refusals.append(Refusal(Code.OPTION_MISMATCH, detail, "remove the options from the rule"))
        return None
    try:
        return model.model_validate(entry.options)
    except ValidationError as error:
        lines = describe_errors(error, list(model.model_fields))
        refusals.extend(Refusal(Code.OPTION_MISMATCH, f"options of {entry.backend}: {line}") for line in lines)
        return None


def _collect(
    entry: Entry,
    request: MoEConfig,
    environment: Environment,
    options: BaseModel | None,
    refusals: list[Refusal],
    unproven: list[Unproven],
) -> None:
    """Ask the declaration, then the class. A plugin's bug refuses its own candidate and nothing else."""
    experts_class = entry.experts_class
    assert experts_class is not None
    try:
        for finding in experts_class.support.check(request, environment, monolithic=experts_class.monolithic):
            (refusals if isinstance(finding, Refusal) else unproven).append(finding)  # type: ignore[arg-type]
        wanted, has = request.resolved_activation_format, experts_class.activation_format
        if wanted is not has:
            detail = f"tokens arrive as {wanted.value}, this class takes {has.value}"
            refusals.append(Refusal(Code.FORMAT_UNSUPPORTED, detail))
        if options is not None or entry.registered is None or entry.registered.backend.options is None:
            refusals.extend(_own_refusals(experts_class.refusals(request, environment, options)))
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        refusals.append(
            Refusal(
                Code.PLUGIN_BROKEN,
                f"a predicate of {entry.backend}/{entry.experts} ({entry.registered and entry.registered.provider}) "
                f"raised {cause}",
                "report it to the plugin's author",
            )
        )


def _own_refusals(found: object) -> list[Refusal]:
    refusals = list(found)  # type: ignore[call-overload]
    for refusal in refusals:
        if not isinstance(refusal, Refusal):
            raise TypeError(f"refusals() yielded {type(refusal).__name__}, expected Refusal")
    return refusals

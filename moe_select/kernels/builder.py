"""From a report to a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from moe_select.environment import DeviceType, Environment
from moe_select.errors import BuildError, SelectionError
from moe_select.kernels.kernel import MoEKernel, MonolithicMoEKernel
from moe_select.kernels.quant_config import make_quant_config
from moe_select.kernels.routing import Router
from moe_select.support import Refusal
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from moe_select.kernels.experts import Experts
    from moe_select.kernels.prepare_finalize import PrepareFinalize
    from moe_select.kernels.weights import MoEWeights
    from moe_select.plugins import RegisteredPrepareFinalize, Registry
    from moe_select.selection.report import Candidate, Selection
    from moe_select.vocabulary import MoEConfig

_TORCH_DEVICES: Final = {
    DeviceType.CPU: "cpu",
    DeviceType.CUDA: "cuda",
    DeviceType.ROCM: "cuda",
    DeviceType.XPU: "xpu",
}
"""What torch calls the devices of an environment."""


def build(
    selection: Selection,
    weights: MoEWeights,
    *,
    router: Router | None = None,
    prepare_finalize: str | None = None,
) -> MoEKernel | MonolithicMoEKernel:
    """Convert weights to the winner's layout, once, and return the kernel.

    Args:
        selection: a report with a winner.
        weights: in the canonical layout, quantized as the request says, on the device that will run them. The kernel may
            keep references to them; it never changes them.
        router: routing of monolithic experts; default: the request's method without groups, bias or scaling.
        prepare_finalize: name of the prepare/finalize class; default: the first that can carry the request.

    Raises:
        SelectionError: the report has no winner.
        WeightError: weights, scales, zero points or biases do not fit the request.
        BuildError: with these shapes the winner does not support the layer, the weights lie on the wrong device, no
            prepare/finalize class fits, or ``router`` contradicts the kind of kernel.

    """
    winner = selection.winner
    if winner is None or winner.experts_class is None:
        raise SelectionError(selection)
    request = weights.validate(selection.request)
    _check_device(selection.environment, weights)
    _check_support(winner, request, selection.environment)
    experts_class, quant_config = winner.experts_class, make_quant_config(request, weights)
    carrier = _carrier(selection, experts_class, request, prepare_finalize)
    routing = _routing(experts_class, request, router)
    experts = experts_class(request, quant_config, winner.validated_options)
    with torch.no_grad():
        prepared = experts.prepare_weights(weights)
    parts = {
        "selection": selection,
        "request": request,
        "experts": experts,
        "prepare_finalize": carrier(request, quant_config, not experts_class.expects_unquantized_inputs),
        "prepared": prepared,
        "device": weights.device,
    }
    return MoEKernel(**parts) if routing is None else MonolithicMoEKernel(router=routing, **parts)


def _check_device(environment: Environment, weights: MoEWeights) -> None:
    wanted = environment.tensors_on or _TORCH_DEVICES.get(environment.device.type)
    if wanted is not None and weights.device.type != wanted:
        raise BuildError(
            f"the selection was made for a {environment.device.type.value} device, the weights are on {weights.device}; "
            f"move them by weights.to({wanted!r}), or select for the environment that holds them"
        )


def _check_support(winner: Candidate, request: MoEConfig, environment: Environment) -> None:
    """Ask again with the sizes that the tensors have: what the request left open was unproven."""
    experts_class = winner.experts_class
    assert experts_class is not None
    findings = [
        *experts_class.support.check(request, environment, monolithic=experts_class.monolithic),
        *experts_class.refusals(request, environment, winner.validated_options),
    ]
    refusals = [finding for finding in findings if isinstance(finding, Refusal)]
    if refusals:
        lines = [f"  - {refusal}" for refusal in refusals]
        raise BuildError("\n".join([f"{winner.name} does not support these weights:", *lines]))


def _carrier(
    selection: Selection, experts_class: type[Experts], request: MoEConfig, name: str | None
) -> type[PrepareFinalize]:
    reasons = []
    for registered in _known(selection.registry, name):
        found = registered.implementation
        if found.activation_format is not experts_class.activation_format:
            reasons.append(f"{found.name}: delivers {found.activation_format.value}")
            continue
        refusals = list(found.refusals(request, selection.environment))
        if not refusals:
            return found
        reasons += [f"{found.name}: {refusal}" for refusal in refusals]
    wanted = f"{experts_class.__name__} takes {experts_class.activation_format.value}"
    raise BuildError("\n".join([f"no prepare/finalize class fits ({wanted}):", *(f"  - {line}" for line in reasons)]))


def _known(registry: Registry | None, name: str | None) -> list[RegisteredPrepareFinalize]:
    from moe_select.plugins import default_registry

    registered = list((registry or default_registry()).prepare_finalize)
    # Another registry than the process's need not bring the local ones.
    registered = registered or list(default_registry().prepare_finalize)
    if name is None:
        return registered
    names = [item.name for item in registered]
    if name not in names:
        raise BuildError(f"unknown prepare/finalize {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}")
    return [item for item in registered if item.name == name]


def _routing(experts_class: type[Experts], request: MoEConfig, router: Router | None) -> Router | None:
    if not experts_class.monolithic:
        if router is not None:
            raise BuildError(f"{experts_class.__name__} takes topk_weights and topk_ids; it has no use for router=")
        return None
    if router is None:
        if request.topk is None:
            raise BuildError("the request states no topk, and monolithic experts route by themselves; give router=")
        return Router(method=request.routing_method, topk=request.topk)
    if router.method is not request.routing_method or router.topk != (request.topk or router.topk):
        raise BuildError(
            f"router says {router.method.value} top-{router.topk}, the request {request.routing_method.value} "
            f"top-{request.topk}"
        )
    return router

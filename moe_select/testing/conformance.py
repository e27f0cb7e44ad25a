"""A conformance suite for experts classes: subclass it, name the backend, and pytest does the rest.

    class TestAcme(ExpertsConformance):
        backend = "acme/AcmeExperts"

Every (weights, activations) pair and every activation that the class declares is built and compared with the float64 oracle;
the edge cases of a serving engine are tried on a few of them.

Legend: T tokens, K top-k slots, H hidden size, E experts of this rank, G experts over all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from moe_select.environment import Environment
from moe_select.kernels import Experts, MoEWeights
from moe_select.kernels.kernel import MoEKernel, MonolithicMoEKernel
from moe_select.plugins import Registry
from moe_select.selection import Selection, override, select
from moe_select.support import Code, Refusal
from moe_select.testing.bounds import error_bound
from moe_select.testing.cases import bits, is_row_wise, label, logits_of
from moe_select.testing.float64 import oracle
from moe_select.testing.layers import Tokens, random_tokens, relative_error
from moe_select.vocabulary import MoEConfig, ParallelConfig, RoutingMethod


class ExpertsConformance:
    """Tests of one experts class."""

    backend: ClassVar[str]
    """``backend/ExpertsClass``."""
    registry: ClassVar[Registry | None] = None
    """None: the installed plugins."""
    environment: ClassVar[Environment | None] = None
    """None: this machine."""
    device: ClassVar[str] = "cpu"
    sizes: ClassVar[dict[str, int]] = {"num_experts": 6, "topk": 2, "hidden_dim": 128, "intermediate_size": 256}
    tokens: ClassVar[Sequence[int]] = (1, 33)
    most_samples: ClassVar[int] = 4
    """Requests that the edge cases are tried on."""

    @classmethod
    def experts_class(cls) -> type[Experts]:
        """The class under test."""
        from moe_select.plugins import default_registry

        name, _, experts = cls.backend.partition("/")
        found = (cls.registry or default_registry()).find(name)[0].backend.experts
        return next(item for item in found if item.__name__ == experts)

    @classmethod
    def requests(cls) -> list[MoEConfig]:
        """One request for each pair (activations in turn), then one for each activation and dtype with the first pair."""
        support = cls.experts_class().support
        pairs = sorted(support.quant, key=str)
        activations = sorted(support.activations)
        found = [cls.request(*pair, activation=activations[i % len(activations)]) for i, pair in enumerate(pairs)]
        found += [cls.request(*pairs[0], activation=activation) for activation in activations]
        found += [cls.request(*pairs[0], in_dtype=dtype) for dtype in sorted(support.dtypes)]
        return list(dict.fromkeys(found))

    @classmethod
    def request(cls, weight_key: Any, activation_key: Any, **changes: Any) -> MoEConfig:
        """A request for the class under test."""
        experts_class = cls.experts_class()
        fields: dict[str, Any] = {**cls.sizes, "weight_key": weight_key, "activation_key": activation_key}
        fields["activation_format"] = experts_class.activation_format
        fields["activation"] = sorted(experts_class.support.activations)[0]
        if experts_class.monolithic:
            routing = experts_class.support.routing or {RoutingMethod.RENORMALIZE}
            fields["routing_method"] = (
                RoutingMethod.RENORMALIZE if RoutingMethod.RENORMALIZE in routing else sorted(routing)[0]
            )
        return MoEConfig(**fields | changes)

    @classmethod
    def samples(cls) -> list[MoEConfig]:
        """A few requests, as different as the declaration allows."""
        return cls._spread(cls.requests())

    @classmethod
    def _spread(cls, requests: list[MoEConfig]) -> list[MoEConfig]:
        found: dict[Any, MoEConfig] = {}
        for request in requests:
            keys = (request.weight_key, request.activation_key)
            found.setdefault(tuple(key and (key.dtype, key.static) for key in keys), request)
        chosen = list(found.values())
        step = max(1, len(chosen) // cls.most_samples)
        return chosen[::step][: cls.most_samples]

    @classmethod
    def dynamic_samples(cls) -> list[MoEConfig]:
        """Requests whose rows do not share a scale and whose scales are not given: a bad row shows, and in itself only."""
        return cls._spread([request for request in cls.requests() if is_row_wise(request)])

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize by the declaration."""
        for argument, source in (("case", self.requests), ("sample", self.samples), ("row_wise", self.dynamic_samples)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, source(), ids=label)

    def select(self, request: MoEConfig) -> Selection:
        """Select the class under test."""
        return select(request, backend=self.backend, environment=self.environment, registry=self.registry)

    def make(self, request: MoEConfig, seed: int = 0) -> tuple[Any, MoEWeights]:
        """A kernel and the weights it was built from."""
        weights = MoEWeights.random(request, seed, self.device)
        return self.select(request).build(weights), weights

    def call(self, kernel: Any, tokens: Tokens, **arguments: Any) -> Tensor:
        """Run a kernel. Monolithic ones get logits that route as the tokens say."""
        if isinstance(kernel, MonolithicMoEKernel):
            return kernel(tokens.x_TH, logits_of(tokens, kernel.request, kernel.router), **arguments)
        assert isinstance(kernel, MoEKernel)
        return kernel(*tokens, **arguments)

    def check(self, request: MoEConfig, tokens: Tokens, seed: int = 0, **arguments: Any) -> None:
        """Compare one call with the oracle."""
        kernel, weights = self.make(request, seed)
        out = self.call(kernel, tokens, **arguments)
        if isinstance(kernel, MonolithicMoEKernel):
            tokens = Tokens(tokens.x_TH, *kernel.router.route(logits_of(tokens, request, kernel.router)))
        ref = oracle(request, weights, *tokens, **arguments)
        assert out.shape == tokens.x_TH.shape
        assert out.dtype is tokens.x_TH.dtype
        assert relative_error(out, ref) <= error_bound(request)

    def random(self, request: MoEConfig, count: int, seed: int = 1) -> Tokens:
        """Fresh random tokens."""
        return random_tokens(request, count, seed, self.device)

    def test_declaration_is_true(self, case: MoEConfig) -> None:
        """Close to the oracle, for one token and for many."""
        for seed, count in enumerate(self.tokens):
            self.check(case, self.random(case, count, seed), seed)

    def test_no_tokens(self, sample: MoEConfig) -> None:
        """T = 0 gives an empty output."""
        kernel, _ = self.make(sample)
        assert self.call(kernel, self.random(sample, 0)).shape == (0, sample.hidden_dim)

    def test_all_tokens_on_one_expert(self, sample: MoEConfig) -> None:
        """Other experts idle."""
        request = sample.replace(topk=1)
        tokens = self.random(request, 20)
        self.check(request, tokens._replace(topk_ids_TK=torch.full_like(tokens.topk_ids_TK, 3)))

    def test_out_is_written_over(self, sample: MoEConfig) -> None:
        """Whatever memory held before, in ``out`` or in buffers, does not show."""
        kernel, _ = self.make(sample)
        tokens = self.random(sample, 9)
        first = self.call(kernel, tokens).clone()
        poisoned = torch.full_like(tokens.x_TH, torch.nan)
        self.call(kernel, self.random(sample, 40, 5)._replace(x_TH=torch.full_like(self.random(sample, 40).x_TH, 1e4)))
        assert self.call(kernel, tokens, out=poisoned) is poisoned
        assert relative_error(poisoned, first) <= error_bound(sample)

    def test_out_may_be_the_input(self, sample: MoEConfig) -> None:
        """In place."""
        kernel, _ = self.make(sample)
        tokens = self.random(sample, 9)
        expected = self.call(kernel, tokens).clone()
        self.call(kernel, tokens, out=tokens.x_TH)
        assert relative_error(tokens.x_TH, expected) <= error_bound(sample)

    def test_strided_tensors(self, sample: MoEConfig) -> None:
        """Views of wider tensors, in and out."""
        kernel, _ = self.make(sample)
        tokens = self.random(sample, 9)
        wide = torch.cat([tokens.x_TH, tokens.x_TH], dim=1)
        strided = Tokens(
            wide[:, : sample.hidden_dim], tokens.topk_weights_TK.T.contiguous().T, tokens.topk_ids_TK.T.contiguous().T
        )
        out = torch.full_like(wide, torch.nan)
        self.call(kernel, strided, out=out[:, ::2])
        assert relative_error(out[:, ::2], self.call(kernel, tokens)) <= error_bound(sample)
        assert out[:, 1::2].isnan().all()

    def test_inputs_and_weights_are_left_alone(self, sample: MoEConfig) -> None:
        """Nothing the caller owns changes."""
        kernel, weights = self.make(sample)
        tokens = self.random(sample, 9)
        before = [part.clone() for part in (*tokens, *(tensor for _, tensor in weights.tensors()))]
        self.call(kernel, tokens)
        after = (*tokens, *(tensor for _, tensor in weights.tensors()))
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(before, after, strict=True))

    def test_bad_rows_stay_in_their_row(self, row_wise: MoEConfig) -> None:
        """NaN and Inf are neither spread nor swallowed."""
        kernel, _ = self.make(row_wise)
        tokens = self.random(row_wise, 12)
        expected = self.call(kernel, tokens).clone()
        tokens.x_TH[4, 7], tokens.x_TH[9, 1] = torch.nan, torch.inf
        out = self.call(kernel, tokens)
        good = torch.tensor([row not in (4, 9) for row in range(12)], device=out.device)
        assert out[good].isfinite().all()
        assert relative_error(out[good], expected[good]) <= error_bound(row_wise)
        assert not out[~good].isfinite().all(dim=1).any()

    def test_biases(self, sample: MoEConfig) -> None:
        """Biases count where the class declares them."""
        if not self.experts_class().support.features.get("bias"):
            assert Code.FEATURE_UNSUPPORTED in self.codes(sample.replace(bias=True))
            return
        request = sample.replace(bias=True)
        self.check(request, self.random(request, 9))

    def test_constants_of_swiglu(self, sample: MoEConfig) -> None:
        """The request's constants are honoured where the class declares it."""
        request = sample.replace(swiglu_limit=0.5, swiglu_alpha=1.3)
        if not self.experts_class().support.features.get("swiglu_constants"):
            assert Code.ACTIVATION_UNSUPPORTED in self.codes(request)
            return
        self.check(request, self.random(request, 9))

    def test_experts_of_other_ranks(self, sample: MoEConfig) -> None:
        """Slots whose expert is elsewhere, and padding, contribute nothing."""
        local = self.sizes["num_experts"]
        request = sample.replace(num_experts=2 * local, parallel=ParallelConfig(ep_size=2))
        if not self.experts_class().support.parallel.expert:
            assert Code.PARALLEL_UNSUPPORTED in self.codes(request)
            return
        expert_map = torch.full((2 * local,), -1, dtype=torch.int32, device=self.device)
        expert_map[1::2] = torch.arange(local, dtype=torch.int32, device=self.device)
        tokens = self.random(request, 17)
        if not self.experts_class().monolithic:
            tokens.topk_ids_TK[3] = -1
        self.check(request, tokens, expert_map=expert_map)
        nobody = torch.full_like(expert_map, -1)
        kernel, _ = self.make(request)
        assert not self.call(kernel, tokens, expert_map=nobody).any()

    def test_router_weight_on_input(self, sample: MoEConfig) -> None:
        """One slot, weights applied to the tokens."""
        if self.experts_class().monolithic:
            return
        request = sample.replace(topk=1)
        tokens = self.random(request, 9)
        weights = torch.linspace(0.1, 2, 9, device=self.device).view(9, 1)
        self.check(request, tokens._replace(topk_weights_TK=weights), apply_router_weight_on_input=True)

    def test_declared_invariances(self, sample: MoEConfig) -> None:
        """Same input, same bits; and the same row in any batch, where the class declares that."""
        features = self.experts_class().support.features
        request = sample.replace(
            deterministic=bool(features.get("deterministic")), batch_invariant=bool(features.get("batch_invariant"))
        )
        if Code.BATCH_INVARIANCE_UNSUPPORTED in self.codes(request):
            request = request.replace(batch_invariant=False)
        kernel, _ = self.make(request)
        tokens = self.random(request, 40)
        out = self.call(kernel, tokens).clone()
        if request.deterministic:
            assert torch.equal(out, self.call(kernel, tokens))
        if request.batch_invariant:
            for rows in (slice(0, 1), slice(3, 20), slice(39, 40)):
                part = Tokens(*(tensor[rows] for tensor in tokens))
                assert torch.equal(out[rows], self.call(kernel, part))

    def test_predicates_yield_refusals(self, sample: MoEConfig) -> None:
        """A request that says nothing is answered too: unknown facts abstain."""
        experts_class = self.experts_class()
        empty = MoEConfig(weight_key=sample.weight_key, activation_key=sample.activation_key)
        found = list(experts_class.refusals(empty, self.select(sample).environment, None))
        assert all(isinstance(item, Refusal) for item in found)

    def codes(self, request: MoEConfig) -> set[Code]:
        """Codes of the refusals of the class under test."""
        from moe_select.selection import explain

        with override(backend=self.backend, environment=self.environment, registry=self.registry):
            return {refusal.code for candidate in explain(request).refused for refusal in candidate.refusals}

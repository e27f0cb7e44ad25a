"""Building and calling: what fits runs, what does not is told, all of it at once."""

from __future__ import annotations

import pytest
import torch

from moe_select import (
    BuildError,
    KernelCallError,
    MoEConfig,
    MoEWeights,
    Router,
    SelectionError,
    WeightError,
    explain,
    make_quant_config,
    preset,
    select,
)
from moe_select.kernels.kernel import MonolithicMoEKernel
from moe_select.testing import error_bound, make_request, oracle, random_tokens, relative_error

REQUEST = make_request()


def weights_of(request=REQUEST, **changes):
    return MoEWeights.random(request).replace(**changes)


def kernel_of(request=REQUEST, **arguments):
    return select(request, backend=request.moe_backend or "cpu").build(weights_of(request), **arguments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w13_scale": None}, ["w13_scale is missing"]),
        ({"w13_scale": torch.ones(8, 192)}, ["w13_scale is [8, 192], expected [8, 192, 1]"]),
        ({"w2": torch.zeros(8, 64, 95, dtype=torch.int8)}, ["w13 has 192 rows", "= 190"]),
        ({"w2": torch.zeros(7, 64, 96, dtype=torch.int8)}, ["w13 has 8 experts, w2 has 7"]),
        ({"w13": torch.zeros(8, 192, 64)}, ["w13 is torch.float32", "int8"]),
        ({"w13_bias": torch.zeros(8, 192)}, ["w13_bias is given, but the request says bias=False"]),
        ({"w13_zero_point": torch.zeros(8, 192, 1)}, ["w13_zero_point is given"]),
        ({"key": None, "w13_scale": None, "w2_scale": None}, ["asks for weights quantized as int8_static_channel_sym"]),
        ({"w13_scale": None, "w2_scale": None}, ["w13_scale is missing", "w2_scale is missing"]),
        ({"w13": torch.zeros(8, 192, dtype=torch.int8)}, ["w13 must be [E, F, H]"]),
    ],
)
def test_weights_that_do_not_fit(changes, words):
    with pytest.raises(WeightError) as caught:
        select(REQUEST).build(weights_of(**changes))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("request_", "changes", "word"),
    [
        (REQUEST, {"a1_scale": torch.ones(())}, "a1_scale without a2_scale"),
        (REQUEST, {"a2_scale": torch.ones(())}, "a2_scale without a1_scale"),
        (REQUEST, {"a1_scale": torch.ones(()), "a2_scale": torch.ones(())}, "does not take it"),
        (make_request(activation_key=None), {"a1_scale": torch.ones(()), "a2_scale": torch.ones(())}, "have none"),
        (make_request(activation_key="int8_static_tensor_sym"), {"a1_scale": None, "a2_scale": None}, "are missing"),
        (make_request(activation_key="int8_static_tensor_sym"), {"a1_scale": torch.ones(3)}, "one value"),
    ],
)
def test_contradictory_activation_scales(request_, changes, word):
    with pytest.raises(WeightError, match=word):
        make_quant_config(request_, weights_of(request_, **changes))


def test_quant_configs():
    w8a8, w8a16 = (
        make_quant_config(REQUEST, weights_of()),
        make_quant_config(make_request(activation_key=None), weights_of()),
    )
    assert (w8a8.per_token, w8a16.per_token) == (True, False)
    assert w8a8.w13_scale.shape == (8, 192, 1)


def test_sizes_that_were_not_stated_come_from_the_weights():
    request = MoEConfig(weight_key=REQUEST.weight_key, activation_key=REQUEST.activation_key)
    kernel = select(request).build(weights_of())
    assert (kernel.request.num_experts, kernel.request.hidden_dim, kernel.request.intermediate_size) == (8, 64, 96)
    assert kernel(*random_tokens(REQUEST, 3)).shape == (3, 64)


def test_a_shape_that_was_unproven_is_refused_at_build():
    request = MoEConfig(weight_key="mxfp4_static")
    weights = MoEWeights.random(make_request(weight_key="mxfp4_static", activation_key=None))
    assert select(request, backend="reference").build(weights)
    odd = MoEWeights(
        w13=torch.zeros(2, 20, 32, dtype=torch.uint8),
        w2=torch.zeros(2, 64, 5, dtype=torch.uint8),
        key="mxfp4_static",
        w13_scale=torch.zeros(2, 20, 2, dtype=torch.uint8),
        w2_scale=torch.zeros(2, 64, 1, dtype=torch.uint8),
    )
    with pytest.raises(BuildError, match="intermediate_size_per_partition 10 is not a multiple of 32"):
        select(request, backend="reference").build(odd)


def test_a_selection_without_a_winner():
    with pytest.raises(SelectionError):
        explain(REQUEST, environment=preset("t4")).build(weights_of())


def test_weights_on_the_wrong_device():
    selection = select(REQUEST, environment=preset("h200"), backend="reference")
    with pytest.raises(BuildError, match="made for a cuda device, the weights are on cpu"):
        selection.build(weights_of())


def test_tokens_that_must_travel_find_no_carrier():
    request = make_request(parallel={"ep_size": 2, "dp_size": 2})
    with pytest.raises(BuildError, match="local_standard moves no tokens"):
        select(request).build(weights_of(request))
    passthrough = make_request(parallel={"ep_size": 2, "dp_size": 2, "all2all_backend": "passthrough"})
    assert select(passthrough).build(weights_of(passthrough))


def test_prepare_finalize_by_name():
    assert kernel_of(prepare_finalize="local_standard").prepare_finalize.name == "local_standard"
    with pytest.raises(BuildError, match="did you mean 'local_standard'"):
        kernel_of(prepare_finalize="local_standart")


def test_a_router_for_modular_experts():
    with pytest.raises(BuildError, match="no use for router"):
        kernel_of(router=Router(method="default", topk=2))


X, W, IDS = random_tokens(REQUEST, 4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"x_TH": X[:, :60]}, r"x is \[4, 60\]; expected \[T, H\] with H = 64"),
        ({"x_TH": X[0]}, r"x is \[64\]"),
        ({"x_TH": X.float()}, "built for torch.bfloat16"),
        ({"topk_ids_TK": IDS[:3]}, r"topk_ids is \[3, 2\]; expected \[T, K\] = \[4, 2\]"),
        ({"topk_ids_TK": IDS.float()}, "expected int32 or int64"),
        ({"topk_weights_TK": W[:, :1]}, "topk_weights is"),
        ({"topk_ids_TK": torch.full_like(IDS, 8)}, "holds 8 to 8; legal: -1"),
        ({"topk_ids_TK": torch.full_like(IDS, -2)}, "holds -2 to -2"),
        ({"expert_map": torch.zeros(8)}, r"expected \[G\] of int32"),
        ({"expert_map": torch.full((8,), 9, dtype=torch.int32)}, "expert_map holds 9 to 9"),
        ({"apply_router_weight_on_input": True}, "needs one slot, topk is 2"),
        ({"out": torch.empty(4, 63, dtype=torch.bfloat16)}, r"out is \[4, 63\]"),
        ({"out": torch.empty(4, 64)}, "expected .* of torch.bfloat16"),
    ],
)
def test_wrong_calls(changes, word):
    kernel = kernel_of()
    with pytest.raises(KernelCallError, match=word):
        kernel(**{"x_TH": X, "topk_weights_TK": W, "topk_ids_TK": IDS, **changes})


def test_all_problems_of_a_call_at_once():
    with pytest.raises(KernelCallError) as caught:
        kernel_of()(X.float(), W[:1], IDS[:2])
    assert str(caught.value).count("\n  - ") >= 3


def test_more_tokens_than_were_promised():
    kernel = kernel_of(make_request(max_tokens=3))
    with pytest.raises(KernelCallError, match="4 tokens; the request said at most 3"):
        kernel(X, W, IDS)


def test_int64_ids_and_low_precision_weights():
    kernel = kernel_of()
    expected = kernel(X, W, IDS)
    assert torch.equal(kernel(X, W, IDS.long()), expected)
    assert relative_error(kernel(X, W.bfloat16(), IDS), expected) < 0.01


def test_batched_experts_are_fed_locally():
    request = make_request(activation_format="batched_experts", moe_backend="reference")
    kernel = kernel_of(request)
    assert kernel.prepare_finalize.name == "local_batched"
    tokens = random_tokens(request, 11)
    assert relative_error(kernel(*tokens), oracle(request, weights_of(request), *tokens)) <= error_bound(request)


@pytest.mark.parametrize("method", ["deepseek_v3", "llama4", "renormalize"])
def test_monolithic_kernels_route(method):
    topk = 1 if method == "llama4" else 2
    request = make_request(routing_method=method, topk=topk, moe_backend="reference/ReferenceMonolithicExperts")
    router = Router(
        method=method, topk=topk, **({"num_groups": 2, "bias_G": torch.randn(8)} if "deep" in method else {})
    )
    kernel = kernel_of(request, router=router)
    assert isinstance(kernel, MonolithicMoEKernel)
    x_TH, logits_TG = random_tokens(request, 9).x_TH, torch.randn(9, 8).bfloat16()
    expected = oracle(
        request, weights_of(request), x_TH, *router.route(logits_TG), apply_router_weight_on_input=method == "llama4"
    )
    assert relative_error(kernel(x_TH, logits_TG), expected) <= error_bound(request)
    with pytest.raises(KernelCallError, match=r"router_logits is \[9, 7\]"):
        kernel(x_TH, logits_TG[:, :7])
    with pytest.raises(KernelCallError, match=r"router_logits is torch\.float32"):
        kernel(x_TH, logits_TG.float())


def test_a_kernel_says_what_it_is():
    assert repr(kernel_of()) == "<MoEKernel cpu/CPUExpertsInt8, local_standard, on cpu>"

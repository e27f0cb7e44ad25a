"""Steer single layers with a policy file."""

from pathlib import Path

import moe_select

POLICY = Path(__file__).with_name("policy.yaml")

base = moe_select.MoEConfig(
    num_experts=8,
    topk=2,
    hidden_dim=128,
    intermediate_size=256,
    weight_key="int8_static_channel_sym",
    activation_key="int8_dynamic_token_sym",
)

for index in range(3):
    request = base.replace(layer=f"model.layers.{index}.mlp.experts")
    selection = moe_select.select(request, policy=POLICY)
    print(f"{request.layer}: {selection.backend}, decided by {selection.deciding}")

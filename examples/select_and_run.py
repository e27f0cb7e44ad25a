"""Choose a kernel for one int8 MoE layer, build it and run it."""

import torch

import moe_select

request = moe_select.MoEConfig(
    num_experts=16,
    topk=2,
    hidden_dim=256,
    intermediate_size=512,
    weight_key="int8_static_channel_sym",
    activation_key="int8_dynamic_token_sym",
)
selection = moe_select.select(request)
print(selection.log_line())

w13_EFH, w2_EHI = torch.randn(16, 1024, 256) / 16, torch.randn(16, 256, 512) / 16
weights = moe_select.MoEWeights(w13=w13_EFH, w2=w2_EHI).quantize(request.weight_key)
kernel = selection.build(weights)

x_TH = torch.randn(4, 256, dtype=torch.bfloat16)
topk_weights_TK, topk_ids_TK = torch.randn(4, 16).softmax(-1).topk(2)
out_TH = kernel(x_TH, topk_weights_TK, topk_ids_TK)
print(tuple(out_TH.shape), out_TH.dtype)

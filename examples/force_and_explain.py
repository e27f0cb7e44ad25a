"""Ask for a backend by name, see why one cannot run, and ask what other machines would choose."""

import moe_select

request = moe_select.MoEConfig(
    num_experts=128,
    topk=8,
    hidden_dim=2048,
    intermediate_size=768,
    weight_key="int8_static_channel_sym",
    activation_key="int8_dynamic_token_sym",
)

# By argument: it runs or the call fails with every reason.
print(moe_select.select(request, backend="reference").log_line())

# For a block of code that calls select() somewhere inside.
with moe_select.override(backend="cpu", environment=moe_select.preset("h200")):
    try:
        moe_select.select(request)
    except moe_select.SelectionError as error:
        print(error)
        codes = {refusal.code for candidate in error.selection.refused for refusal in candidate.refusals}
        assert moe_select.Code.DEVICE_UNSUPPORTED in codes

# What would other machines say? explain() reports instead of raising.
for name in ("zen4", "graviton4", "h200", "mi300x"):
    selection = moe_select.explain(request, environment=moe_select.preset(name))
    print(f"{name:10} {selection.winner.name if selection.winner else 'no backend'}")

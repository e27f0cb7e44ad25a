"""The policy: ``backends.yaml`` and everything else that says which backend runs."""

from moe_select.policy.fields import FIELDS, facts
from moe_select.policy.lint import lint
from moe_select.policy.loading import PolicySource, default_policy, load_policy, parse_policy
from moe_select.policy.model import DeclaredBackend, ExplicitBackend, Origin, Policy, Rule, Scheme, Target
from moe_select.policy.plain import EffectiveValue, effective_values, policy_to_yaml
from moe_select.policy.problems import Problem, Severity
from moe_select.policy.schema import schema
from moe_select.policy.variables import SELECTION_VARIABLES, VARIABLES

__all__ = [
    "FIELDS",
    "SELECTION_VARIABLES",
    "VARIABLES",
    "DeclaredBackend",
    "EffectiveValue",
    "ExplicitBackend",
    "Origin",
    "Policy",
    "PolicySource",
    "Problem",
    "Rule",
    "Scheme",
    "Severity",
    "Target",
    "default_policy",
    "effective_values",
    "facts",
    "lint",
    "load_policy",
    "parse_policy",
    "policy_to_yaml",
    "schema",
]

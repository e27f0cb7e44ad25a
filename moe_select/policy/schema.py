"""JSON schema (draft 2020-12) of a policy document, for editors; its conditions come from the table of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moe_select.policy.document import AUTO, SPLICE, VERBS, VERSION
from moe_select.policy.fields import FIELDS, Field
from moe_select.policy.read_document import BACKEND_PATTERN, SCHEME_PATTERN, TARGET_PATTERN
from moe_select.vocabulary.quant_keys import CONSTANTS, NAMED_KEYS

if TYPE_CHECKING:
    from moe_select.plugins import RegisteredBackend, Registry

_VERB_MEANINGS: Final = {
    "require": "only these run, or nothing does",
    "prefer": "move to the front; names that are not listed are added",
    "demote": "move to the back",
    "deny": "never; reported as refused",
}
_LONG_KEY: Final = r"^[a-z0-9_]+/(static|dynamic)/[a-z0-9x-]+/[a-z0-9_]+/(sym|asym)(/(static|dynamic)/[^/]+/[^/]+)?$"
_TARGET: Final = {"$ref": "#/$defs/target"}
_TEXT: Final = {"type": "string", "pattern": r"\S"}


def schema(registry: Registry | None = None) -> dict[str, Any]:
    """The schema. With a registry, the names, classes and options of installed backends are in it.

    A name that is not installed is legal here, since a file may serve machines that have it; the linter knows better.
    """
    options, definitions = _options(registry.backends if registry else ())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "moe_select policy",
        "type": "object",
        "additionalProperties": False,
        "required": ["version"],
        "properties": {
            "version": {"const": VERSION},
            "backend": {"description": "explicit backend or alias; auto cancels", **_either({"const": AUTO}, _TARGET)},
            "backends": _declared(),
            "schemes": _map_of(_scheme(), SCHEME_PATTERN, "sets of quantization pairs and their backends"),
            "rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
        },
        "$defs": {
            "target": _target(registry),
            "targets": _list_of(_TARGET),
            "quant_key": _either({"enum": ["none", *NAMED_KEYS, *CONSTANTS]}, {"type": "string", "pattern": _LONG_KEY}),
            "when": _when(),
            "rule": _rule(options),
            **definitions,
        },
    }


def _either(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def _list_of(item: Mapping[str, Any], least: int = 1) -> dict[str, Any]:
    """A list of distinct items, or of ``...``, which stands for the list below."""
    return {"type": "array", "minItems": least, "uniqueItems": True, "items": _either({"const": SPLICE}, item)}


def _map_of(value: Mapping[str, Any], names: str, description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": names},
        "additionalProperties": value,
    }


def _declared() -> dict[str, Any]:
    install = {**_TEXT, "description": "what to run to install it"}
    entry = {"type": ["object", "null"], "additionalProperties": False, "properties": {"install": install}}
    return _map_of(entry, BACKEND_PATTERN, "names that are not installed everywhere")


def _target(registry: Registry | None) -> dict[str, Any]:
    text = {"type": "string", "pattern": TARGET_PATTERN, "not": {"enum": [AUTO, SPLICE]}}
    description = "backend, backend/ExpertsClass, distribution:backend or a pattern of these"
    names = [name for registered in (registry.backends if registry else ()) for name in _names(registered)]
    # The enumeration is what editors complete from; any well-formed target is legal.
    return {"description": description, **_either(*([{"enum": sorted(set(names))}] if names else []), text)}


def _names(registered: RegisteredBackend) -> list[str]:
    name = registered.name
    return [name, registered.qualified_name, *(f"{name}/{experts.__name__}" for experts in registered.backend.experts)]


def _scheme() -> dict[str, Any]:
    key = {"$ref": "#/$defs/quant_key"}
    pair = {"type": "array", "minItems": 2, "maxItems": 2, "items": key, "description": "[weights, activations]"}
    return {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            "match": _list_of(pair),
            "aliases": {"type": "object", "additionalProperties": _either(_TARGET, {"$ref": "#/$defs/targets"})},
            "backends": {"description": "tried in this order", **_list_of(_TARGET, least=0)},
        },
    }


def _rule(options: dict[str, Any]) -> dict[str, Any]:
    verbs = {verb: {"description": _VERB_MEANINGS[verb], "$ref": "#/$defs/targets"} for verb in VERBS}
    does_something = [{"required": [verb]} for verb in (*VERBS, "options")]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {
            "name": {**_TEXT, "description": "reports and stronger layers refer to it"},
            "enabled": {"type": "boolean", "description": "false switches the rule of this name off"},
            "when": {"$ref": "#/$defs/when"},
            **verbs,
            "options": options,
            "reason": {**_TEXT, "description": "shown wherever the rule decides"},
        },
        "anyOf": [*does_something, {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}],
    }


def _when() -> dict[str, Any]:
    available = {name: _condition(field) for name, field in FIELDS.items() if field.unavailable is None}
    nested = {"$ref": "#/$defs/when", "minProperties": 1}
    return {"type": "object", "additionalProperties": False, "properties": {**available, "not": nested}}


def _condition(field: Field) -> dict[str, Any]:
    value = field.kind.schema
    some = _either(value, {"type": "array", "minItems": 1, "items": value})
    if field.keyed:
        some = {"type": "object", "minProperties": 1, "additionalProperties": some}
    return {"description": field.meaning, **some}


def _options(backends: tuple[RegisteredBackend, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options by backend, and the definitions that they refer to."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for registered in backends:
        model = registered.backend.options
        if model is None:
            continue
        prefix = f"options_{registered.provider.distribution}_{registered.name}_"
        described = model.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
        for name, definition in described.pop("$defs", {}).items():
            definitions[f"{prefix}{name}"] = definition
        # Options of several rules add up, so no rule alone must give all of them.
        described.pop("required", None)
        properties.update(dict.fromkeys((registered.name, registered.qualified_name), described))
    entry = {"type": "object", "minProperties": 1}
    return {"type": "object", "minProperties": 1, "properties": properties, "additionalProperties": entry}, definitions

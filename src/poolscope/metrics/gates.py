"""Gates: conditions on the numbers of a result under which a pipeline fails.

A condition reads ``FIELD OP NUMBER [at N] [for NAME] [where KEY = VALUE [and KEY = VALUE ...]]``::

    exposed_90 > 0.02 at 365 for strong
    rmse > 0.001 where mechanism = oue and epsilon = 2
    recommendation.exposed > 5%
    meets_targets != yes

``at N`` is short for ``where n = N``, and ``for NAME`` for ``where adversary = NAME``. A gate fails if any selected
record fulfills its condition. The non-private game has no mechanism: it is selected by name only. Where a field has an
interval (``FIELD_low``, ``FIELD_high``), the unfavorable end decides, or the favorable one if `on_uncertain` is "pass".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, did_you_mean, one_line
from poolscope.core.validation import INFINITIES
from poolscope.game.columns import NON_PRIVATE
from poolscope.metrics.models import Result, json_schema

FORM = 'FIELD OP NUMBER [at N] [for NAME] [where KEY = VALUE], as "exposed_90 > 0.02 at 180 for strong"'

POLICIES = ("fail", "pass")
"""What an interval that contains the limit does."""

ORDER = (">", ">=", "<", "<=")
EQUALITY = ("=", "!=")

PRIMARY = ("results", "recommendation", "")
"""Where a field without a path is looked up first: the records of a run, a recommendation, the result itself."""

LABELS = ("collection", "mechanism", "epsilon", "adversary", "n", "pool", "criterion", "about", "variant", "mitigation")
"""Fields that identify a record."""

CLOSE = 1e-9
"""Relative difference of a number and the one that selects it, as ε may be computed from other parameters."""

MAX_NAMES = 8
"""Paths listed in a message."""

_TOKEN = re.compile(r"""\s*("[^"]*"|'[^']*'|>=|<=|==|!=|[<>=]|[^\s<>=!"']+)""")

Fields = Mapping[str, Mapping[str, str]]
"""Kinds of fields ("number" or "text") by name, by the path of the records that have them."""


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Whether one gate has passed.

    Parameters
    ----------
    condition : as it was given.
    passed : whether no selected record fulfills it.
    uncertain : whether the interval of the deciding record contains the limit, or its value is unknown.
    reason : the deciding value, in one line.

    Examples
    --------
    >>> ps.metrics.gate({"results": [{"n": 7, "precision": 0.5}]}, "precision > 0.4")
    GateResult(condition='precision > 0.4', passed=False, uncertain=False, reason='precision is 0.5 at n 7')
    """

    condition: str
    passed: bool
    uncertain: bool
    reason: str

    @property
    def text(self) -> str:
        """The verdict in one line."""
        return f"gate {'passed' if self.passed else 'failed'}: {self.condition}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A parsed condition.

    Parameters
    ----------
    text : as it was given.
    path, field : of the records, None where only a name is given; and the name.
    op, limit : the comparison.
    where : required values, by field.
    """

    text: str
    path: str | None
    field: str
    op: str
    limit: float | str
    where: Mapping[str, str]

    def check(
        self, kind: type, known: Mapping[str, Sequence[Any]] | None = None, absent: Mapping[str, str] | None = None
    ) -> None:
        """Refuse what the results of this kind cannot have, before anything is computed.

        Parameters
        ----------
        known : all values that a field of the results will have, as those of ``adversary``.
        absent : fields that these results will not have, and what they need.
        """
        path = self._resolve(schema_fields(json_schema(kind)))
        need = (absent or {}).get(re.sub("_(low|high)$", "", self.field))
        if path == PRIMARY[0]:
            if need is not None:
                raise self._error("this result has no such field", self.field, need)
            for key, values in (known or {}).items():
                self._check_value(key, values)

    def judge(self, found: Mapping[str, Any], on_uncertain: str = "fail") -> GateResult:
        """Return whether a result, as JSON has it, passes."""
        records = list(_records(found))
        path = self._resolve(_fields(records))
        mine = [record for where, record in records if where == path and self.field in record]
        for key in self.where:
            self._check_value(key, [record.get(key) for record in mine])
        chosen = [record for record in mine if self._selects(record)]
        if not chosen:
            selected = " and ".join(f"{key} = {value}" for key, value in self.where.items())
            raise self._error("no record has this combination", selected, "ask for fewer of them")
        judged = [(self._severity(record), -i, record) for i, record in enumerate(chosen)]
        (state, _), _, worst = max(judged, key=lambda entry: entry[:2])
        passed = state == 0 or (state == 1 and on_uncertain == "pass")
        return GateResult(
            condition=self.text, passed=passed, uncertain=state == 1, reason=self._reason(worst, state, len(chosen))
        )

    def _selects(self, record: Mapping[str, Any]) -> bool:
        if "adversary" not in self.where and record.get("adversary") == NON_PRIVATE:
            return False
        return all(_equals(record.get(key), value) for key, value in self.where.items())

    def _check_value(self, key: str, values: Sequence[Any]) -> None:
        if key not in self.where or any(_equals(value, self.where[key]) for value in values):
            return
        known = list(dict.fromkeys(_text(value) for value in values if value is not None))
        if not known:
            raise self._error(f"the records of {self.field} have no field {key!r}", self.where[key])
        numbers = all(_number(value) is not None for value in values if value is not None)
        remedy = f"known: {', '.join(known)}" if numbers else did_you_mean(self.where[key], known)
        raise self._error(f"{key} must be one of the result's", self.where[key], remedy)

    def _resolve(self, fields: Fields) -> str:
        """Return the path of the records that have the field."""
        if self.path is not None:
            if self.field not in fields.get(self.path, {}):
                known = [_joined(path, name) for path, names in fields.items() for name in names]
                raise self._unknown(_joined(self.path, self.field), known)
            found = [self.path]
        else:
            found = [path for path in fields if self.field in fields[path]]
            found = next(([path] for path in PRIMARY if path in found), found)
            if not found:
                order = sorted(fields, key=lambda path: path not in PRIMARY)
                raise self._unknown(self.field, list(dict.fromkeys(name for path in order for name in fields[path])))
        if len(found) > 1:
            several = ", ".join(_joined(path, self.field) for path in found[:MAX_NAMES])
            raise self._error("the field must be one of several", self.field, f"name one: {several}")
        if (kind := fields[found[0]][self.field]) != ("number" if self.op in ORDER else "text"):
            rule = f"a {kind} must be compared with one of {' '.join(ORDER if kind == 'number' else EQUALITY)}"
            raise self._error(rule, self.op)
        return found[0]

    def _severity(self, record: Mapping[str, Any]) -> tuple[int, float]:
        """Return 2 where the condition holds, 1 where that is uncertain, else 0; and how far the value goes."""
        value = record[self.field]
        if self.op in EQUALITY:
            return 2 * (_equals(value, str(self.limit)) == (self.op == "=")), 0.0
        ends = [_number(record.get(f"{self.field}{end}", value)) for end in ("_low", "_high")]
        if any(end is None for end in ends) or value is None:
            return 1, math.inf
        assert isinstance(self.limit, float)
        sign = 1.0 if self.op[0] == ">" else -1.0
        favorable, worst = sorted(sign * end for end in ends if end is not None)
        limit, also = sign * self.limit, self.op.endswith("=")
        beyond = [end > limit or (also and end == limit) for end in (favorable, worst)]
        return sum(beyond), worst

    def _reason(self, record: Mapping[str, Any], state: int, chosen: int) -> str:
        value = f"{self.field} is {_text(record[self.field])}"
        low, high = (record.get(f"{self.field}{end}") for end in ("_low", "_high"))
        if low is not None and high is not None:
            value += f" (95% CI {_text(low)}–{_text(high)})"
        labels = [f"{key} {_text(record[key])}" for key in LABELS if key in record and key not in self.where]
        if labels and self.field not in LABELS:
            value += f" at {', '.join(labels)}" + f", the worst of {chosen:,} records" * (chosen > 1)
        if state == 1:
            unknown = record[self.field] is None
            value += ": the value is unknown" if unknown else ": the interval contains the limit"
        return one_line(value)

    def _unknown(self, name: str, known: Sequence[str]) -> InputError:
        return self._error("must be a field of the result", name, did_you_mean(name, known))

    def _error(self, rule: str, value: object, remedy: str | None = None) -> InputError:
        return InputError(rule, value=value, place=f"gate {self.text!r}", remedy=remedy)


def parse_gate(text: str) -> Gate:
    """Return the gate of a condition; an ``InputError`` shows the form where it has another one."""
    tokens, end = [], 0
    while found := _TOKEN.match(text, end):
        tokens.append(found[1])
        end = found.end()
    if text[end:].strip() or len(tokens) < 3 or tokens[1] not in (*ORDER, *EQUALITY, "=="):
        raise InputError(f"must read {FORM}", value=text, place="gate")
    (named, op, given), rest = tokens[:3], tokens[3:]
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", named):
        raise InputError("must begin with the name of a field", value=text, place="gate")
    path, _, field = named.rpartition(".")
    op = "=" if op == "==" else op
    limit = _limit(given, text) if op in ORDER else _unquoted(given)
    return Gate(
        text=one_line(text), path=path or None, field=field, op=op, limit=limit, where=dict(_selections(rest, text))
    )


def _selections(tokens: list[str], text: str) -> Iterator[tuple[str, str]]:
    """Yield the required values of a condition, by field."""
    seen: set[str] = set()
    while tokens:
        word = tokens.pop(0)
        if word in ("at", "for") and tokens:
            key, value = {"at": "n", "for": "adversary"}[word], tokens.pop(0)
        elif word in ("where", "and") and len(tokens) > 2 and tokens[1] in ("=", "=="):
            (key, _, value), tokens = tokens[:3], tokens[3:]
        else:
            raise InputError(f"must read {FORM}", value=text, place="gate")
        if key in seen:
            raise InputError(f"must select {key} once", value=text, place="gate")
        seen.add(key)
        yield key, _unquoted(value)


def _unquoted(token: str) -> str:
    return token[1:-1] if token[0] in "\"'" else token


def _limit(token: str, text: str) -> float:
    try:
        limit = float(token.removesuffix("%")) / (100.0 if token.endswith("%") else 1.0)
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise InputError("must compare with a number, as 0.02 or 2%", value=text, place="gate") from None
    return limit


@checked
def gate(result: Any, condition: str, *, on_uncertain: str = "fail") -> GateResult:
    """Return whether a result passes a gate: whether none of its records fulfills a condition.

    Parameters
    ----------
    result : what `audit`, `compare`, `advise` or `check` returns, or the JSON of one as a dictionary.
    condition : ``FIELD OP NUMBER [at N] [for NAME] [where KEY = VALUE [and KEY = VALUE ...]]``.
    on_uncertain : "fail" or "pass": what happens where the 95% interval contains the limit, or a value is unknown.

    Examples
    --------
    >>> summary = ps.audit(ps.load_scenario("apple-emojis"), "run", users=100, seed=1, html=False)
    >>> ps.metrics.gate(summary, "exposed_90 > 0.9 at 180 for weak").passed
    True
    >>> ps.metrics.gate(summary, "auc_pn > 0.2 at 180").passed
    False
    """
    if on_uncertain not in POLICIES:
        raise InputError("on_uncertain must be fail or pass", value=on_uncertain)
    if not isinstance(result, Mapping) and not (is_dataclass(result) and isinstance(result, Result)):
        raise InputError("must be a result of audit, compare, advise or check", value=type(result).__name__)
    return parse_gate(condition).judge(result if isinstance(result, Mapping) else result.as_json(), on_uncertain)


def schema_fields(schema: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the fields of all records that a JSON Schema describes."""
    found: dict[str, dict[str, str]] = {}

    def kinds(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if "$ref" in entry:
            entry = schema["$defs"][entry["$ref"].rpartition("/")[2]]
        if "anyOf" in entry:
            for one in entry["anyOf"]:
                yield from kinds(one)
        else:
            yield entry

    def visit(entry: Mapping[str, Any], path: str) -> None:
        own = found.setdefault(path, {})
        for name, value in entry.get("properties", {}).items():
            for kind in kinds(value):
                items = list(kinds(kind["items"])) if isinstance(kind.get("items"), Mapping) else []
                for one in (kind, *items):
                    if "properties" in one:
                        visit(one, _joined(path, name))
                if kind.get("type") in ("number", "integer"):
                    own[name] = "number"
                elif kind.get("type") in ("string", "boolean") or "enum" in kind:
                    own.setdefault(name, "text")

    visit(schema, "")
    return found


def _records(found: Mapping[str, Any], path: str = "", outer: Mapping[str, Any] | None = None) -> Any:
    """Yield every object of a result with its path; an object in a list has the labels of those around it."""
    record = {**(outer or {}), **found}
    yield path, record
    labels = {key: record[key] for key in LABELS if key in record} if path else {}
    for name, value in found.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, Mapping):
                yield from _records(one, _joined(path, name), labels)


def _fields(records: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, dict[str, str]]:
    """Return the fields of the records of a result; an unknown value may be a number."""
    found: dict[str, dict[str, str]] = {}
    for path, record in records:
        own = found.setdefault(path, {})
        for name, value in record.items():
            if value is None:
                own.setdefault(name, "number")
            elif (number := _number(value)) is not None or isinstance(value, str | bool):
                own[name] = "text" if number is None else "number"
    return found


def _number(value: Any) -> float | None:
    """Return a number of JSON, where infinity is a text; None for anything else."""
    if isinstance(value, str):
        return INFINITIES.get(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    return float(value) if is_number else None


def _equals(value: Any, given: str) -> bool:
    if (number := _number(value)) is not None:
        try:
            return math.isclose(number, float(given), rel_tol=CLOSE)
        except ValueError:
            return False
    return value is not None and _text(value) == given


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "unknown" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

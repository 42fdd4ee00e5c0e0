"""The options of the exam, and the rules that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from gatemark.checks.agreement.arbitrate import SOURCE_ROLES, NicPolicy, Role
from gatemark.checks.agreement.label_use import LABEL_MINS
from gatemark.checks.agreement.records import ABSTAIN
from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.measurement import Measurement, measured_count
from gatemark.core.policy import Against, Policy, Rule, Setting
from gatemark.evidence.exam_options import option
from gatemark.evidence.inputs import visible_form
from gatemark.evidence.look_alikes import bare_text

MAX_LABELS: Final = 64
MAX_LABEL_CHARS: Final = 100

REFUSAL_TOKEN = "not in context"  # noqa: S105 - a token of text

MISSING_GATE: Final = 0.1


class AgreementGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds that a user can set."""

    pa_gate: Annotated[float, option("Minimum percent agreement.", low=0, high=1)] = 0.90
    kappa_gate: Annotated[
        float,
        option("Minimum kappa. Also applied to AC1 when kappa is uninformative.", low=-1, high=1),
    ] = 0.75
    abstain_gate: Annotated[
        float, option("Maximum share of rows in which either validator abstains.", low=0, high=1)
    ] = 0.02
    coverage_gate: Annotated[
        float, option("Minimum share of items that arrived complete.", low=0, high=1)
    ] = 1.0
    nic_policy: Annotated[
        NicPolicy, option("Whether two NOT_IN_CONTEXT labels reject or agree.")
    ] = "strict"
    label_gate: Annotated[
        float, option("Minimum agreement on every single label except ABSTAIN.", low=0, high=1)
    ] = 0.5
    min_items: Annotated[
        int, option("Minimum number of items that both validators labelled.", low=1)
    ] = 30
    flagged_gate: Annotated[
        int, option("Maximum number of flagged rows that both validators accept.", low=0)
    ] = 0
    ship_gate: Annotated[
        float | None,
        option("Minimum share of rows whose final label ships (default: no rule).", low=0, high=1),
    ] = None
    copied_gate: Annotated[
        float, option("Maximum share of rows with two identical reasons.", low=0, high=1)
    ] = 0.5
    min_labels: Annotated[
        int | None,
        option("Minimum number of different labels given (default: no rule).", low=1),
    ] = None
    reason_max: Annotated[int, option("Maximum characters of a reason.", low=1)] = 500
    alpha_gate: Annotated[
        float | None, option("Minimum Krippendorff's alpha (default: no rule).", low=-1, high=1)
    ] = None
    missing_gate: Annotated[
        float,
        option(
            "Tables: maximum share of empty cells. Above the default, they are taken as planned.",
            low=0,
            high=1,
        ),
    ] = MISSING_GATE
    missing_text: Annotated[
        str, option("Tables: text of a missing label, such as NA, besides an empty cell.")
    ] = ""
    item_column: Annotated[
        str | None, option("Tables: column that names the item (default: the first).")
    ] = None
    raters: Annotated[
        str | None,
        option("Tables: columns with labels, separated by commas (default: all but the item's)."),
    ] = None

    def __post_init__(self) -> None:
        shares = ("pa", "kappa", "abstain", "coverage", "label", "ship", "copied", "missing")
        for name in (f"{share}_gate" for share in (*shares, "alpha")):
            value = getattr(self, name)
            bottom = -1.0 if name in {"kappa_gate", "alpha_gate"} else 0.0
            if value is not None and not bottom <= value <= 1:
                raise InvalidValueError(f"{name} must be in [{bottom:g}, 1], got {value}")
        for name, low in (("min_items", 1), ("flagged_gate", 0), ("reason_max", 1)):
            if getattr(self, name) < low:
                raise InvalidValueError(f"{name} must be >= {low}, got {getattr(self, name)}")
        if self.min_labels is not None and self.min_labels < 1:
            raise InvalidValueError(f"min_labels must be >= 1, got {self.min_labels}")


class AgreementOptions(AgreementGates, frozen=True, forbid_unknown_fields=True):
    """The bounds and the label space."""

    labels: Annotated[
        dict[str, Role] | None, option("Role of each label (default: the four of the source).")
    ] = None
    extra_keys: Annotated[
        tuple[str, ...], option("Further keys that records and opinions may have.")
    ] = ()
    refusal_token: Annotated[str, option("The only text of a refusal.")] = REFUSAL_TOKEN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is not None:
            _check_labels(self.labels)
            _check_meanings(self.labels)
        for place, key in enumerate(self.extra_keys):
            if not key or key in self.extra_keys[:place]:
                problem = "is listed twice" if key else "is not a key"
                raise InvalidValueError(f"extra_keys: {key!r} {problem}")
            known = record_key(key)
            if known in RECORD_KEYS:
                spelled = "" if known == key else f"; {key!r} is another spelling of it"
                raise InvalidValueError(
                    f"extra_keys: {known!r} is a key of the record already{spelled}"
                )
        if not self.refusal_token.strip():
            raise InvalidValueError("refusal_token must not be blank")


TABLE_OPTIONS: Final = ("missing_gate", "missing_text", "item_column", "raters")
ROW_OPTIONS: Final = (
    *("nic_policy", "flagged_gate", "ship_gate", "copied_gate", "reason_max"),
    *("extra_keys", "refusal_token"),
)


def refuse_unused(options: AgreementOptions, names: Iterable[str], form: str) -> None:
    """Refuse options that this form of evidence would ignore."""
    default = AgreementOptions()
    for name in names:
        if getattr(options, name) != getattr(default, name):
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} does not apply to {form}; leave it out")


RECORD_KEYS: Final = frozenset(
    (
        *("qid", "scholar", "auditor", "answer_json", "retrieved_ids", "flags", "schema"),
        *("label", "reason", "votes", "seed"),
    )
)


def add_next_step(error: BadInputError, options: AgreementOptions) -> BadInputError:
    """Return the error with what to do about labels of one's own, or about tables."""
    hint = ""
    for problem in error.problems:
        if "allowed: " in problem and (problem.endswith(".label") or ".votes[" in problem):
            hint = (
                "for labels of your own, pass --labels FILE (in a pack: labels) with the role of "
                "each"
                if options.labels is None
                else "add the label with its role to the file that --labels names, or correct the "
                "record"
            )
        elif ": not JSON" in problem and problem.split(":")[0].endswith((".csv", ".tsv")):
            hint = "for labels in a CSV or TSV file, pass one file with all raters as --table"
    if not hint:
        return error
    return BadInputError((*error.problems, hint), unlisted_count=error.unlisted_count)


def _check_labels(roles: Mapping[str, Role]) -> None:
    if not 2 <= len(roles) <= MAX_LABELS:
        raise InvalidValueError(f"labels: need 2 to {MAX_LABELS} labels, got {len(roles)}")
    for label in roles:
        if not label.strip() or not label.isprintable() or len(label) > MAX_LABEL_CHARS:
            raise InvalidValueError(
                f"labels: a label is 1 to {MAX_LABEL_CHARS} printable characters, got {label!r}"
            )
    if "accept" not in roles.values():
        raise InvalidValueError("labels: at least one label needs the role accept")
    if roles.get(ABSTAIN, "abstain") != "abstain":
        raise InvalidValueError(f"labels: {ABSTAIN} must have the role abstain")


def _check_meanings(roles: Mapping[str, Role]) -> None:
    """Refuse labels that the eye takes for others, and the source's with another role."""
    seen: dict[str, str] = {}
    for label, role in roles.items():
        meant = SOURCE_ROLES.get(label, role)
        if role != meant:
            raise InvalidValueError(f"labels: {label} must have the role {meant}, got {role}")
        twin = seen.setdefault(visible_form(label), label)
        if twin != label:
            raise InvalidValueError(f"labels: {label!a} and {twin!a} look alike; rename one")


def record_key(key: str) -> str:
    """Return the record's key that a key is another spelling of, or the key itself."""
    plain = bare_text(key, folds=True)
    return next((known for known in RECORD_KEYS if known.replace("_", "") == plain), key)


def build_agreement_policy(gates: AgreementOptions) -> Policy:
    """Return the rules of the exam over pairs and judgements."""
    settings: dict[str, Setting] = {
        "nic_policy": gates.nic_policy,
        "refusal_token": gates.refusal_token,
        "reason_max": gates.reason_max,
    }
    if gates.labels:
        settings["labels"] = format_labels(gates.labels)
    return Policy(name="agreement", rules=tuple(_build_row_rules(gates)), settings=settings)


def _build_row_rules(gates: AgreementOptions) -> Iterator[Rule]:
    yield from build_chance_rules(gates, "kappa", "value")
    yield from label_rules(gates)
    yield Rule("agreement.items", "pair_count", ">=", gates.min_items, severity="hold")
    yield Rule("agreement.abstain", "abstain_rate_either", "<=", gates.abstain_gate)
    yield Rule("agreement.flagged", "flagged_valid_count", "<=", float(gates.flagged_gate))
    yield Rule("hygiene.same_evidence", "different_evidence_count", "<=", 0.0, severity="hold")
    yield Rule("hygiene.personal_data", "personal_data_count", "<=", 0.0, severity="warn")
    yield from build_labels_rules(gates)
    if gates.alpha_gate is not None:
        yield Rule("agreement.alpha", "krippendorff_alpha", ">=", gates.alpha_gate)
    if gates.ship_gate is not None:
        yield Rule("agreement.ship_rate", "ship_rate", ">=", gates.ship_gate)
    most = gates.copied_gate
    yield Rule("hygiene.independence", "copied_reason_rate", "<=", most, severity="hold")
    yield Rule("hygiene.refusal_token", "inexact_refusal_count", "<=", 0.0, severity="hold")
    yield Rule("hygiene.votes", "vote_mismatch_count", "<=", 0.0, severity="hold")
    yield Rule("hygiene.reason_length", "long_reason_count", "<=", 0.0, severity="warn")
    yield Rule("hygiene.missing_votes", "missing_vote_count", "<=", 0.0, severity="hold")


def build_chance_rules(gates: AgreementOptions, kappa: str, against: Against) -> Iterator[Rule]:
    """Yield the rules on coverage, agreement, and agreement beyond chance."""
    least = gates.coverage_gate
    yield Rule("agreement.coverage", "evidence.coverage", ">=", least, severity="hold")
    agreed = Rule("agreement.pa", "percent_agreement", ">=", gates.pa_gate, against=against)
    yield agreed
    yield Rule(
        "agreement.kappa",
        kappa,
        ">=",
        gates.kappa_gate,
        against=against,
        fallback_rules=(
            replace(agreed, id="agreement.kappa/pa", against="interval"),
            Rule("agreement.kappa/ac1", "ac1", ">=", gates.kappa_gate, against=against),
        ),
        fallback_is_strict=True,
    )


def label_rules(gates: AgreementOptions) -> Iterator[Rule]:
    """Yield the rules on the label that raters agree on least."""
    # Fails if even the upper end of a label's interval is below the bound; passes with few uses.
    yield Rule("agreement.label_fails", LABEL_MINS[1], ">=", gates.label_gate)
    yield Rule("agreement.label", LABEL_MINS[0], ">=", gates.label_gate, severity="hold")


def build_labels_rules(gates: AgreementOptions) -> tuple[Rule, ...]:
    """Return the rule on the number of labels in use, if it is asked for."""
    if gates.min_labels is None:
        return ()
    bound = float(gates.min_labels)
    return (Rule("agreement.labels", "label_count", ">=", bound, severity="hold"),)


def label_count(labels: Sequence[str], n: int) -> Measurement:
    """Return how many labels were given; a single one says nothing about the others."""
    caveats: tuple[str, ...] = ()
    if len(labels) == 1:
        caveats = (f"only {labels[0]} was used: nothing shows whether another label would be",)
    return measured_count(
        "label_count", len(labels), n, direction="higher_is_better", caveats=caveats
    )


def format_labels(roles: Mapping[str, Role]) -> str:
    """Return labels with their roles as one setting of a policy."""
    return ", ".join(f"{label}={role}" for label, role in sorted(roles.items()))

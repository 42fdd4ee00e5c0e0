"""The Python API behind ``import gatemark``: the commands as functions.

Each function does what the command of the same name does, by the same code: the same checks, the
same numbers, the same verdicts. Bad input raises ``GatemarkError``; a verdict never raises unless
you ask for it with ``raise_for_verdict()``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from gatemark.core.errors import BadInputError, ExitCode, GatemarkError, UsageError, not_installed
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding, Outcome, Waiver
from gatemark.core.result import Result as SealedResult
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.ledger.checks.report import LedgerReport
from gatemark.packs.gate import gate_result
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.report.outputs import render, write_reports
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.compare_verdict import DEFAULT_SEED, CompareSettings
from gatemark.samples.import_logs import import_logs
from gatemark.samples.views import ComparisonReport, render_comparison_markdown
from gatemark.workspace import DEFAULT_STORE, Workspace

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

AnyPath: TypeAlias = str | PathLike[str]
Arm = Literal["candidate", "baseline"]


class GateFailedError(GatemarkError):
    """The verdict is fail."""

    exit_code = ExitCode.FAIL


class InconclusiveError(GatemarkError):
    """The verdict is inconclusive: the evidence cannot decide."""

    exit_code = ExitCode.INCONCLUSIVE


def _raise_for(verdict: Outcome, reason: str) -> None:
    if verdict == "fail":
        raise GateFailedError(reason)
    if verdict == "inconclusive":
        raise InconclusiveError(reason)


class Samples(Sequence[Mapping[str, Any]]):
    """Samples (``gatemark.sample/1``) as dictionaries, with tables for pandas and Arrow."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Samples: ...
    def __getitem__(self, place: int | slice) -> Mapping[str, Any] | Samples:
        if isinstance(place, slice):
            return Samples(self._records[place])
        return self._records[place]

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<{len(self)} samples>"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one flat row per sample: a column per score, other nested values as JSON text."""
        for record in self._records:
            row = {name: _flatten_cell(value) for name, value in record.items() if name != "scores"}
            scores = record.get("scores") or {}
            yield {**row, **{f"score.{name}": value for name, value in scores.items()}}

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame; needs pandas."""
        try:
            import pandas as pd  # noqa: PLC0415 - a library of the caller's choice
        except ModuleNotFoundError as error:
            raise UsageError("to_pandas() needs pandas: pip install pandas") from error
        return pd.DataFrame.from_records(list(self.rows()))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; needs pyarrow."""
        try:
            import pyarrow as pa  # noqa: PLC0415 - a library of the caller's choice
        except ModuleNotFoundError as error:
            raise UsageError(not_installed("to_arrow() needs", "pyarrow", "parquet")) from error
        rows = list(self.rows())
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: [row.get(name) for row in rows] for name in names})


def _read_samples(lines: bytes) -> Samples:
    return Samples([json.loads(line) for line in lines.split(b"\n") if line])


def _flatten_cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


class GateResult:
    """A sealed result: the verdict, the findings behind it, and reports."""

    def __init__(self, sealed: SealedResult, workspace: Workspace) -> None:
        self.sealed: Final = sealed
        self._workspace: Final = workspace

    @property
    def id(self) -> str:
        """The digest that promotions cite."""
        return self.sealed.id

    @property
    def title(self) -> str:
        """What was judged, by which pack."""
        return self.sealed.title

    @property
    def verdict(self) -> Outcome:
        """``pass``, ``fail`` or ``inconclusive``."""
        return self.sealed.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding per rule."""
        return self.sealed.findings

    @property
    def blockers(self) -> tuple[str, ...]:
        """Why the verdict is not a pass, the most important reason first."""
        return self.sealed.blockers

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader should know about the evidence."""
        return self.sealed.caveats

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every number, or the reason why it is missing."""
        return self.sealed.measurements

    def raise_for_verdict(self) -> GateResult:
        """Return this result when it passes.

        Raises ``GateFailedError`` or ``InconclusiveError`` otherwise.
        """
        _raise_for(self.verdict, "; ".join(self.blockers) or "no rule was judged")
        return self

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return render(self.sealed, ".md").decode()

    def to_html(self) -> str:
        """Return the report as one HTML page; needs the extra ``report``."""
        return render(self.sealed, ".html").decode()

    def save(self, *paths: AnyPath) -> None:
        """Write reports; the extensions choose the formats, as ``-o`` does."""
        write_reports(self.sealed, [fspath(path) for path in paths])

    def samples(self, suite: str, arm: Arm = "candidate") -> Samples:
        """Return the recorded answers of one suite and arm."""
        name = f"{suite}.{arm}.jsonl"
        found = {blob.name: blob.digest for blob in self.sealed.blobs}
        if name not in found:
            known = ", ".join(sorted(key for key in found if key.endswith(f".{arm}.jsonl")))
            raise UsageError(f"result {self.id} keeps no {name} (it has: {known or 'none'})")
        return _read_samples(self._workspace.blobs.get(found[name]))

    def _repr_html_(self) -> str:
        return _wrap_html(self.to_markdown())

    def __repr__(self) -> str:
        return f"<Result {self.verdict} {self.id[:19]} {self.title!r}>"


class LogComparison:
    """A comparison of two runs: the verdict and the numbers behind it."""

    def __init__(self, report: ComparisonReport) -> None:
        self.report: Final = report

    @property
    def verdict(self) -> Outcome:
        """``pass``, ``fail`` or ``inconclusive``."""
        return self.report.verdict

    @property
    def blockers(self) -> tuple[str, ...]:
        """Why the verdict is not a pass."""
        return self.report.blockers

    def raise_for_verdict(self) -> LogComparison:
        """Return this comparison when it passes.

        Raises ``GateFailedError`` or ``InconclusiveError`` otherwise.
        """
        _raise_for(self.verdict, self.report.reason)
        return self

    def to_markdown(self) -> str:
        """Return the comparison as Markdown."""
        return render_comparison_markdown(self.report).decode()

    def _repr_html_(self) -> str:
        return _wrap_html(self.to_markdown())

    def __repr__(self) -> str:
        return f"<Comparison {self.verdict}: {self.report.reason}>"


def _wrap_html(markdown: str) -> str:
    """Return Markdown as preformatted text, which every notebook shows and none runs."""
    escaped = markdown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{escaped}</pre>"


def compare(
    base: AnyPath,
    cand: AnyPath,
    *,
    score: str | None = None,
    cluster: str | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    seed: int = DEFAULT_SEED,
    resamples: int = 9_999,
    largest_drop: float | None = None,
    lower_is_better: Sequence[str] = (),
    higher_is_better: Sequence[str] = (),
    tool: str = "auto",
    id_path: str | None = None,
    base_arm: str | None = None,
    cand_arm: str | None = None,
) -> LogComparison:
    """Compare a candidate's samples with a baseline's, item by item.

    Both are files of samples or logs of a tool that ``gatemark import`` reads. ``margin`` is the
    largest drop that you tolerate, for scores inside [0, 1]. ``largest_drop`` declares how far the
    score of one item can move: it gives graded scores a tighter bound. ``lower_is_better`` and
    ``higher_is_better`` name scores whose direction neither the logs nor their names tell.
    """
    request = CompareRequest(
        base=fspath(base),
        cand=fspath(cand),
        score=score,
        cluster=cluster,
        id_path=id_path,
        tool=tool,
        base_arm=base_arm,
        cand_arm=cand_arm,
        settings=CompareSettings(
            alpha=alpha,
            margin=margin,
            seed=seed,
            resamples=resamples,
            largest_drop=largest_drop,
            lower_is_better=tuple(lower_is_better),
            higher_is_better=tuple(higher_is_better),
        ),
    )
    return LogComparison(compare_files(request, ReadingChoices()))


def run(
    pack: AnyPath,
    *,
    candidate: AnyPath | Mapping[str, object] | None = None,
    baseline: AnyPath | Mapping[str, object] | None = None,
    store: AnyPath | None = None,
    jobs: int = 1,
    limit: int | None = None,
    resume: bool = False,
    cache: bool = False,
    waivers: Sequence[Waiver] = (),
    actor: str | None = None,
) -> GateResult:
    """Run a pack: answer, score, judge, seal.

    ``candidate`` and ``baseline`` replace the pack's targets: a mapping is a target as in a pack
    file (``{"python": "app:answer"}``), a path is a file of recorded samples, and a baseline may
    also be the id of a sealed result.
    """
    workspace = _open_workspace(store, actor)
    choices = RunChoices(
        jobs=jobs,
        resume=resume,
        cache=cache,
        limit=limit,
        candidate=None if candidate is None else _make_target(candidate),
        baseline=None if baseline is None else _make_baseline(baseline),
        waivers=tuple(waivers),
    )
    return GateResult(run_pack(workspace, fspath(pack), choices), workspace)


def gate(
    result: str | GateResult,
    pack: AnyPath,
    *,
    store: AnyPath | None = None,
    waivers: Sequence[Waiver] = (),
    actor: str | None = None,
) -> GateResult:
    """Judge the recorded evidence of a result by a pack; calls no target."""
    workspace = _open_workspace(store, actor)
    reference = result.id if isinstance(result, GateResult) else result
    return GateResult(gate_result(workspace, reference, fspath(pack), waivers=waivers), workspace)


def import_log(path: AnyPath, *, tool: str = "auto", arm: str | None = None) -> Samples:
    """Read another tool's log as samples; rows that cannot be read raise an error."""
    with TemporaryDirectory(prefix="gatemark-") as folder:
        target = Path(folder) / "samples.jsonl"
        read = import_logs([fspath(path)], tool=tool, arm=arm, output=str(target))
        if read.output is None:
            refusals = [refusal for log in read.logs for refusal in log.refusals]
            raise BadInputError((f"{fspath(path)}: {read.refused} rows cannot be read", *refusals))
        return _read_samples(target.read_bytes())


def verify(store: AnyPath | None = None, *, rescore: bool = False) -> LedgerReport:
    """Check the ledger of a store and all that hangs on it (``gatemark ledger verify``)."""
    from gatemark.integrity import verify as verify_store  # noqa: PLC0415 - loads every feature
    from gatemark.ledger.verify import VerifyRequest  # noqa: PLC0415

    return verify_store(_open_workspace(store, None), VerifyRequest(rescore=rescore))


def _open_workspace(store: AnyPath | None, actor: str | None) -> Workspace:
    named = os.environ.get("GATEMARK_STORE") or DEFAULT_STORE
    return Workspace(store=named if store is None else fspath(store), actor=actor)


def _make_target(given: AnyPath | Mapping[str, object]) -> Mapping[str, object]:
    return given if isinstance(given, Mapping) else {"recorded": str(Path(given).resolve())}


def _make_baseline(given: AnyPath | Mapping[str, object]) -> Mapping[str, object] | str:
    if isinstance(given, str) and (given == "none" or given.startswith("sha256:")):
        return given
    return _make_target(given)


Result = GateResult
Comparison = LogComparison

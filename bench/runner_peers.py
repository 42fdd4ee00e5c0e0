"""The same questions and the same exact match, asked by the runner of another tool.

Whatever the tool would send anywhere is refused, and ends the measurement. The tools are in
no extra. To compare with them, make an environment outside the repository::

    python -m venv ../bench-peers
    ../bench-peers/bin/python -m pip install '.[bench]' pydantic-evals deepeval
    ../bench-peers/bin/python -m bench runner

The printed lines name their versions.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any

NETWORK_EVENTS = ("socket.connect", "socket.getaddrinfo")


def answer(text: str) -> str:
    return text[-1]


def questions(count: int) -> list[tuple[str, str]]:
    return [(f"What is the last digit of {number}", str(number % 10)) for number in range(count)]


def pydantic_evals(count: int) -> None:
    evals: Any = importlib.import_module("pydantic_evals")
    evaluators: Any = importlib.import_module("pydantic_evals.evaluators")
    cases = [
        evals.Case(name=f"digit-{place:06d}", inputs=text, expected_output=right)
        for place, (text, right) in enumerate(questions(count))
    ]
    dataset = evals.Dataset(
        name="last-digit", cases=cases, evaluators=[evaluators.EqualsExpected()]
    )
    dataset.evaluate_sync(answer, max_concurrency=1, progress=False)


def deepeval(count: int) -> None:
    """Its cache is off: it would write all cases so far to disk after every case."""
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
    evaluating: Any = importlib.import_module("deepeval.evaluate")
    metrics: Any = importlib.import_module("deepeval.metrics")
    test_case: Any = importlib.import_module("deepeval.test_case")
    cases = [
        test_case.LLMTestCase(input=text, actual_output=answer(text), expected_output=right)
        for text, right in questions(count)
    ]
    evaluating.evaluate(
        cases,
        [metrics.ExactMatchMetric()],
        async_config=evaluating.AsyncConfig(run_async=False),
        cache_config=evaluating.CacheConfig(write_cache=False),
        display_config=evaluating.DisplayConfig(
            show_indicator=False, print_results=False, inspect_after_run=False
        ),
    )


def inspect_ai(count: int) -> None:
    """Its log is written, as Gatemark's result is; no model is asked."""
    inspect: Any = importlib.import_module("inspect_ai")
    dataset: Any = importlib.import_module("inspect_ai.dataset")
    scorer: Any = importlib.import_module("inspect_ai.scorer")
    solving: Any = importlib.import_module("inspect_ai.solver")

    @solving.solver  # type: ignore[untyped-decorator] # Inspect is loaded late
    def last_digit() -> Any:
        async def solve(state: Any, _generate: Any) -> Any:
            state.output.completion = answer(state.input_text)
            return state

        return solve

    samples = [
        dataset.Sample(id=f"digit-{place:06d}", input=text, target=right)
        for place, (text, right) in enumerate(questions(count))
    ]
    task = inspect.Task(dataset=samples, solver=last_digit(), scorer=scorer.exact())
    (log,) = inspect.eval(task, model="mockllm/model", display="none", log_dir="logs")
    if log.status != "success":
        raise SystemExit(f"Inspect ended with {log.status}: {log.error}")


PEERS = {"pydantic_evals": pydantic_evals, "deepeval": deepeval, "inspect_ai": inspect_ai}


def main(peer: str, count: int) -> None:
    """Run in an empty folder, because DeepEval makes one of its own wherever it is started."""
    asked: list[str] = []

    def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
        if event in NETWORK_EVENTS:
            asked.append(f"{event} {arguments}")
            raise OSError("the bench calls nobody")

    sys.addaudithook(refuse_network)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PEERS[peer](count)
        os.chdir("/")
    if asked:
        raise SystemExit(f"{peer} wanted the network: {asked[0]}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

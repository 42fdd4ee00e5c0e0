"""The table, the repeated ids and the arbitrated disagreements of merged pairs, by DuckDB.

Beyond that it checks nothing: not repeated keys, unknown labels or keys, reasons or refusals.
"""

from __future__ import annotations

import sys

import duckdb

READ = """
CREATE TEMP TABLE pairs AS
SELECT qid, scholar.label AS scholar, auditor.label AS auditor,
  CASE
    WHEN coalesce(flags.provenance_violation OR flags.constraints_mismatch, false) THEN 'hard_flag'
    WHEN coalesce(len(answer_json.citations), 0) = 0 THEN 'clear'
    WHEN retrieved_ids IS NULL THEN 'retrieved_ids_missing'
    WHEN list_has_all(retrieved_ids, answer_json.citations) THEN 'clear'
    ELSE 'citation_out_of_scope'
  END AS flag
FROM read_json(?, format = 'newline_delimited', columns = {
  qid: 'VARCHAR', scholar: 'STRUCT(label VARCHAR)', auditor: 'STRUCT(label VARCHAR)',
  answer_json: 'STRUCT(citations VARCHAR[])', retrieved_ids: 'VARCHAR[]',
  flags: 'STRUCT(provenance_violation BOOLEAN, constraints_mismatch BOOLEAN)'})
"""
WRITE = """
COPY (
  SELECT qid, scholar, auditor,
    CASE WHEN flag <> 'clear' THEN flag WHEN auditor = 'ABSTAIN' THEN 'auditor_abstain'
      WHEN auditor <> 'VALID' THEN 'auditor_veto' WHEN scholar = 'NOT_IN_CONTEXT' THEN 'auditor_ok'
      WHEN scholar = 'ABSTAIN' THEN 'scholar_abstain' ELSE 'incoherent_pair' END AS why
  FROM pairs WHERE scholar <> auditor
) TO '{}' (DELIMITER '\t', HEADER)
"""


def main(out: str, path: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET threads TO 1")
    connection.execute(READ, [path])
    table = "SELECT scholar, auditor, flag, count(*) FROM pairs GROUP BY ALL"
    print(connection.execute(table).fetchall())
    twice = "SELECT qid FROM pairs GROUP BY qid HAVING count(*) > 1"
    print(connection.execute(twice).fetchall())
    connection.execute(WRITE.format(out))


if __name__ == "__main__":
    main(*sys.argv[1:])

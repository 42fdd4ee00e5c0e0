#!/usr/bin/env bash
# The gate step of action.yml. Inputs come as variables and never as text of the script, so that a
# file name from a pull request cannot become a command. Always ends with 0: the verdict is an
# output, and a later step turns it into the state of the job.
set -uo pipefail
reports=gatemark-reports
mkdir -p "$reports"
set -- "$PACK" -j "${JOBS:-8}" --json
[ -z "${BASELINE:-}" ] || set -- "$@" --baseline "$BASELINE"

# The pack's targets get neither the token of the comment nor the files that steer the job.
status=0
env -u COMMENT_TOKEN -u GITHUB_TOKEN -u GITHUB_OUTPUT -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_STEP_SUMMARY \
    gatemark run "$@" -o "$reports/report.html" -o "$reports/report.md" -o "$reports/report.junit.xml" \
    > "$reports/result.json" || status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"

case $status in
  0 | 1 | 3) ;;
  *)
    rm -f "$reports/result.json"
    echo "### Gatemark could not run the pack (exit $status): see the log of this step" >> "$GITHUB_STEP_SUMMARY"
    exit 0
    ;;
esac

python - "$reports/result.json" >> "$GITHUB_OUTPUT" <<'PYTHON'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)
print(f"verdict={result['verdict']}")
print(f"result-id={result['id']}")
PYTHON
gatemark report "$(sed -n 's/^result-id=//p' "$GITHUB_OUTPUT" | tail -n 1)" \
    --sarif "$reports/gatemark.sarif" --source "$PACK" > /dev/null
gatemark comment "$reports/result.json" > "$reports/comment.md"
cat "$reports/comment.md" >> "$GITHUB_STEP_SUMMARY"
if [ "${COMMENT:-true}" = true ]; then
  GITHUB_TOKEN=${COMMENT_TOKEN:-} gatemark comment "$reports/result.json" --post github ||
    echo "::warning::Gatemark: the comment could not be posted"
fi
exit 0

"""Holds every scenario file to schema.json, and to what a schema can't say. Needs jsonschema."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

HERE = Path(__file__).parent


def beyond_schema(scenario: dict[str, Any]) -> Iterator[str]:
    """Names that lead nowhere, and permits that nobody could tell apart."""
    permits: set[str] = set()
    for number, step in enumerate(scenario["steps"], 1):
        limits = [step.get("limit", "main")] if "verb" in step else []
        if step.get("verb") == "try_acquire_all":
            limits = [limit for limit, _, _ in step["entries"]]
        elif step.get("verb") == "release":
            limits = []
            if step["permit"] not in permits:
                yield f"step {number}: no permit {step['permit']!r}"
        elif step.get("verb") == "hold":
            allowed = step.get("expect", {}).get("allowed", False)
            if allowed != ("as" in step) or step.get("as") in permits:
                yield f"step {number}: a permit needs a name of its own"
            permits.add(step.get("as", ""))
        yield from (f"step {number}: no limit {name!r}" for name in limits if name not in scenario["limits"])


def problems(path: Path, validator: Draft202012Validator) -> Iterator[str]:
    """What is wrong with one file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    errors = sorted(validator.iter_errors(data), key=lambda error: error.json_path)
    yield from (f"{error.json_path}: {error.message}" for error in errors)
    if errors:
        return
    seen: set[str] = set()
    for scenario in data["scenarios"]:
        name = scenario["name"]
        if name in seen:
            yield f"{name!r}: twice"
        seen.add(name)
        yield from (f"{name!r}: {problem}" for problem in beyond_schema(scenario))


def main() -> int:
    """Prints every problem, and says by its result whether there was none."""
    schema = json.loads((HERE / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    paths = sorted(path for path in HERE.glob("*.json") if path.name != "schema.json")
    found = [f"{path.name}: {problem}" for path in paths for problem in problems(path, validator)]
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        total = sum(len(json.loads(path.read_text(encoding="utf-8"))["scenarios"]) for path in paths)
        print(f"{total} scenarios in {len(paths)} files are valid")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

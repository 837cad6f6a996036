"""Whether what is shipped has known vulnerabilities, by pip-audit; where it knows nothing, the versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.release.parts import Package


def report(requirements: Path | None, python: list[Package], java: list[Package]) -> str:
    """A text that says what was found, or that nothing could be asked, and lists the versions either way.

    Nothing is asked without `requirements`. Raises `ValueError` for a known vulnerability: nothing with one is shipped.
    """
    asked, why = 0, "nobody asked"
    if requirements is not None:
        asked, why = _ask(requirements)
    lines = [f"pip-audit knows of no vulnerability in {asked} of {len(python)} Python packages.\n"]
    if why:
        lines.append(f"Not audited, because {why}: the rest. Audit these versions before you install them:\n")
    lines += [f"  {p.name} {p.version}\n" for p in [*python, *java]]
    return "".join(lines)


def _ask(requirements: Path) -> tuple[int, str]:
    """Number of packages that pip-audit knows, and why not all; `ValueError` for a known vulnerability."""
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--requirement", requirements, "--require-hashes"),
                *("--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "10"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        answers = json.loads(done.stdout)["dependencies"]
    except (ValueError, subprocess.TimeoutExpired):
        return 0, "the database of pip-audit was not reachable"
    asked = sum(1 for a in answers if "vulns" in a)
    found = [f"{a['name']} {a['version']}: {v['id']}" for a in answers for v in a.get("vulns", [])]
    if found:
        raise ValueError("known vulnerabilities: " + "; ".join(found))
    return asked, "the database that pip-audit asked does not know them" if asked < len(answers) else ""

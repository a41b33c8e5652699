"""Findings for machines: JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from derive.proof.verdict import Verdict
from numeric.verify import Finding


def as_json(findings: Sequence[Finding]) -> str:
    """A JSON array of findings; an infinite error is the string ``"inf"``."""
    rows: list[dict[str, Any]] = [asdict(finding) for finding in findings]
    for row in rows:
        if row["error"] == float("inf"):
            row["error"] = "inf"
    return json.dumps(rows, ensure_ascii=False, indent=2)


def verdicts_as_json(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """A JSON object: by program, its statements with word, premises, evidence and both canonical forms if open."""
    rows = {
        name: [
            {
                "name": v.identity.name,
                "topic": v.identity.topic,
                "statement": v.identity.statement,
                "premises": list(v.identity.premises),
                "relied_on": v.identity.relied_on,
                "evidence": v.word,
                "as_stated": v.as_stated,
                "rewrites": list(v.proof.rewrites),
                "reason": v.reason,
            }
            for v in found
        ]
        for name, found in verdicts.items()
    }
    return json.dumps(rows, ensure_ascii=False, indent=2)


def as_junit(findings: Sequence[Finding]) -> str:
    """A JUnit test suite a program, a test case a finding."""
    root = ElementTree.Element("testsuites", name="backprove verify")
    for name in dict.fromkeys(f.program for f in findings):
        own = [f for f in findings if f.program == name]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(own)),
            failures=str(sum(f.status == "fails" for f in own)),
            skipped=str(sum(f.status == "not measured" for f in own)),
        )
        for finding in own:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{name}.{finding.backend}",
                name=f"{finding.property} ({finding.evidence})",
            )
            if finding.status == "fails":
                ElementTree.SubElement(case, "failure", message=f"scaled error {finding.error}").text = finding.detail
            elif finding.status == "not measured":
                ElementTree.SubElement(case, "skipped", message=finding.detail)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)

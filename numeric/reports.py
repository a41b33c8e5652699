"""Findings for machines: JSON and JUnit XML, whatever their texts hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from derive.proof.verdict import Verdict
from numeric.verify import Finding


def as_json(findings: Sequence[Finding]) -> str:
    """A JSON array of findings; an error that is no finite number is a string, ``"inf"``."""
    rows: list[dict[str, Any]] = [asdict(finding) for finding in findings]
    for row in rows:
        if row["error"] is not None and not math.isfinite(row["error"]):
            row["error"] = str(row["error"])
    return _dumped(rows)


def verdicts_as_json(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """A JSON object: by program, its statements with every step of their proofs, which the checker reads.

    Each statement is one line: with an indentation for every bracket, a proof would be ten times as long.
    """
    programs = []
    for name, found in verdicts.items():
        statements = ",\n".join(_dumped(_statement(verdict), indent=None) for verdict in found)
        programs.append(f"{_dumped(name)}: [\n{statements}\n]")
    return "{\n" + ",\n".join(programs) + "\n}"


def _statement(verdict: Verdict) -> dict[str, Any]:
    identity = verdict.identity
    return {
        **verdict.proof.data,
        "topic": identity.topic,
        "statement": identity.statement,
        "relied_on": identity.relied_on,
        "evidence": verdict.word,
        "as_stated": verdict.as_stated,
        "reason": verdict.reason,
    }


def _dumped(rows: Any, indent: int | None = 2) -> str:
    """JSON in plain characters, but for halves of them, which no encoding has."""
    text = json.dumps(rows, ensure_ascii=False, indent=indent)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


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
    for element in root.iter():
        element.attrib = {name: _for_xml(value) for name, value in element.attrib.items()}
        element.text = element.text and _for_xml(element.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


_NOT_IN_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _for_xml(text: str) -> str:
    """A text in which what XML cannot hold, such as a terminal's escape, is written as in Python."""
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

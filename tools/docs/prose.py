"""Checks the English of README and docs: ``python -m tools.docs.prose [PAGE…]``, or ``make prose``.

It counts the words of sentences, looks for phrases of the project's list, and runs proselint. ``tools/docs/prose.toml``
has the most words of a sentence, the list with advice, the checks of proselint that are left out with a reason, and the
most passives of a page that users read first. Tables, code, headings and formulas are no sentences; the phrases are
looked for in tables too. Exit status: 1 if something is found.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RULES = Path(__file__).with_name("prose.toml")
_CODE_BLOCK = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FORMULA = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.|:)\s+")
_END = re.compile(r"(?<=[.!?])[\"”)*_]*\s+(?=[A-Z0-9*_\"“(`])")
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being)\s+(?:not\s+)?(\w+(?:ed|en|wn|ne|lt|de|ad|ut|nt))\b")


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong in a page, and the text."""

    page: str
    rule: str
    text: str


def pages() -> list[Path]:
    """The pages that are checked: README, docs and the page of benchmarks."""
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rules() -> Mapping[str, Any]:
    """The content of ``tools/docs/prose.toml``."""
    return tomllib.loads(RULES.read_text(encoding="utf-8"))


def without_code(text: str) -> str:
    r"""Markdown without front matter, comments, code blocks and formulas.

    >>> without_code("a\n```bash\nb\n```\nc")
    'a\n\nc'
    """
    for pattern in (_FRONT_MATTER, _COMMENT, _CODE_BLOCK, _FORMULA):
        text = pattern.sub("", text)
    return text


def paragraphs(text: str) -> Iterator[str]:
    r"""The paragraphs and items of lists of a page, each on one line, without tables, headings and pictures.

    >>> list(paragraphs("# A\n\nOne\ntwo.\n\n- three\n- four\n\n| five |"))
    ['One two.', 'three', 'four']
    """
    lines: list[str] = []
    for line in [*without_code(text).splitlines(), ""]:
        bare = line.strip().lstrip("> ")
        skipped = not bare or bare.startswith(("|", "#", "<", "![", "[![", ":::", "options:"))
        if (skipped or _ITEM.match(line)) and lines:
            yield " ".join(lines)
            lines = []
        if not skipped:
            lines.append(_ITEM.sub("", line.strip().lstrip("> ")).strip())


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph; code is one word, and a link is its text.

    >>> sentences("It has `a b`. See [this page](x.md), e.g. now.")
    ['It has CODE.', 'See this page, e.g. now.']
    """
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    text = re.sub(r"`[^`]*`(?: `[^`]*`)*", "CODE", text)
    text = re.sub(r"\$[^$]*\$", "FORMULA", text)
    return [part.strip() for part in _END.split(text) if part.strip()]


def words(sentence: str) -> int:
    """The number of words, numbers and pieces of code.

    >>> words("P(male) is 3.2 %, not more.")
    5
    """
    return sum(bool(re.search(r"\w", part)) for part in sentence.split())


def prose_words(text: str) -> int:
    """The words of a page outside of tables and code."""
    return sum(words(sentence) for paragraph in paragraphs(text) for sentence in sentences(paragraph))


def long_sentences(page: str, text: str, most: int) -> list[Finding]:
    """Sentences with more than ``most`` words."""
    findings = []
    for paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            count = words(sentence)
            if count > most:
                findings.append(Finding(page, f"{count} words", sentence))
    return findings


def phrases(page: str, text: str, listed: Mapping[str, str]) -> list[Finding]:
    """Phrases of the list, each with its advice."""
    findings = []
    plain = without_code(text)
    for phrase, advice in listed.items():
        for match in re.finditer(phrase, plain, re.IGNORECASE):
            line = plain[plain.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0]
            findings.append(Finding(page, f"{match[0]!r}: {advice}", line.strip()[:120]))
    return findings


def passives(text: str, states: Sequence[str] = ()) -> list[str]:
    """The sentences that have a passive; ``states`` are words that only look like a participle.

    >>> passives("The run is stored. It is one file. It scores.", ["one"])
    ['The run is stored.']
    """
    passive_sentences = []
    for paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            participles = [match[1] for match in _PASSIVE.finditer(sentence)]
            if any(word not in states for word in participles):
                passive_sentences.append(sentence)
    return passive_sentences


def too_many_passives(page: str, text: str, limits: Mapping[str, Any]) -> list[Finding]:
    """The sentences with a passive of a page that users read first, where they are more than the limit."""
    if not any(fnmatch(page, pattern) for pattern in limits["pages"]):
        return []
    passive_sentences = passives(text, limits["states"])
    if len(passive_sentences) <= limits["most"]:
        return []
    return [Finding(page, f"passive, one of {len(passive_sentences)}", sentence) for sentence in passive_sentences]


def proselint(paths: Sequence[Path], left_out: Mapping[str, str]) -> list[Finding]:
    """What proselint finds in the prose of pages, without the checks that are left out."""
    program = shutil.which("proselint", path=str(Path(sys.executable).parent)) or shutil.which("proselint")
    if program is None:
        sys.exit("error: proselint is not installed; make prose installs it, or: pip install proselint==0.16.0")
    findings = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in paths:
            # One paragraph a line, so that a line of the answer is a paragraph.
            every = [" ".join(sentences(one)) for one in paragraphs(path.read_text(encoding="utf-8"))]
            plain = folder / "page.txt"
            plain.write_text("\n".join(every), encoding="utf-8")
            command = [program, "check", str(plain)]
            shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            for line, check_name, advice in re.findall(r"page\.txt:(\d+):\d+: ([\w.]+): (.*)", shown):
                if check_name not in left_out:
                    text = every[int(line) - 1][:100]
                    findings.append(Finding(shown_path(path), f"proselint {check_name}: {advice}", text))
    return findings


def shown_path(path: Path) -> str:
    """A path from the root of the project."""
    return path.resolve().relative_to(ROOT).as_posix()


def check(paths: Sequence[Path]) -> list[Finding]:
    """What is found in pages by the rules of this project."""
    known = rules()
    findings = []
    for path in paths:
        page, text = shown_path(path), path.read_text(encoding="utf-8")
        findings += long_sentences(page, text, known["most_words"])
        findings += phrases(page, text, known["phrases"])
        findings += too_many_passives(page, text, known["passives"])
        count = prose_words(text)
        if count > known["most_words_of_a_page"] and page not in known["long_pages"]:
            findings.append(Finding(page, f"{count} words of prose; split it", ""))
    return findings


def main() -> None:
    """Prints what is found, a line each, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="Pages; all by default.")
    parser.add_argument("--no-proselint", action="store_true", help="Without proselint.")
    options = parser.parse_args()
    paths = options.pages or pages()
    known = rules()
    findings = check(paths)
    if not options.no_proselint:
        findings += proselint(paths, known["proselint"])
    for one in findings:
        print(f"{one.page}: {one.rule}: {one.text}")
    every = long = passive = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        every += sum(len(sentences(paragraph)) for paragraph in paragraphs(text))
        long += len(long_sentences(shown_path(path), text, known["most_words"]))
        passive += len(passives(text, known["passives"]["states"]))
    print(f"{len(paths)} pages, {every:,} sentences: {long} have more than {known['most_words']} words.")
    print(f"{passive:,} sentences have a passive. {len(findings)} findings are not excepted.")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

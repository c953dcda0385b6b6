"""A rehearsal of publishing, as a maintainer sees it: ``python -m tools.rehearsal FOLDER``.

On a Hub on this machine data sets are pushed, a model and an adapter get their scores, and a leaderboard becomes a
Space, each by the command that does it for the real Hub. FOLDER gets every page as HTML with its files, and, where a
browser is named by ``--browser``, as a picture at the widths of a screen and of a phone. ``--mirror`` builds the data
sets that need upstream sources too. What the commands said is in ``log.txt``.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from scoring.inference.load_options import BUNDLED
from tests.mitigation.made import bundled, data, quick, tuned
from tests.support.hub import File, Hub, Repo, read
from tools.docs.pages import ROOT

WIDTHS = (1280, 390)
#: What needs no upstream source, and what does.
EMBEDDED, SOURCED = ("gender-neutral-probes", "occugender", "unstereo", "pronouns"), ("bbq", "gest")
PHONE = '<meta name="viewport" content="width=device-width">'
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 56rem; margin: 0 auto; padding: 1rem; color: #1f2937 }
table { border-collapse: collapse; display: block; overflow-x: auto; max-width: 100% }
td, th { border: 1px solid #d1d5db; padding: .3rem .6rem; text-align: left }
pre { background: #f3f4f6; padding: .8rem; overflow-x: auto; border-radius: .4rem; font-size: .85rem }
code { font-size: .88em } img { max-width: 100% } .facts { font-size: .85rem; color: #4b5563 }
@media (prefers-color-scheme: dark) {
  body { color: #e5e7eb; background: #0b0f19 } td, th { border-color: #374151 } pre { background: #1f2937 }
  a { color: #93c5fd } .facts { color: #9ca3af }
}
"""


def run(log: list[str], *arguments: object) -> str:
    """What a command of the project said, which is added to the log."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    log.append(f"$ python -m {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    if done.returncode:
        raise SystemExit(log[-1])
    return done.stdout


def page(repo: Repo, folder: Path) -> Path:
    """The page of a repository: its card with what the Hub shows of its metadata; a Space is its own page."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = repo.at("main").tree
    for path, file in tree.items():
        if not path.endswith((".parquet", ".safetensors", ".bin")):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(file.data)
    if repo.kind == "space":
        return folder / "index.html"
    # The Hub lists the files of a repository without a card.
    listed = "\n".join(f"- `{path}`" for path in tree)
    text = tree["README.md"].data.decode() if "README.md" in tree else f"No card.\n\n{listed}\n"
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    facts = yaml.safe_load(match[1]) if match else {}
    shown = {name: value for name, value in facts.items() if name not in ("configs", "dataset_info", "model-index")}
    lines = [f"<b>{html.escape(str(name))}</b>: {html.escape(str(value))}" for name, value in shown.items()]
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text[match.end() :] if match else text)
    html_path = folder / "page.html"
    html_path.write_text(
        f'<!doctype html><meta charset="utf-8">{PHONE}<style>{STYLE}</style>'
        f'<h1>{html.escape(repo.name)}</h1><p class="facts">{"<br>".join(lines)}</p>{body}',
        encoding="utf-8",
    )
    return html_path


def pictures(browser: str, html_path: Path, out: Path) -> None:
    """A picture of a page at each width."""
    for width in WIDTHS:
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000"]
        command += [f"--window-size={max(width, 500)},2400", f"--user-data-dir={out.parent / '.profile'}"]
        address = html_path.resolve().as_uri()
        if width < 500:  # a window of the browser is not narrower, so the page is in a frame
            frame = html_path.with_name("frame.html")
            frame.write_text(
                f'<body style="margin:0"><iframe src="{address}" style="width:{width}px;height:2400px;border:0">'
            )
            address = frame.resolve().as_uri()
        subprocess.run([*command, f"--screenshot={out}-{width}.png", address], check=True, capture_output=True)


def publish(hub: Hub, folder: Path, names: Sequence[str], log: list[str]) -> None:
    """All that a maintainer does, in order."""
    readme = File(b"---\nlicense: mit\n---\n# Small\nA small model of language.\n")
    hub.add("model", "org/small", {**read(Path(BUNDLED["tiny-causal"])), "README.md": readme})
    built = folder / "built"
    run(log, "builders.rebuild", *names, "--offline", "--out", built)
    run(log, "builders.push", built, "--org", "org")
    tuned(bundled(), quick(), data(folder / "made"), folder / "adapter")
    run(log, "mitigation.publish", folder / "adapter", "--repo", "org/less", "--licence", "mit", "--base", "org/small")
    some = ("--benchmarks", "unstereo,pronouns", "--data", built, "--resamples", "500", "--device", "cpu")
    for model, options in (("org/small", ()), ("org/less", ("--adapter", "org/less"))):
        out = folder / "runs" / model.partition("/")[2]
        run(log, "scoring", "org/small", "--out", out, *some, *options)
        run(log, "scoring.commands.card", model, out, "--org", "org", "--results", "org/results", "--push", "--partial")
        repo = hub.repos["model", model]
        repo.branches["main"] = repo.pulls[1].oid
    run(log, "scoring.commands.leaderboard", "org", "--out", folder / "leaderboard.html", "--space", "org/scores")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.rehearsal", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mirror", type=Path, help="mirror of upstream sources")
    parser.add_argument("--browser", default="", help="a Chromium, for pictures")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True)
    names = EMBEDDED
    if options.mirror:
        os.environ["PROBES_MIRROR"], names = str(options.mirror), EMBEDDED + SOURCED
    log: list[str] = []
    with Hub(cache=options.folder / "cache") as hub:
        publish(hub, options.folder, names, log)
    for (kind, name), repo in hub.repos.items():
        short = f"{kind}-{name.partition('/')[2]}"
        html_path = page(repo, options.folder / "pages" / short)
        if options.browser:
            pictures(options.browser, html_path, options.folder / "pages" / short)
    (options.folder / "log.txt").write_text("\n".join(log), encoding="utf-8")
    print(f"{len(hub.repos)} pages are in {options.folder / 'pages'}.")


if __name__ == "__main__":
    main()

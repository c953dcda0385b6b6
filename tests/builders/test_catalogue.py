from pathlib import Path

import pytest

from builders.dataset import Alternative, BuildError, Remote, Source
from builders.sources.catalogue import Catalogue, Licence, catalogue

GOOD = f"""
[sources.words]
licence = "MIT"
citation = "made"
[[sources.words.alternatives]]
files = [{{ url = "https://example.org/words.csv", sha256 = "{"0" * 64}" }}]
[[sources.words.alternatives]]
lacks = "half"
files = [{{ url = "https://example.org/c.zip", git_blob = "{"1" * 40}", member = "words.csv" }}]
[licences.MIT]
name = "MIT License"
url = "https://opensource.org/license/mit"
redistribute = true
[citations]
made = "@misc{{made}}"
"""


def test_the_catalogue_holds_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "sources.toml"
    path.write_text(GOOD)
    alternatives = (
        Alternative((Remote("https://example.org/words.csv", sha256="0" * 64),)),
        Alternative((Remote("https://example.org/c.zip", git_blob="1" * 40, member="words.csv"),), "half"),
    )
    mit = Licence("MIT", "MIT License", "https://opensource.org/license/mit", True)
    expected = Catalogue({"words": Source("words", "MIT", "made", alternatives)}, {"MIT": mit}, {"made": "@misc{made}"})
    assert catalogue(path) == expected
    assert catalogue(path) is catalogue(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('licence = "MIT"', 'license = "MIT"', "source 'words' has the unknown key 'license', expected only licence, "),
        ('licence = "MIT"\n', "", "source 'words' has no 'licence'; add it."),
        ('licence = "MIT"', 'licence = "GPL"', "has the licence 'GPL', which [licences] does not list."),
        ('citation = "made"', 'citation = "x"', "has the citation 'x', which [citations] does not list."),
        ('lacks = "half"', 'laks = "half"', "source 'words' alternative 2 has the unknown key 'laks'"),
        ("member =", "path =", "a file of source 'words' alternative 2 has the unknown key 'path'"),
        (f'sha256 = "{"0" * 64}"', 'member = "x"', "https://example.org/words.csv, is not pinned; give its sha256 or"),
        ("0" * 64, "0" * 63, "expected 64 lower-case hexadecimal digits."),
        ("1" * 40, "F" * 40, "expected 40 lower-case hexadecimal digits."),
        ('"https://example.org/w', '"http://example.org/w', "expected one that begins with https://."),
        ("org/words.csv", "org/../words.csv", "has no place in a mirror"),
        ("redistribute = true", 'redistribute = "yes"', "licence 'MIT' has redistribute = 'yes', expected a bool"),
        ("redistribute = true", "", "licence 'MIT' has no 'redistribute'; add it."),
        ('made = "@misc{made}"', "made = 1", "[citations] has made = 1, expected a str."),
        ('lacks = "half"', 'lacks = ""', "alternative 2 has lacks = '', expected a str that is not empty."),
        ("[sources.words]", "[extra]\n[sources.words]", "sources.toml has the unknown key 'extra'"),
        ("[citations]", "[[citations]]", "sources.toml has citations = [{'made': '@misc{made}'}], expected a dict"),
        ("[sources.words]", "[sources]\nother = 1\n[sources.words]", "source 'other' is 1, expected a table with"),
        ("[citations]", "[citations", "sources.toml is not TOML: "),
    ],
)
def test_a_broken_catalogue_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "sources.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(BuildError) as stopped:
        catalogue(path)
    assert message in str(stopped.value)

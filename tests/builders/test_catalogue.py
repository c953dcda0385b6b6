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
        ('licence = "MIT"', 'license = "MIT"', "sources.words.license: unexpected keyword argument, given 'MIT'"),
        ('licence = "MIT"\n', "", "sources.words.licence: field required"),
        ('licence = "MIT"', 'licence = "GPL"', "has the licence 'GPL', which [licences] does not list."),
        ('citation = "made"', 'citation = "x"', "has the citation 'x', which [citations] does not list."),
        ('lacks = "half"', 'laks = "half"', "sources.words.alternatives.1.laks: unexpected keyword argument"),
        ("member =", "path =", "sources.words.alternatives.1.files.0.path: unexpected keyword argument"),
        (f'sha256 = "{"0" * 64}"', 'member = "x"', "https://example.org/words.csv, is not pinned; give its sha256 or"),
        ("0" * 64, "0" * 63, "files.0.sha256: string should match pattern '^[0-9a-f]{64}$', given '000"),
        ("1" * 40, "F" * 40, "files.0.git_blob: string should match pattern '^[0-9a-f]{40}$', given 'FFF"),
        (
            '"https://example.org/w',
            '"http://example.org/w',
            "files.0.url: string should match pattern '^https://', given 'http://",
        ),
        ("org/words.csv", "org/../words.csv", "has no place in a mirror"),
        ("redistribute = true", 'redistribute = "yes"', "licences.MIT.redistribute: input should be a valid boolean"),
        ("redistribute = true", "", "licences.MIT.redistribute: field required"),
        ('made = "@misc{made}"', "made = 1", "citations.made: input should be a valid string, given 1"),
        ('lacks = "half"', 'lacks = ""', "alternatives.1.lacks: string should have at least 1 character, given ''"),
        (f'[{{ url = "https://example.org/words.csv", sha256 = "{"0" * 64}" }}]', "[]", "should have at least 1 item"),
        ("[sources.words]", "[extra]\n[sources.words]", "extra: unexpected keyword argument"),
        ("[citations]", "[[citations]]", "citations: input should be a valid dictionary"),
        ("[sources.words]", "[sources]\nother = 1\n[sources.words]", "sources.other: input should be a dictionary"),
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

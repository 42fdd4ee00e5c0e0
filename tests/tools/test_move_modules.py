from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from move_modules import main
from moving.maps import Roots

PACKAGES = {"shop": "src", "tests": ""}


class Repo:
    """A small repository with the package ``shop`` in ``src``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet")
        self.git("config", "user.name", "somebody")
        self.git("config", "user.email", "somebody@example.org")
        self.write("src/shop/__init__.py", '"""A shop."""\n')

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        for folder in path.relative_to(self.root / "src").parents[:-1] if "src/" in name else ():
            init = self.root / "src" / folder / "__init__.py"
            if path.suffix == ".py" and not init.exists():
                init.write_text(f'"""{folder}."""\n', encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def run(self, *rows: str, options: tuple[str, ...] = ("--no-format",)) -> int:
        place = self.root.parent / "map.csv"
        place.write_text("old,new,note\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
        self.git("add", "--all")
        arguments = [str(place), "--root", str(self.root), *options]
        return main(arguments, Roots(self.root, PACKAGES))

    def files(self) -> set[str]:
        listed = self.git("ls-files", "--cached", "--others", "--exclude-standard").split()
        return {name for name in listed if (self.root / name).exists()}

    def python(self, code: str) -> str:
        """What a piece of code prints in the moved tree."""
        done = subprocess.run(
            [sys.executable, "-c", dedent(code)],
            cwd=self.root,
            env={"PYTHONPATH": f"{self.root / 'src'}:{self.root}", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    (tmp_path / "repo").mkdir()
    return Repo(tmp_path / "repo")


PRICE = """\
    \"\"\"Prices.\"\"\"

    RATE = 2


    def price(n):
        return n * RATE
    """


def test_every_form_of_import_follows_a_module(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write("src/shop/flow/stock.py", "COUNT = 7\n")
    repo.write(
        "src/shop/user.py",
        """\
        from __future__ import annotations

        from typing import TYPE_CHECKING

        import shop.flow.price
        import shop.flow.price as pricing
        from shop.flow import price, stock
        from shop.flow.price import RATE as rate, price as price_of

        if TYPE_CHECKING:
            from shop.flow.price import RATE


        def late():
            from shop.flow import price as inner, stock  # noqa: PLC0415

            return inner.price(stock.COUNT)


        def everything() -> RATE:
            return (
                shop.flow.price.price(1),
                pricing.price(2),
                price.price(3),
                price_of(rate),
                late(),
                stock.COUNT,
            )
        """,
    )
    assert repo.run("shop.flow.price,shop.exams.price.journey,") == 0
    assert repo.python("import shop.user; print(shop.user.everything())") == "(2, 4, 6, 4, 14, 7)"
    text = repo.read("src/shop/user.py")
    assert "shop.flow.price" not in text
    assert "import shop.exams.price.journey as pricing\n" in text
    assert "from shop.exams.price import journey\nfrom shop.flow import stock\n" in text
    assert (
        "    from shop.exams.price import journey as inner  # noqa: PLC0415\n"
        "    from shop.flow import stock  # noqa: PLC0415\n" in text
    )
    assert "journey.price(3)" in text
    assert repo.read("src/shop/exams/price/__init__.py") == '"""The package price."""\n'


def test_a_module_keeps_its_bound_name_where_the_new_one_is_taken(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write(
        "src/shop/user.py",
        """\
        from shop.flow import price


        def use(journey):
            return price.price(journey)
        """,
    )
    assert repo.run("shop.flow.price,shop.exams.journey,") == 0
    assert "from shop.exams import journey as price\n" in repo.read("src/shop/user.py")
    assert repo.python("import shop.user; print(shop.user.use(4))") == "8"
    assert "src/shop/user.py:1: journey is taken here" in capsys.readouterr().err


def test_comments_in_an_import_stay_when_one_module_answers_it(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write(
        "src/shop/user.py",
        """\
        from shop.flow.price import (  # prices
            RATE,  # per piece
            price,
        )

        print(RATE, price(1))
        """,
    )
    assert repo.run("shop.flow.price,shop.prices,") == 0
    assert repo.read("src/shop/user.py").startswith(
        "from shop.prices import (  # prices\n    RATE,  # per piece\n    price,\n)\n"
    )


def test_names_in_strings_follow_and_names_of_formats_stay(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/watch/__init__.py", '"""Watching."""\n')
    repo.write("src/shop/watch/sinks.py", "def send():\n    return 'sent'\n")
    repo.write(
        "src/shop/table.py",
        """\
        # See shop.watch.sinks for the sinks.
        VERBS = {"send": ("shop.watch.sinks", "Send."), "go": "shop.watch.sinks:send"}
        PATCHED = "shop.watch.sinks.send"
        SCHEMA = "shop.watch/1"
        REPORT = "shop.watch-report/1"
        FORMAT = "shop.watch.alert"


        def place(name):
            return f"shop.watch.{name}"
        """,
    )
    assert repo.run("shop.watch,shop.drift,") == 0
    text = repo.read("src/shop/table.py")
    assert "# See shop.drift.sinks for the sinks.\n" in text
    assert '("shop.drift.sinks", "Send."), "go": "shop.drift.sinks:send"}' in text
    assert 'PATCHED = "shop.drift.sinks.send"' in text
    assert 'SCHEMA = "shop.watch/1"' in text
    assert 'REPORT = "shop.watch-report/1"' in text
    assert 'FORMAT = "shop.watch.alert"' in text
    assert 'f"shop.drift.{name}"' in text
    assert "table.py:6: shop.watch.alert is left as it is" in capsys.readouterr().err


def test_programs_in_strings_are_rewritten_as_programs(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write(
        "tests/test_child.py",
        '''\
        CHILD = """
        from shop.flow import price
        from shop.flow.price import RATE

        print(price.price(4), RATE)
        """
        PROSE = """
        Words about an import from shop.flow.price,
        which are no program.
        """
        ''',
    )
    assert repo.run("shop.flow.price,shop.exams.journey,", "shop.flow.price:RATE,FACTOR,") == 0
    text = repo.read("tests/test_child.py")
    assert "from shop.exams import journey\nfrom shop.exams.journey import FACTOR\n" in text
    assert "print(journey.price(4), FACTOR)\n" in text
    assert "an import from shop.exams.journey,\n" in text
    assert repo.python("import tests.test_child as t; exec(t.CHILD)") == "8 2"


def test_a_package_whose_modules_are_named_at_run_time_is_pointed_out(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/report/page.py", "A = 1\n")
    repo.write("src/shop/report/html.py", "A = 1\n")
    repo.write("src/shop/load.py", 'def place(name):\n    return f"shop.report.{name}"\n')
    assert repo.run("shop.report.page,shop.drift.page,") == 0
    found = "src/shop/load.py:2: modules of shop.report are named at run time here"
    assert found in capsys.readouterr().err
    assert repo.read("src/shop/load.py").endswith('return f"shop.report.{name}"\n')


def test_a_module_becomes_a_script(repo: Repo) -> None:
    repo.write("src/shop/data/make.py", "from shop.data import words\n\nMADE = words.WORD\n")
    repo.write("src/shop/data/words.py", "WORD = 'made'\n")
    repo.write("tests/test_make.py", "from shop.data import make, words\n\nprint(make.MADE)\n")
    repo.write("Makefile", "python -m shop.data.make --all\npython -m shop.data\n")
    rows = (
        "shop.data.make,tools/make_data.py,",
        "shop.data.words,tools/data_words/words.py,",
        ",tools/data_words/__init__.py,Words.",
    )
    assert repo.run(*rows) == 0
    assert repo.read("Makefile") == "python tools/make_data.py --all\npython -m shop.data\n"
    assert repo.read("tools/make_data.py").startswith("from data_words import words\n")
    assert repo.read("tools/data_words/__init__.py") == '"""Words."""\n'
    assert repo.read("tests/test_make.py") == (
        "import make_data\nfrom data_words import words\n\nprint(make_data.MADE)\n"
    )
    assert not (repo.root / "tools/__init__.py").exists()
    assert repo.python("import sys; sys.path.append('tools'); import tests.test_make") == "made"
    assert repo.run(*rows) == 0
    assert repo.run(*rows, options=("--check",)) == 0


def test_docs_and_configuration_follow_and_history_stays(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    old = "python -m shop.flow.price\n"
    for name in ("Makefile", ".importlinter", "pyproject.toml", "CHANGELOG.md"):
        repo.write(name, old)
    repo.write(
        "docs/page.md",
        """\
        Prices are made in `src/shop/flow/price.py`, see [it](../src/shop/flow/price.py) and
        `flow/price.py`. Not here: `other/flow/price.pyx`.

        ```python
        from shop.flow import price

        price.price(3)
        ```

        ```console
        $ python -m shop.flow.price
        ```
        """,
    )
    assert repo.run("shop.flow.price,shop.exams.journey,") == 0
    for name in ("Makefile", ".importlinter", "pyproject.toml"):
        assert repo.read(name) == "python -m shop.exams.journey\n"
    assert repo.read("CHANGELOG.md") == old
    page = repo.read("docs/page.md")
    assert "in `src/shop/exams/journey.py`, see [it](../src/shop/exams/journey.py) and\n" in page
    assert "`exams/journey.py`. Not here: `other/flow/price.pyx`." in page
    assert "from shop.exams import journey\n\njourney.price(3)\n" in page
    assert "$ python -m shop.exams.journey\n" in page


def test_data_files_move_and_are_still_found(repo: Repo) -> None:
    repo.write("src/shop/gate/__init__.py", '"""A gate."""\n')
    repo.write("src/shop/gate/models/a.txt", "model a")
    repo.write("src/shop/gate/defaults/b.txt", "default b")
    repo.write(
        "src/shop/gate/read.py",
        """\
        from importlib.resources import files

        FOLDER = "models"


        def model():
            return (files("shop.gate") / FOLDER / "a.txt").read_text()


        def default():
            return files("shop.gate").joinpath("defaults", "b.txt").read_text()
        """,
    )
    rows = ("shop.gate,shop.exams.run.__init__,", "shop.gate.read,shop.exams.run.read,")
    assert repo.run(*rows) == 2
    data = (
        "src/shop/gate/models/,src/shop/exams/way/models/,",
        "src/shop/gate/defaults/,src/shop/exams/run/defaults/,",
        ",shop.exams.way,The way.",
    )
    assert repo.run(*rows, *data) == 0
    assert 'files("shop.exams.way") / FOLDER' in repo.read("src/shop/exams/run/read.py")
    code = "from shop.exams.run.read import *; print(model(), default())"
    assert repo.python(code) == "model a default b"
    assert repo.read("src/shop/exams/way/__init__.py") == '"""The way."""\n'
    assert not (repo.root / "src/shop/gate").exists()


def test_relative_imports_stay_together_or_become_absolute(repo: Repo) -> None:
    repo.write("tests/flow/__init__.py", "")
    repo.write("tests/flow/rigs.py", "RIG = 1\n")
    repo.write("tests/flow/test_a.py", "from .rigs import RIG\n")
    repo.write("tests/flow/test_b.py", "from .rigs import RIG\n")
    rows = (
        "tests.flow,tests.exams.price.__init__,",
        "tests.flow.rigs,tests.exams.price.rigs,",
        "tests.flow.test_a,tests.exams.price.test_a,",
        "tests.flow.test_b,tests.other.test_b,",
    )
    assert repo.run(*rows) == 0
    assert repo.read("tests/exams/price/test_a.py") == "from .rigs import RIG\n"
    assert repo.read("tests/other/test_b.py") == "from tests.exams.price.rigs import RIG\n"
    assert (repo.root / "tests/exams/__init__.py").exists()
    assert not (repo.root / "tests/__init__.py").exists()


def test_places_above_a_file_are_counted_from_its_new_place(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write(
        "tests/flow/test_a.py",
        """\
        from pathlib import Path

        ROOT = Path(__file__).parents[2]
        TESTS = Path(__file__).resolve().parent.parent
        BESIDE = Path(__file__).parents[2].parent
        HERE = Path(__file__).parent
        """,
    )
    assert repo.run("tests.flow.test_a,tests.exams.price.test_a,") == 0
    text = repo.read("tests/exams/price/test_a.py")
    assert "ROOT = Path(__file__).parents[3]\n" in text
    assert "TESTS = Path(__file__).resolve().parents[2]\n" in text
    assert "BESIDE = Path(__file__).parents[4]\n" in text
    assert "HERE = Path(__file__).parent\n" in text
    assert "tests/flow/test_a.py:6: a place beside this file" in capsys.readouterr().err


def test_a_second_run_changes_nothing_and_the_check_is_content(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write("src/shop/user.py", "from shop.flow import price\n\nprint(price.price(2))\n")
    rows = ("shop.flow.price,shop.exams.journey,", "shop.flow,,")
    assert repo.run(*rows, options=("--check",)) == 1
    found = capsys.readouterr().out
    assert "src/shop/flow/price.py: is still there" in found
    assert "src/shop/user.py:1: from shop.flow import price" in found
    assert repo.run(*rows) == 0
    repo.git("add", "--all")
    before = repo.git("write-tree")
    capsys.readouterr()
    assert repo.run(*rows) == 0
    repo.git("add", "--all")
    assert capsys.readouterr().out == "nothing to do\n"
    assert repo.git("write-tree") == before
    assert repo.run(*rows, options=("--check",)) == 0
    assert not (repo.root / "src/shop/flow").exists()


def test_the_check_finds_words_about_a_deleted_package(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/flow/__init__.py", '"""Nothing is left here."""\n')
    repo.write("src/shop/user.py", 'PACKAGE = "shop.flow"\n')
    assert repo.run("shop.flow,,") == 0
    assert repo.run("shop.flow,,", options=("--check",)) == 1
    assert "src/shop/user.py:1: shop.flow: shop.flow is deleted" in capsys.readouterr().out


def test_a_dry_run_prints_the_plan_and_touches_nothing(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write("src/shop/user.py", "from shop.flow.price import price\n")
    before = repo.files()
    assert repo.run("shop.flow.price,shop.exams.price,", options=("--dry-run",)) == 0
    assert repo.files() == before
    assert repo.read("src/shop/user.py") == "from shop.flow.price import price\n"
    assert capsys.readouterr().out.splitlines() == [
        "move    src/shop/flow/price.py -> src/shop/exams/price.py",
        "create  src/shop/exams/__init__.py",
        "rewrite src/shop/user.py",
        "1 modules move, 1 files are rewritten",
    ]


def test_a_module_becomes_the_package_of_its_siblings(repo: Repo) -> None:
    repo.write("src/shop/cli/drift.py", "from shop.cli.drift_push import push\n\nVERBS = [push]\n")
    repo.write("src/shop/cli/drift_push.py", "def push():\n    return 'pushed'\n")
    repo.write("src/shop/main.py", 'TABLE = {"drift": "shop.cli.drift"}\n')
    rows = ("shop.cli.drift,shop.cli.drift.__init__,", "shop.cli.drift_push,shop.cli.drift.push,")
    assert repo.run(*rows) == 0
    assert repo.read("src/shop/main.py") == 'TABLE = {"drift": "shop.cli.drift"}\n'
    assert repo.python("import shop.cli.drift as d; print(d.VERBS[0]())") == "pushed"
    assert repo.run(*rows) == 0
    assert repo.run(*rows, options=("--check",)) == 0


def test_a_package_moves_whole_but_for_rows_of_its_own(repo: Repo) -> None:
    repo.write("src/shop/watch/__init__.py", '"""Watching."""\n')
    repo.write("src/shop/watch/deep/one.py", "ONE = 1\n")
    repo.write("src/shop/watch/two.py", "from shop.watch.deep.one import ONE\n\nTWO = ONE + 1\n")
    repo.write("src/shop/watch/cron.py", "from shop.watch.two import TWO\n\nTHREE = TWO + 1\n")
    assert repo.run("shop.watch,shop.drift,", "shop.watch.cron,shop.schedule.cron,") == 0
    assert {name for name in repo.files() if name.startswith("src/shop/")} == {
        "src/shop/__init__.py",
        "src/shop/drift/__init__.py",
        "src/shop/drift/deep/__init__.py",
        "src/shop/drift/deep/one.py",
        "src/shop/drift/two.py",
        "src/shop/schedule/__init__.py",
        "src/shop/schedule/cron.py",
    }
    assert repo.python("from shop.schedule.cron import THREE; print(THREE)") == "3"


def test_history_follows_a_moved_file(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "before")
    assert repo.run("shop.flow.price,shop.exams.journey,") == 0
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "after")
    log = repo.git("log", "--follow", "--format=%s", "--", "src/shop/exams/journey.py")
    assert log.split() == ["after", "before"]


def test_imports_are_sorted_and_formatted_afterwards(repo: Repo) -> None:
    repo.write("src/shop/flow/price.py", PRICE)
    repo.write("src/shop/a.py", "A = 1\n")
    repo.write("src/shop/user.py", "from shop.a import A\nfrom shop.flow.price import RATE\n")
    repo.write("pyproject.toml", '[tool.ruff]\nsrc = ["src"]\n')
    assert repo.run("shop.flow.price,shop.Zone,", options=()) == 0
    text = repo.read("src/shop/user.py")
    assert text == "from shop.a import A\nfrom shop.Zone import RATE\n"
    assert repo.run("shop.Zone,shop.Aaa,", "shop.a,shop.zzz,", options=()) == 0
    assert repo.read("src/shop/user.py") == "from shop.Aaa import RATE\nfrom shop.zzz import A\n"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["shop.nothing,shop.there,"], "there is no such module"),
        (["shop.a,shop.c,", "shop.b,shop.c,"], "would both become shop.c"),
        (["shop.a,shop.b,"], "shop.b exists already"),
        (["shop.a,shop.b,", "shop.b,shop.c,"], "both an old and a new name"),
        (["shop.a,shop.x,", "shop.a,shop.y,"], "shop.a is named twice"),
        (["shop.a,,"], "only modules that hold nothing but words"),
        (["shop.a,other.a,"], "unknown top-level package 'other'"),
        (["shop.a:A,not a name,"], "expected module:Name"),
        (["shop.a:B,C,"], "defines neither B nor C"),
        (["shop.a:A,shop.b:A,"], "shop.b defines no A; move the definition"),
    ],
)
def test_a_map_that_cannot_be_followed_changes_nothing(
    repo: Repo, capsys: pytest.CaptureFixture[str], rows: list[str], words: str
) -> None:
    repo.write("src/shop/a.py", "A = 1\n")
    repo.write("src/shop/b.py", "from shop.a import A as ONE\n")
    before = repo.files()
    assert repo.run(*rows) == 2
    assert words in capsys.readouterr().err
    assert repo.files() == before


HOUSE = """\
    __all__ = ["House", "build"]


    class House:
        def beside(self) -> "House":
            return House()


    def build() -> House:
        return House()


    def other(House):
        return House


    class Street:
        House = 3

        def count(self):
            return self.House
    """


def test_a_renamed_symbol_is_followed_and_equal_names_are_not(repo: Repo) -> None:
    repo.write("src/shop/house.py", HOUSE)
    repo.write(
        "src/shop/user.py",
        """\
        from __future__ import annotations

        import shop.house
        from shop import house
        from shop import house as home
        from shop.house import House, Street

        KIND = {"House": House}
        NAMED = "shop.house.House"


        def make(kind: House | None = None, *, House2: House = House()) -> list[House]:
            found: "House | None" = House()
            return [found, house.House(), home.House(), shop.house.House(), House2]


        def shadowed(values):
            return [House for House in values], dict(House=1), Street.House


        def inner():
            House = 5

            def deeper():
                return House

            return deeper()


        def kind_of(thing):
            setattr(home, "House", thing)
            return getattr(thing, "House")
        """,
    )
    repo.write(
        "src/shop/late.py", "def f():\n    from shop.house import House\n\n    return House\n"
    )
    repo.write("src/shop/alias.py", "from shop.house import House as Home\n\nHOME = Home\n")
    repo.write("src/shop/unrelated.py", "class House:\n    pass\n\n\nHOUSE = House()\n")
    assert repo.run("shop.house:House,Workspace,") == 0
    made = repo.read("src/shop/house.py")
    assert '__all__ = ["Workspace", "build"]' in made
    assert 'def beside(self) -> "Workspace":\n        return Workspace()' in made
    assert "def other(House):\n    return House\n" in made
    assert "    House = 3\n" in made
    assert "return self.House" in made
    text = repo.read("src/shop/user.py")
    assert 'KIND = {"House": Workspace}' in text
    assert 'NAMED = "shop.house.Workspace"' in text
    assert "kind: Workspace | None = None, *, House2: Workspace = Workspace()" in text
    assert 'found: "Workspace | None" = Workspace()' in text
    assert "house.Workspace(), home.Workspace(), shop.house.Workspace(), House2]" in text
    assert "return [House for House in values], dict(House=1), Street.House" in text
    assert "    House = 5\n\n    def deeper():\n        return House\n" in text
    assert 'setattr(home, "Workspace", thing)\n    return getattr(thing, "House")' in text
    assert "import Workspace\n\n    return Workspace\n" in repo.read("src/shop/late.py")
    assert "import Workspace as Home\n\nHOME = Home\n" in repo.read("src/shop/alias.py")
    assert "class House:" in repo.read("src/shop/unrelated.py")
    assert repo.python("import shop.user; print(len(shop.user.make()))") == "5"
    before = text
    assert repo.run("shop.house:House,Workspace,") == 0
    assert repo.read("src/shop/user.py") == before


def test_a_symbol_that_is_handed_on_is_renamed_on_its_way(repo: Repo) -> None:
    repo.write("src/shop/house.py", "class House:\n    pass\n")
    repo.write("src/shop/door.py", "from shop.house import House\n\n__all__ = ['House']\n")
    repo.write("src/shop/user.py", "from shop.door import House\n\nprint(House.__name__)\n")
    assert repo.run("shop.house:House,Workspace,", "shop.house,shop.workspace,") == 0
    assert repo.read("src/shop/door.py") == (
        "from shop.workspace import Workspace\n\n__all__ = ['Workspace']\n"
    )
    assert repo.python("import shop.user") == "Workspace"


def test_a_new_name_that_is_taken_is_imported_under_the_old_one(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("src/shop/house.py", "class House:\n    pass\n")
    repo.write(
        "src/shop/user.py",
        """\
        from shop.house import House

        Workspace = 3


        def both():
            return House.__name__, Workspace
        """,
    )
    assert repo.run("shop.house:House,Workspace,") == 0
    assert "from shop.house import Workspace as House\n" in repo.read("src/shop/user.py")
    assert repo.python("import shop.user; print(shop.user.both())") == "('Workspace', 3)"
    assert "Workspace is taken here" in capsys.readouterr().err


def test_two_sources_of_one_name_are_not_renamed_apart(repo: Repo) -> None:
    repo.write("src/shop/house.py", "class House:\n    pass\n")
    repo.write("src/shop/barn.py", "class House:\n    pass\n")
    repo.write(
        "src/shop/user.py",
        """\
        try:
            from shop.house import House
        except ImportError:
            from shop.barn import House

        print(House.__name__)
        """,
    )
    assert repo.run("shop.house:House,Workspace,") == 0
    assert "    from shop.house import Workspace as House\n" in repo.read("src/shop/user.py")
    assert repo.python("import shop.user") == "Workspace"


def test_imports_follow_a_symbol_that_was_moved_by_hand(repo: Repo) -> None:
    repo.write("src/shop/core/exam.py", "class Exam:\n    pass\n\n\nROW = 1\n")
    repo.write("src/shop/packs/rows.py", "from shop.core.exam import Exam, Row\n\nprint(Exam)\n")
    repo.write(
        "src/shop/user.py",
        "from shop.core.exam import ROW, Exam, Row\n\nprint(Exam, Row, ROW)\n",
    )
    row = "shop.core.exam:Row,shop.packs.rows:Row,"
    assert repo.run(row) == 2
    own = repo.read("src/shop/packs/rows.py")
    repo.write("src/shop/packs/rows.py", f"{own}\n\nclass Row:\n    pass\n")
    assert repo.run(row) == 0
    assert repo.read("src/shop/user.py").startswith(
        "from shop.core.exam import ROW, Exam\nfrom shop.packs.rows import Row\n"
    )
    assert repo.read("src/shop/packs/rows.py").startswith("from shop.core.exam import Exam\n")
    assert repo.python("import shop.user").endswith("1")

"""What a user has beside the function travels with it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import gridweave as gw
import pytest
from gridweave.bundles import code_bundle, pack
from gridweave.imports import imported_by

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project


def test_modules_beside_the_script_travel_with_what_they_import(gateway: Gateway, project: Project, python: Program) -> None:
    """Also those imported inside functions only, computed names, packages with data, and folders without __init__."""
    folder = project(
        script="""
        import importlib
        import gridweave as gw
        import helpers

        @gw.function
        def work(x):
            import lazily
            return helpers.twice(x), lazily.NAME, helpers.plugin.NAME

        print(work.remote(4))
        """,
        helpers="""
        import importlib
        from shelf import read
        plugin = importlib.import_module("plug" + "in")

        def twice(x):
            from spaces.inner import deep
            return 2 * x, read(), deep.VALUE
        """,
        lazily="NAME = __name__",
        plugin="NAME = __name__",
        shelf__in____init__="""
        from pathlib import Path
        from . import names
        def read():
            return Path(__file__).with_name("data.txt").read_text() + names.NAME
        """,
        shelf__in__names="NAME = 'names'",
        spaces__in__inner__in__deep="VALUE = 'deep'",
        unused="raise RuntimeError",
    )
    (folder / "shelf" / "data.txt").write_text("data ")
    done = python("script.py")
    assert (0, "((8, 'data names', 'deep'), 'lazily', 'plugin')\n", "") == (done.returncode, done.stdout, done.stderr)
    unpacked = [path for path in gateway.folder.rglob("src/**/*") if path.is_file()]
    sent = {path.as_posix().partition("/src/")[2] for path in unpacked}
    assert {"helpers.py", "lazily.py", "plugin.py", "shelf/__init__.py", "shelf/data.txt", "shelf/names.py", "spaces/inner/deep.py"} <= sent
    assert not {each for each in sent if each.startswith(("unused", "script"))}


def test_functions_of_a_local_module_are_sent_by_reference(gateway: Gateway, project: Project, python: Program) -> None:
    """The module is imported there, once, with its own state; the decorator in it needs no client on the node."""
    project(
        script="""
        from tasks import remember
        print(remember.remote(1))
        """,
        tasks="""
        import gridweave as gw
        seen = []

        class Thing:
            def __eq__(self, other):
                return type(other) is Thing

        @gw.function
        def remember(x):
            import tasks
            tasks.seen.append(x)
            return seen == [x] and tasks.remember.__wrapped__ is remember.__wrapped__, Thing() == tasks.Thing()
        """,
    )
    done = python("script.py")
    assert (0, "(True, True)\n", "") == (done.returncode, done.stdout, done.stderr)


def test_calling_remote_inside_a_job_is_answered_in_words(gateway: Gateway, project: Project, python: Program) -> None:
    """A node has no client; a plain call is what was meant."""
    project(
        script="""
        import gridweave as gw

        @gw.function
        def inner(x):
            return x

        @gw.function
        def outer(x):
            return inner.remote(x)

        try:
            outer.remote(1)
        except gw.Refused as error:
            print(error)
        """
    )
    said = python("script.py").stdout
    assert "Inside a job call the function itself" in said
    assert "from a checkout: pip install ./sdk" in said, "no registry has it"


def test_imports_are_found_wherever_they_stand() -> None:
    """Also relative ones, in nested functions, under a condition, and late in a file with hundreds of names."""
    many = "\n".join(f"name_{index} = {index}.5" for index in range(400))
    source = f"""{many}
import a.b as c
from d import e, f
if a:
    from .g import h
class K:
    def m(self):
        from ... import i
        return lambda: __import__("unseen") or [j for j in ()]
try:
    import k
except ImportError:
    from .....above import l
"""
    found = set(imported_by(compile(source, "x", "exec"), "p.q.r"))
    assert {"a.b", "d", "d.e", "d.f", "p.q.r.g", "p.q.r.g.h", "p", "p.i", "k"} == found


def test_equal_files_give_equal_bytes(tmp_path: Path) -> None:
    """Or each call would upload its unchanged code again."""
    first, second = tmp_path / "b.py", tmp_path / "a.py"
    first.write_text("1")
    second.write_text("2")
    one, two = pack({"x.py": first, "y.py": second}), pack({"y.py": second, "x.py": first})
    assert one.sha256 == two.sha256
    one.close()
    two.close()


def test_caches_and_environments_stay_behind_and_large_data_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package folder often has a virtual environment or a data set in it."""
    package = tmp_path / "packed_here"
    for name in ("__init__.py", "venv/x.py", "own_env/pyvenv.cfg", ".git/config", "__pycache__/a.pyc", "sub/keep.json"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    with (package / "huge.bin").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(UserWarning, match=r"packed_here/huge.bin \(11.0 MiB\) stays behind"):
        bundle = code_bundle(frozenset({"packed_here"}))
    assert bundle is not None
    (tmp_path / "code.zip").write_bytes(b"".join(bundle.chunks()))
    bundle.close()
    assert ["packed_here/__init__.py", "packed_here/sub/keep.json"] == zipfile.ZipFile(tmp_path / "code.zip").namelist()


def test_too_much_code_is_refused_naming_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody must know what to move away."""
    package = tmp_path / "fat_package"
    package.mkdir()
    for index in range(8):
        with (package / f"m{index}.json").open("wb") as file:
            file.truncate((9 if index else 10) * 1024 * 1024)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(gw.Refused, match=r"73.0 MiB.*64.0 MiB.*Largest: fat_package/m0.json \(10.0 MiB\)"):
        code_bundle(frozenset({"fat_package"}))


def test_an_extension_module_of_another_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail on the node with an import error that nobody understands."""
    package = tmp_path / "native_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "fast.cpython-311-darwin.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(gw.Refused, match=r"native_package/fast.cpython-311-darwin.so .*another system.*wheel"):
        code_bundle(frozenset({"native_package"}))
    (package / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    bundle = code_bundle(frozenset({"native_package"}))
    assert bundle is not None
    bundle.close()


def test_a_folder_that_is_not_there_is_refused() -> None:
    """Before anything is sent."""

    @gw.function(env={"working_dir": "/no/such/folder"})
    def look() -> None: ...

    with pytest.raises(gw.Refused, match="/no/such/folder") as caught:
        look.spawn()
    assert "env.working_dir" == caught.value.field

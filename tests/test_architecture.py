"""How the package is built: imports run one way, and `import trihop` costs little."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import trihop

SOURCE = Path(trihop.__file__).parent

# Each module may import those above it. Values and decisions come first, then what touches
# the world, then the run of an operation, then the ways in.
ORDER = [
    *("_version", "_forks", "_arguments"),
    *("_redact", "_links", "_secrets", "_clock", "_deadline", "_pacing", "_progress", "_events"),
    *("_values", "_verdicts", "_origin", "_template", "_surface", "_provider"),
    *("_schedule", "_limits", "_record", "_trace_url", "_errors", "_saved", "stores"),
    *("_wire", "_telemetry", "_hops", "_results", "_durable", "_middleware", "_block", "_triangle"),
    *("providers", "_operation", "_resume", "_worker", "engines", "_fleet"),
    *("testing", "viewer", "demo", "cli"),
]

# Only these may import what slows a start, or what not everybody has installed.
HEAVY = {
    "opentelemetry": {
        "_telemetry.tracing",
        "_telemetry.configure",
        "_middleware.instrumentor",
        "testing",
        "viewer",
        "demo",
        "cli",
    },
    "time": {"_clock"},
    "rich": {"cli", "_progress.bars"},
    "click": {"cli"},
    "jmespath": {"_surface"},
    "sqlalchemy": {"stores"},
    "celery": {"engines"},
    "procrastinate": {"engines"},
}


def unit(module):
    """The part of the package that ORDER names: a module, or a whole subpackage."""
    return module.split(".")[1] if "." in module else "__init__"


def within(module, corners):
    """Whether a module is one of these, or in one of these subpackages."""
    return unit(module) in corners or module.removeprefix("trihop.") in corners


@cache
def modules():
    """Every module's name and file."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


@cache
def imported(path, *, lazily=True):
    """The modules that this one imports when it runs, those inside functions too; not those for type checkers only."""

    def visit(node):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for child in node.orelse:
                yield from visit(child)
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not lazily:
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                name if (SOURCE.parent / f"{name.replace('.', '/')}.py").exists() else node.module for name in names
            )
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return set(visit(ast.parse(path.read_text())))


def test_every_module_has_a_place():
    """A new module is given its place in ORDER, above, and one that has gone loses it."""
    found = {unit(name) for name, _ in modules()} - {"__init__"}

    assert found == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


def test_imports_run_one_way():
    """No module imports one that comes after it, not even inside a function."""
    place = {name: number for number, name in enumerate(ORDER)}
    against = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imported(path)
        if other.startswith("trihop.") and unit(name) != "__init__" and unit(other) != unit(name)
        if place.get(unit(other), -1) > place.get(unit(name), len(ORDER))
    ]

    assert against == []


def test_no_subpackage_imports_in_circles():
    """Within a subpackage, too, imports run one way."""
    graph = {
        name: {other for other in imported(path, lazily=False) if other.startswith("trihop.") and other != name}
        for name, path in modules()
        if unit(name) != "__init__"
    }
    left = dict(graph)
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]

    assert left == {}


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_stay_where_they_belong(library):
    """Each is imported in its own corner and nowhere else."""
    found = {name for name, path in modules() for other in imported(path) if other.split(".")[0] == library}

    assert [name for name in found if not within(name, HEAVY[library])] == []


def test_the_sdk_is_for_applications_alone():
    """The library itself knows OpenTelemetry's API; its SDK is imported where somebody sets it up or captures spans."""
    found = {name for name, path in modules() for other in imported(path) if other.startswith("opentelemetry.sdk")}

    assert [name for name in found if not within(name, {"_telemetry.configure", "testing", "cli"})] == []


PROBE = """
import json, sys, warnings
{code}
print(json.dumps(sorted(sys.modules)))
"""
NEVER = ("opentelemetry.sdk", "opentelemetry.exporter", "sqlalchemy", "rich", "click", "pytest", "trihop.testing")


def loaded_by(code):
    """The modules that this code loads, run where any warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE.format(code=code)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_importing_it_loads_nothing_heavy_and_warns_of_nothing():
    """`import trihop` needs requests and a few modules of its own: the engine comes with the first operation."""
    loaded = loaded_by("import trihop")

    assert [name for name in loaded if name.startswith((*NEVER, "jmespath", "trihop._block", "trihop.providers"))] == []
    assert "opentelemetry" not in loaded
    assert "requests" in loaded


def test_an_operation_loads_no_sdk():
    """Not even the first operation needs more than the API."""
    loaded = loaded_by("import trihop\nwith trihop.operation('export', deadline=60): pass")

    assert [name for name in loaded if name.startswith(NEVER)] == []
    assert "opentelemetry.trace" in loaded


def test_every_public_name_is_there():
    """What `__all__` promises can be imported, and what it does not is no attribute by accident."""
    assert len(trihop.__all__) == len(set(trihop.__all__))
    assert [name for name in trihop.__all__ if not hasattr(trihop, name)] == []
    with pytest.raises(AttributeError, match="module 'trihop' has no attribute 'opration'"):
        trihop.opration  # noqa: B018


def test_every_listed_name_is_there_without_extras():
    """`from trihop import *` works in a plain installation; names that need more say what to install when asked for."""
    hidden = "import sys; sys.modules['sqlalchemy'] = sys.modules['opentelemetry.instrumentation'] = None\n"

    assert "trihop._fleet.fleet" in loaded_by(f"{hidden}from trihop import *")
    assert "trihop.stores" in loaded_by(f"{hidden}from trihop import MemoryStore")
    for name, advice in (("SQLStore", "trihop[sql]"), ("TrihopInstrumentor", "opentelemetry-instrumentation")):
        told = f"try:\n    trihop.{name}\nexcept ModuleNotFoundError as error:\n    assert {advice!r} in str(error)"
        loaded_by(f"{hidden}import trihop\n{told}\nelse:\n    raise AssertionError")

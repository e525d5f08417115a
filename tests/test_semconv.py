import ast
import importlib
import re
import timeit
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes, url_attributes
from opentelemetry.semconv.metrics import http_metrics
from opentelemetry.semconv.schemas import Schemas

from trihop._telemetry import semconv as names

ATTRIBUTES = {row.name: row for row in names.TABLE if row.kind == "attribute"}
OURS = [row for row in names.TABLE if not row.borrowed and row.kind != "span"]


def constants() -> dict[str, str]:
    """The module's string constants that are names on the wire, by their Python names."""
    known = {row.name for row in names.TABLE}
    own = {key: value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    return {key: value for key, value in own.items() if value in known}


def test_every_name_has_one_row_of_its_kind():
    """No two rows of the table share kind and name."""
    counts = Counter((row.kind, row.name) for row in names.TABLE)
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_name_is_spelled_once():
    """A name stands in the module's source in one place, so that a change cannot miss another."""
    literals = Counter(
        node.value
        for node in ast.walk(ast.parse(Path(names.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    dotted = [name for name in constants().values() if "." in name]
    assert {name: literals[name] for name in dotted if literals[name] != 1} == {}


def test_every_row_is_reachable_by_a_constant():
    """Whatever the table promises can be emitted without writing the name again."""
    reachable = {*constants().values(), *names.RESPONSE_HEADERS.values()}
    assert {row.name for row in names.TABLE} == reachable


def test_no_two_constants_mean_the_same_name():
    """Each name on the wire has one name in the code."""
    assert len(set(constants().values())) == len(constants())


def test_our_names_are_object_dot_property():
    """Our own names live under trihop., in lower case, words joined by underscores."""
    pattern = re.compile(r"trihop(\.[a-z][a-z0-9_]*){1,4}")
    assert [row.name for row in OURS if not pattern.fullmatch(row.name)] == []


def test_borrowed_names_are_never_under_our_namespace():
    """A standard namespace is not extended, and ours holds nothing borrowed."""
    assert [row.name for row in names.TABLE if row.borrowed and row.name.startswith("trihop.")] == []


def test_every_row_says_what_it_means_in_one_line():
    """The meaning is a sentence of one line."""
    assert [
        row.name for row in names.TABLE if not re.fullmatch(r"[A-Z][^\n]+\.", row.meaning) and '"' not in row.meaning
    ] == []


def test_every_column_holds_a_known_word():
    """Types, cardinalities and places come from short lists."""
    types = {"str", "str[]", "int", "double", "bool"}
    places = {"every", "hop", "root", "poll", "download", "segment", "attempt", "metric"}
    for row in ATTRIBUTES.values():
        assert row.type in types, row
        assert row.cardinality in {"low", "medium", "high"}, row
        assert row.on, row
        assert set(row.on) <= places, row
    assert {row.type for row in names.TABLE if row.kind == "span"} == {"internal", "client"}
    assert {row.type for row in names.METRICS.values()} == {"histogram", "counter", "updowncounter", "gauge"}


def test_every_double_has_a_unit():
    """A measured number without a unit is a riddle."""
    assert [row.name for row in ATTRIBUTES.values() if row.type == "double" and not row.unit] == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (names.HTTP_REQUEST_METHOD, http_attributes.HTTP_REQUEST_METHOD),
        (names.HTTP_REQUEST_RESEND_COUNT, http_attributes.HTTP_REQUEST_RESEND_COUNT),
        (names.HTTP_RESPONSE_STATUS_CODE, http_attributes.HTTP_RESPONSE_STATUS_CODE),
        (names.SERVER_ADDRESS, server_attributes.SERVER_ADDRESS),
        (names.SERVER_PORT, server_attributes.SERVER_PORT),
        (names.URL_FULL, url_attributes.URL_FULL),
        (names.ERROR_TYPE, error_attributes.ERROR_TYPE),
        (names.HTTP_CLIENT_REQUEST_DURATION, http_metrics.HTTP_CLIENT_REQUEST_DURATION),
    ],
)
def test_a_borrowed_name_is_the_conventions_own(ours, theirs):
    """The strings kept here are those of the published package."""
    assert ours == theirs


def test_borrowed_response_headers_follow_the_template():
    """A response header's name is the convention's template with the lower-case field name."""
    template = http_attributes.HTTP_RESPONSE_HEADER_TEMPLATE
    assert {field: f"{template}.{field}" for field in names.RESPONSE_HEADERS} == names.RESPONSE_HEADERS
    assert all(field == field.lower() for field in names.RESPONSE_HEADERS)


def test_all_that_is_borrowed_has_been_compared():
    """No borrowed name is left out of the comparison with the published package."""
    borrowed = {row.name for row in names.TABLE if row.borrowed}
    modules = (http_attributes, server_attributes, url_attributes, error_attributes, http_metrics)
    published = {value for module in modules for key, value in vars(module).items() if key.isupper()}
    assert borrowed - set(names.RESPONSE_HEADERS.values()) <= published


def test_the_schema_is_one_that_was_published():
    """The schema URL is in the installed package, or newer than all that the package knows."""

    def version(url: str) -> tuple[int, ...]:
        return tuple(int(part) for part in url.rpartition("/")[2].split("."))

    published = [schema.value for schema in Schemas]
    assert names.SCHEMA_URL in published or version(names.SCHEMA_URL) > max(map(version, published))
    assert names.SCHEMA_URL.rpartition("/")[0] == published[0].rpartition("/")[0]


def test_histograms_and_only_they_advise_buckets():
    """Every histogram comes with rising bounds; no other instrument has any."""
    for row in names.METRICS.values():
        assert bool(row.buckets) == (row.type == "histogram"), row
        assert list(row.buckets) == sorted(set(row.buckets)), row


def test_the_http_histogram_advises_the_conventions_buckets():
    """A borrowed metric keeps the borrowed bounds, or dashboards cannot mix it with others'."""
    assert names.METRICS[names.HTTP_CLIENT_REQUEST_DURATION].buckets == (
        *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    )


def test_a_metric_carries_only_what_may_label_one():
    """No label of high cardinality, and none the table does not allow on metrics."""
    for row in names.METRICS.values():
        for label in row.attributes:
            assert "metric" in ATTRIBUTES[label].on, (row.name, label)
            assert ATTRIBUTES[label].cardinality != "high", (row.name, label)
    labels = {label for row in names.METRICS.values() for label in row.attributes}
    assert {row.name for row in ATTRIBUTES.values() if "metric" in row.on} == labels


def test_no_counter_says_total():
    """Counters carry no `total`: backends append it themselves."""
    assert [row.name for row in names.METRICS.values() if "total" in row.name] == []


def test_the_words_of_a_closed_set_fit_their_limit():
    """Even all marks at once stay within 64 characters."""
    assert len(",".join(names.MARKS)) <= 64
    assert max(len(word) for row in names.TABLE for word in row.values) <= 64


def test_importing_the_table_costs_less_than_a_millisecond():
    """The table is made at every import of the library, and must not be felt."""
    code = compile(Path(names.__file__).read_text(encoding="utf-8"), names.__file__, "exec")
    assert min(timeit.repeat(lambda: exec(code, {"__name__": "trihop._telemetry.semconv"}), number=1, repeat=20)) < 1e-3


@pytest.mark.parametrize("module", ["trihop._telemetry.semconv", "trihop._telemetry.fold"])
def test_names_and_folding_know_no_telemetry_library(module):
    """Names and decisions are testable without OpenTelemetry, so they do not import it."""
    source = Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {"__future__", "collections", "collections.abc", "typing", "trihop", "trihop._telemetry"}

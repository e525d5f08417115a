"""What is shipped for the viewers: parsed, checked by the grammar of each language, and held against `_semconv.TABLE`.

Tempo, Grafana and the compose file are not run here; that their ports, names and references agree is all that is shown.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from acceptance.servers import debian, node_with
from acceptance.servers.jaeger import CONFIG, TESTS
from trihop._telemetry import semconv

ATTRIBUTES = {row.name for row in semconv.TABLE if row.kind == "attribute"}
SPAN_METRICS = ("traces_span_metrics_calls_total", "traces_span_metrics_duration_seconds")
DASHBOARD = json.loads((CONFIG / "grafana" / "trihop.json").read_text(encoding="utf-8"))


def load(name: str) -> Any:
    return yaml.safe_load((CONFIG / name).read_text(encoding="utf-8"))


def fenced(language: str) -> list[str]:
    """The queries in one language that the README has, a line each."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (CONFIG / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def targets(datasource: str) -> list[dict[str, Any]]:
    return [
        target
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        if target["datasource"]["uid"] == datasource
    ]


def rules() -> list[dict[str, Any]]:
    return [rule for group in load("alerts.yaml")["groups"] for rule in group["rules"]]


def traceql() -> list[str]:
    return [*fenced("traceql"), *(target["query"].replace("$slow", "10m") for target in targets("tempo"))]


def promql() -> list[str]:
    shown = [target["expr"].replace("$__rate_interval", "5m") for target in targets("prometheus")]
    return [*fenced("promql"), *shown, *(rule["expr"] for rule in rules())]


def prometheus_name(row: semconv.Name) -> str:
    """A metric's name as the collector's exporter writes it; `test_jaeger` holds the same against a real scrape."""
    unit = {"s": "_seconds", "By": "_bytes"}.get(row.unit, "")
    return row.name.replace(".", "_") + unit + ("_total" if row.type == "counter" else "")


def known_series() -> set[str]:
    """Every series a query may name."""
    known = {rule["record"] for rule in rules() if "record" in rule}
    histograms = {SPAN_METRICS[1]}
    for row in semconv.METRICS.values():
        (histograms if row.type == "histogram" else known).add(prometheus_name(row))
    return known | {SPAN_METRICS[0]} | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


def known_labels() -> set[str]:
    counted = {dimension["name"] for dimension in load("collector.yaml")["connectors"]["spanmetrics"]["dimensions"]}
    measured = {name for row in semconv.METRICS.values() for name in row.attributes}
    return {name.replace(".", "_") for name in counted | measured} | {"le", "otel_scope_name"}


def test_every_traceql_query_parses():
    """Grafana's own grammar takes each of them."""
    script = TESTS / "acceptance" / "traceql.mjs"
    grammar = node_with("@grafana/lezer-traceql@1.0.0")
    queries = [*traceql(), "{ span.trihop.job.id = }"]
    done = subprocess.run(
        ["node", str(script), str(grammar)], input=json.dumps(queries), capture_output=True, text=True, check=True
    )
    *wrong, of_the_broken_one = json.loads(done.stdout)

    assert len(wrong) > 20
    assert of_the_broken_one != []
    assert {query: faults for query, faults in zip(queries, wrong, strict=False) if faults} == {}


def test_every_promql_query_parses(tmp_path: Path):
    """promtool takes each of them as the expression of a rule."""
    checked = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(promql())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": checked}]}))
    done = subprocess.run(
        [debian.promtool(), "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert f"{len(promql())} rules found" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", CONFIG / "prometheus.yaml"),
        ("check", "rules", CONFIG / "alerts.yaml"),
        ("test", "rules", TESTS / "acceptance" / "alerts.test.yaml"),
    ],
    ids=["config", "rules", "alerts"],
)
def test_promtool_passes_what_prometheus_is_given(arguments: tuple[str | Path, ...]):
    """The scrape configuration and the rules are valid, and the alerts fire when they should and not otherwise."""
    done = subprocess.run([debian.promtool(), *arguments], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_attribute_that_a_query_names_is_one_we_emit():
    """TraceQL scopes and Jaeger's tags alike."""
    asked = {
        name
        for query in traceql()
        for name in re.findall(r'\b(?:span|event)\."?([a-z][a-z0-9_.-]*)', query)
        if name != "name"
    }
    tags = {pair.partition("=")[0] for query in fenced("jaeger") for pair in query.split()}

    assert len(asked) > 15
    assert asked - ATTRIBUTES == set()
    assert tags - ATTRIBUTES == set()


def test_every_series_and_label_that_a_query_names_exists():
    """Names follow from the table by the exporter's rules; recorded ones are recorded in `alerts.yaml`."""
    words = {
        word
        for query in [*promql(), *(variable["definition"] for variable in DASHBOARD["templating"]["list"][:1])]
        for word in re.findall(r"[a-zA-Z_][\w:]*", re.sub(r'"[^"]*"', "", query))
        if "_" in word or ":" in word
    } - {"histogram_quantile", "last_over_time", "label_values", "group_left"}

    assert words - known_series() - known_labels() == set()


def test_closed_sets_are_spelt_as_they_are_emitted():
    """A result that a query compares with is one of the results."""
    compared = {
        value
        for query in [*traceql(), *promql(), *fenced("jaeger")]
        for values in re.findall(r'operation[._]result\s*(?:=~|!=|=)\s*"?([a-z|]*)', query)
        for value in values.split("|")
        if value
    }

    assert compared >= {"success", "timeout", "failure"}
    assert compared - set(semconv.RESULTS) - {"nil"} == set()


def test_a_panel_shows_what_it_says_from_a_source_that_is_provisioned():
    """Each panel has queries, a description and a place that no other panel covers; its source has that uid."""
    sources = {source["uid"]: source["type"] for source in load("grafana/datasources.yaml")["datasources"]}
    covered: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["description"], panel["title"]
        assert cells & covered == set(), panel["title"]
        covered |= cells
        for target in panel["targets"]:
            assert sources[target["datasource"]["uid"]] == target["datasource"]["type"]
            assert panel["datasource"] == target["datasource"]
            assert target["datasource"]["uid"] != "tempo" or {"queryType", "tableType", "limit"} <= set(target)

    assert max(x for x, _ in covered) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert set(sources) == {"prometheus", "tempo", "jaeger"}


def test_exemplars_lead_to_tempo():
    """Prometheus is told to keep them, the collector to send them, Grafana where to look them up."""
    (prometheus,) = (s for s in load("grafana/datasources.yaml")["datasources"] if s["uid"] == "prometheus")
    collector = load("collector.yaml")

    assert prometheus["jsonData"]["exemplarTraceIdDestinations"] == [{"name": "trace_id", "datasourceUid": "tempo"}]
    assert collector["connectors"]["spanmetrics"]["exemplars"]["enabled"] is True
    assert collector["exporters"]["prometheus"]["enable_open_metrics"] is True
    assert "--enable-feature=exemplar-storage" in load("compose.yaml")["services"]["prometheus"]["command"]


def test_no_label_of_a_metric_has_a_value_for_each_job():
    """The dimensions that spans are counted by are few-valued, and reach to two hours."""
    spanmetrics = load("collector.yaml")["connectors"]["spanmetrics"]
    cardinality = {row.name: row.cardinality for row in semconv.TABLE if row.kind == "attribute"}

    assert {cardinality[dimension["name"]] for dimension in spanmetrics["dimensions"]} <= {"low", "medium"}
    assert spanmetrics["histogram"]["explicit"]["buckets"][-1] == "2h"


def test_tempo_knows_that_a_span_may_be_hours_long():
    """Its blocks may begin two hours ago, and the API at the far end is drawn by its host."""
    tempo = load("tempo.yaml")
    graph = tempo["metrics_generator"]["processor"]["service_graphs"]

    assert tempo["storage"]["trace"]["wal"]["ingestion_time_range_slack"] == "2h"
    assert semconv.SERVER_ADDRESS in graph["peer_attributes"]
    assert graph["histogram_buckets"][-1] == 7200
    assert tempo["overrides"]["defaults"]["metrics_generator"]["processors"] == ["service-graphs"]


def addresses(node: Any) -> Iterator[tuple[str, int]]:
    """Host and port of each address in a configuration, a default of the environment's included."""
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for value in values:
        yield from addresses(value)
    if isinstance(node, str):
        for host, port in re.findall(r"(?:^|//|:-)([a-z][a-z0-9-]*):(\d+)", node):
            yield host, int(port)


def listening() -> dict[str, set[int]]:
    """The ports on which each container of the compose file listens, by its own configuration."""

    def ports(*texts: str) -> set[int]:
        return {int(number) for text in texts for number in re.findall(r":(?:\$\{env:\w+:-)?(\d{4,5})\}?$", text)}

    collector, jaeger, tempo = (load(f"{name}.yaml") for name in ("collector", "jaeger", "tempo"))
    query = jaeger["extensions"]["jaeger_query"]
    otlp = [
        protocol["endpoint"].removesuffix("}")
        for config in (collector, jaeger)
        for protocol in config["receivers"]["otlp"]["protocols"].values()
    ]
    return {
        "collector": ports(*otlp[:2], collector["exporters"]["prometheus"]["endpoint"].removesuffix("}")),
        "jaeger": ports(*otlp[2:], query["http"]["endpoint"], query["grpc"]["endpoint"]),
        "tempo": ports(*(p["endpoint"] for p in tempo["distributor"]["receivers"]["otlp"]["protocols"].values()))
        | {tempo["server"]["http_listen_port"]},
        "prometheus": {9090},
        "grafana": {3000},
    }


def test_each_address_in_a_configuration_is_one_on_which_somebody_listens():
    """Exporters, scrapes, remote writes and data sources name a container of the compose file and its port."""
    open_ports = listening()
    named = {
        address
        for name in ("collector", "tempo", "prometheus", "grafana/datasources")
        for address in addresses(load(f"{name}.yaml"))
    }

    assert {host for host, _ in named} == {"collector", "jaeger", "tempo", "prometheus"}
    assert {(host, port) for host, port in named if port not in open_ports[host]} == set()


def test_the_compose_file_mounts_files_that_exist_and_publishes_to_this_machine_alone():
    """Each container gets its configuration where its command looks for it."""
    compose = load("compose.yaml")
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", service["image"]), name
        mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
        for source in mounted:
            assert source in compose["volumes"] or (CONFIG / source).is_file(), source
        for argument in service.get("command", ()):
            if "config" in argument and "=" in argument and "enable" not in argument:
                assert argument.partition("=")[2] in mounted.values()
        for published in service.get("ports", ()):
            host, outside, inside = published.split(":")
            assert (host, outside) == ("127.0.0.1", inside)
            assert int(inside) in listening()[name]
        assert set(service.get("depends_on", ())) <= set(compose["services"])


def test_the_readme_names_every_file():
    """And says of each that was not run that it was not."""
    text = (CONFIG / "README.md").read_text(encoding="utf-8")
    files = {path.relative_to(CONFIG).parts[0] for path in CONFIG.rglob("*") if path.is_file()} - {"README.md"}

    assert [name for name in files if f"`{name}" not in text] == []
    assert re.search(r"\*\*Not run\*\*: Tempo,\s+Grafana and `compose.yaml`", text)

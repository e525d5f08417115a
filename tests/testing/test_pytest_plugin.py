"""The plugin as a project meets it."""

import sys

import pytest

RUN = ("-p", "no:cacheprovider", "-W", "error")


@pytest.fixture
def alone(monkeypatch):
    """Run pytest in a process of its own, with this plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return lambda pytester, name="trihop": pytester.runpytest_subprocess(*RUN, "-p", name)


def test_the_fixtures_need_no_import(pytester: pytest.Pytester):
    """clock, server and spans are there once trihop is installed, and work together."""
    pytester.makepyfile(
        """
        import requests
        from opentelemetry import trace

        def test_all(clock, server, spans):
            server.script({"n": 1})
            with trace.get_tracer("test").start_as_current_span("root"):
                clock.sleep(40)
                reply = requests.get(server.url)
            assert (reply.json(), reply.headers["Date"]) == ({"n": 1}, "Sun, 01 Mar 2026 12:00:40 GMT")
            assert spans.tree() == "root [INTERNAL]"

        def test_each_test_has_its_own(clock, server, spans):
            assert (clock.sleeps, server.calls, spans.all) == ([], [], [])
        """
    )

    pytester.runpytest_inprocess(*RUN).assert_outcomes(passed=2)


def test_an_unexpected_request_is_an_error_of_the_test(pytester: pytest.Pytester):
    """A test that swallows the 599 does not pass in silence."""
    pytester.makepyfile(
        """
        import requests

        def test_careless(server):
            requests.get(server.url + "jobs")
        """
    )

    result = pytester.runpytest_inprocess(*RUN)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*unexpected request: GET /jobs*"])


def test_without_a_virtual_clock_the_server_is_in_real_time(pytester: pytest.Pytester):
    """A project's own `clock` fixture is left alone, by the test and by the server."""
    pytester.makepyfile(
        """
        import pytest, requests

        @pytest.fixture
        def clock():
            return "ours"

        def test_own(clock, server):
            server.script(200)
            assert clock == "ours"
            assert requests.get(server.url).headers["Date"] != "Sun, 01 Mar 2026 12:00:00 GMT"

        """
    )

    pytester.runpytest_inprocess(*RUN).assert_outcomes(passed=1)


def test_fixtures_of_a_project_go_first(pytester: pytest.Pytester):
    """A conftest.py with fixtures of these names is not disturbed."""
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def server():
            return "their server"

        @pytest.fixture
        def spans():
            return "their spans"
        """
    )
    pytester.makepyfile("def test_theirs(server, spans): assert (server, spans) == ('their server', 'their spans')")

    pytester.runpytest_inprocess(*RUN).assert_outcomes(passed=1)


def test_the_plugin_can_be_named_beside_its_entry_point(pytester: pytest.Pytester):
    """-p trihop, where it is loaded already, is no second plugin."""
    pytester.makepyfile("def test_clock(clock): assert clock.monotonic() == 0.0")

    pytester.runpytest_subprocess(*RUN, "-p", "trihop").assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["trihop", "trihop.testing.plugin"])
def test_the_plugin_can_be_named_where_none_is_loaded_by_itself(pytester: pytest.Pytester, alone, name):
    """Without autoloading both its name and its module bring the fixtures."""
    pytester.makepyfile("def test_clock(clock): assert clock.monotonic() == 0.0")

    alone(pytester, name).assert_outcomes(passed=1)


def test_the_plugin_can_be_taken_away(pytester: pytest.Pytester):
    """-p no:trihop leaves no fixture behind."""
    pytester.makepyfile("def test_clock(clock): pass")

    result = pytester.runpytest_subprocess(*RUN, "-p", "no:trihop")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'clock' not found*"])


def test_a_project_that_does_not_use_it_pays_little(pytester: pytest.Pytester, alone):
    """Loading the plugin imports neither the OpenTelemetry SDK nor the server nor anything of the kit."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            ours = [name for name in sys.modules if name.startswith("trihop.testing")]
            assert sorted(ours) == ["trihop.testing", "trihop.testing.plugin"]
            assert "opentelemetry.sdk" not in sys.modules
            assert "http.server" not in sys.modules
        """
    )

    alone(pytester).assert_outcomes(passed=1)


def test_without_the_sdk_spans_says_what_to_install(pytester: pytest.Pytester, alone):
    """A missing SDK is a failure with a remedy, not a traceback."""
    pytester.makepyfile(
        """
        import sys
        sys.modules["opentelemetry.sdk"] = None

        def test_spans(spans):
            pass
        """
    )

    result = alone(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `spans` needs the OpenTelemetry SDK*pip install opentelemetry-sdk*"])


def test_every_name_of_the_package_can_be_imported():
    """What __all__ lists is there, what it does not list is not."""
    import trihop.testing

    assert {name for name in trihop.testing.__all__ if getattr(trihop.testing, name) is None} == set()
    assert sorted(trihop.testing.__all__) == dir(trihop.testing)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = trihop.testing.nothing


def test_pytest_is_not_imported_by_the_package(pytester: pytest.Pytester):
    """Servers and clocks serve other test runners and demos too."""
    result = pytester.run(
        sys.executable,
        "-c",
        "import sys, trihop.testing as t; t.ScriptedServer().close(); t.VirtualClock(); print('pytest' in sys.modules)",
    )

    assert result.outlines == ["False"]

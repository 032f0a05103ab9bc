"""The plugin for pytest, in a pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_marked_tests_run_as_tasks_on_a_virtual_clock(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import tiffany
        from tiffany.calls import Ask, Now, Sleep, Spawn, Wait

        @pytest.fixture
        def hour():
            return 3600

        @pytest.mark.tiffany
        def test_generator(hour):
            yield Sleep(hour)
            assert (yield Now()) == 3600

        @pytest.mark.tiffany
        async def test_coroutine(hour):
            await tiffany.sleep(hour)
            assert await tiffany.now() == 3600

        @pytest.mark.tiffany(env={"answer": 42})
        @pytest.mark.parametrize("n", [1, 2])
        def test_settings_and_parameters(n):
            assert (yield Ask("answer")) == 42

        @pytest.mark.tiffany
        class TestClass:
            def test_method(self, hour):
                yield Sleep(hour)

        @pytest.mark.tiffany
        def test_fails():
            yield Sleep(1)
            assert (yield Now()) == 2
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*assert 1.0 == 2"])


def test_a_marked_test_that_is_no_program_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.tiffany
        def test_plain():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_plain is marked `tiffany`, but is neither a generator*"])


def test_unmarked_generators_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_old_style():
            yield 3
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.parseoutcomes().get("passed", 0) == 0


def test_the_fixture_makes_schedulers_and_closes_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tiffany.calls import Sleep
        from tiffany.errors import GoneError

        made = []

        def nap():
            yield Sleep(60)
            return "awake"

        def test_makes(tiffany_scheduler):
            scheduler = tiffany_scheduler(nap())
            scheduler.run_until_idle()
            assert scheduler.task(1).state == "Blocked(sleep)"
            assert tiffany_scheduler(nap()).finish() == "awake"
            made.append(scheduler)

        def test_closes():
            with pytest.raises(GoneError):
                made[0].step()
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)

"""The page about Airflow shows the example DAGs, and the connection type that Airflow lists."""

from __future__ import annotations

import json
import re
import textwrap

from tests.airflow.conftest import EXAMPLES, ROOT, Airflow

FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_snippet_is_part_of_an_example() -> None:
    snippets = FENCE.findall((ROOT / "docs" / "airflow.md").read_text(encoding="utf-8"))
    examples = [each.read_text(encoding="utf-8") for each in EXAMPLES.glob("*.py")]
    assert len(snippets) == 4
    assert [each for each in snippets if not any(each in text for text in examples)] == []


def test_every_module_imports_and_says_what_it_is_for(airflow: Airflow) -> None:
    script = """
        import importlib, pkgutil
        import sparklake.airflow

        for each in pkgutil.iter_modules(sparklake.airflow.__path__, "sparklake.airflow."):
            assert importlib.import_module(each.name).__doc__, each.name
        for name in sparklake.airflow.__all__:
            assert getattr(sparklake.airflow, name).__doc__, name
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log


def test_airflow_lists_the_connection_type_and_parses_every_example(airflow: Airflow) -> None:
    script = """
        import json
        from airflow.dag_processing.dagbag import DagBag
        from airflow.providers_manager import ProvidersManager

        bag, manager = DagBag(), ProvidersManager()
        field = manager.field_behaviours["sparklake"]
        print(json.dumps([bag.import_errors, sorted(bag.dags), manager.hooks["sparklake"].hook_name,
                          field["relabeling"]]))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    errors, dags, name, labels = json.loads(ran.log.splitlines()[-1])
    assert errors == {}
    assert dags == sorted(each.stem for each in EXAMPLES.glob("*.py"))
    assert (name, labels) == ("sparklake", {"password": "DSN"})


def test_an_airflow_user_can_test_the_connection(airflow: Airflow) -> None:
    script = """
        from sparklake.airflow import SparklakeHook

        print(SparklakeHook().test_connection())
        print(SparklakeHook().place)
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert "(True, 'the lake has " in ran.log

"""Names with different modules in Airflow 2.10 and 3."""

from __future__ import annotations

from importlib.metadata import version

IS_2 = version("apache-airflow").startswith("2.")

if IS_2:
    from airflow.exceptions import AirflowException, AirflowFailException
    from airflow.hooks.base import BaseHook
    from airflow.models.baseoperator import BaseOperator
    from airflow.operators.empty import EmptyOperator
    from airflow.sensors.base import BaseSensorOperator, PokeReturnValue
    from airflow.utils.log.secrets_masker import mask_secret
    from airflow.utils.task_group import TaskGroup
else:
    from airflow.providers.common.compat.sdk import (
        AirflowException,
        AirflowFailException,
        BaseHook,
        BaseOperator,
        BaseSensorOperator,
        PokeReturnValue,
        TaskGroup,
    )
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk.log import mask_secret

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "BaseHook",
    "BaseOperator",
    "BaseSensorOperator",
    "EmptyOperator",
    "PokeReturnValue",
    "TaskGroup",
    "mask_secret",
]

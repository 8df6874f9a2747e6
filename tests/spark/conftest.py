"""A real Spark: a master and two workers on this machine, started once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medlink

ROOT = Path(medlink.__file__).parents[1]
# a cheap compiler, as a JVM lives for seconds only; all logging is on
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={}"
LOG = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c: %m%n%ex
"""


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that this Spark writes: logs, events, work folders, scratch files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[Any]:
    """A session on two executors in processes of their own."""
    missing = "pyspark" if importlib.util.find_spec("pyspark") is None else "java" if not shutil.which("java") else ""
    if missing:
        assert not os.environ.get("MEDLINK_REQUIRE_SPARK"), f"{missing} is not installed"
        pytest.skip(f"{missing} is not installed")
    import pyspark
    from pyspark.sql import SparkSession

    # workers write into the home of Spark: use a folder of links to the installed one
    home = spark_folder / "home"
    home.mkdir()
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    driver, executor = spark_folder / "driver.properties", spark_folder / "executor.properties"
    driver.write_text(f"{LOG}appender.out.type = File\nappender.out.fileName = {spark_folder}/driver.log\n", "utf-8")
    executor.write_text(f"{LOG}appender.out.type = Console\nappender.out.target = SYSTEM_ERR\n", "utf-8")
    (spark_folder / "events").mkdir()
    settings = {
        "spark.driver.extraJavaOptions": JAVA.format(driver),
        "spark.driver.memory": "512m",
        "spark.eventLog.dir": (spark_folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.executor.extraJavaOptions": JAVA.format(executor),
        "spark.executor.memory": "512m",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.local.dir": str(spark_folder / "local"),
        "spark.network.timeout": "600s",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(spark_folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("tests")
        session = builder.config(map=settings).getOrCreate()
        yield session
        session.stop()

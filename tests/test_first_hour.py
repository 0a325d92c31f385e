"""Every task of the first hour is done by what its page shows, and by nothing else."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import first_hour

NEEDS = {
    "Export a model: ONNX and a web page": "onnxruntime",
    "Run a notebook": "nbclient",
    "Port a script of JAX": "jax",
}
"""Packages that not every machine has."""
TASKS = first_hour.tasks()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_a_task_is_done_by_what_the_page_shows(task: first_hour.Task, tmp_path: Path):
    package = NEEDS.get(task.title)
    if package and find_spec(package) is None:
        pytest.skip(f"pip install {package} to run this task")
    task.do(tmp_path)


def test_there_are_nine_tasks_and_each_file_and_block_is_used():
    assert len(TASKS) == 9
    assert {*NEEDS} < {task.title for task in TASKS}
    for task in TASKS:
        assert task.commands
        assert task.text.count("```") == 2 * (len(task.files) + task.text.count("```console"))

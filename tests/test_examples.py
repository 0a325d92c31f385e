"""The examples run as a person would start them, in a short form, and their figures say so."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np

import dlvm

ROOT = Path(__file__).parents[1]


def run(name: str, folder: Path, *options: object) -> str:
    """What an example prints; its pictures are drawings, and it has nothing to complain of."""
    command = [sys.executable, ROOT / "examples" / f"{name}.py", "--folder", folder, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder)
    assert not done.returncode and not done.stderr, done.stderr
    pictures = re.findall(r"\S+\.svg", done.stdout)
    assert pictures and all(xml.parse(p).getroot().tag.endswith("svg") for p in pictures)
    return done.stdout


def figure(pattern: str, text: str) -> float:
    """The number that a pattern names."""
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_a_convolutional_network_reads_digits_and_goes_on_where_it_stopped(tmp_path: Path):
    saved = tmp_path / "conv_digits-0.safetensors"
    run("conv_digits", tmp_path, "--splits", 1, "--epochs", 4, "--stop", 3)
    assert dlvm.load(saved)["step"] == 3 * 22
    shown = run("conv_digits", tmp_path, "--splits", 1, "--epochs", 4, "--resume")
    resumed = {name: x.copy() for name, x in dlvm.load(saved).items()}
    assert figure(r"mean test accuracy ([\d.]+)%", shown) > 85
    whole = run("conv_digits", tmp_path, "--splits", 1, "--epochs", 4)
    for name, x in dlvm.load(saved).items():
        np.testing.assert_array_equal(x, resumed[name])
    assert figure(r"split 0: ([\d.]+)%", whole) > 85


def test_a_gpt_learns_letters_and_writes_with_a_cache_what_it_reads_as_a_whole(tmp_path: Path):
    shown = run("gpt", tmp_path, "--steps", 50)
    alone = figure(r"([\d.]+) bits by the frequencies", shown)
    assert figure(r"([\d.]+) bits for a letter of the text kept back", shown) < alone - 0.9
    cost = figure(r"([\d.]+) bits for a letter as written", shown)
    assert abs(figure(r"as written, ([\d.]+)", shown) - cost) < 1e-3 and cost < alone - 0.9


def test_an_lstm_learns_which_two_numbers_to_add(tmp_path: Path):
    shown = run("lstm", tmp_path, "--steps", 700, "--length", 6)
    assert figure(r"([\d.]+)% of them are solved", shown) > 80


def test_the_bound_of_an_autoencoder_beats_places_by_themselves(tmp_path: Path):
    shown = run("vae", tmp_path, "--epochs", 15)
    alone = figure(r"places by themselves (-[\d.]+)", shown)
    assert figure(r"new images: (-[\d.]+)", shown) > alone
    assert figure(r"before training (-[\d.]+)", shown) < alone - 10


def test_diffusion_without_a_decorator_finds_a_spiral(tmp_path: Path):
    shown = run("ddpm", tmp_path, "--steps", 1000)
    assert figure(r"at the end ([\d.]+)", shown) < 0.6
    noise = figure(r"of noise from it ([\d.]+)", shown)
    assert figure(r"from the spiral ([\d.]+)", shown) < noise / 2


def test_a_pole_stays_up_for_longer_by_policy_optimisation_without_a_decorator(tmp_path: Path):
    shown = run("ppo", tmp_path, "--turns", 20)
    assert figure(r"stay up for ([\d.]+) steps at first", shown) < 40
    assert figure(r"([\d.]+) at the end", shown) > 100


def test_lbfgs_finds_minima_that_are_known(tmp_path: Path):
    shown = run("lbfgs", tmp_path, "--dimensions", 2, 40)
    assert figure(r"none is further than ([\d.e-]+)", shown) < 1e-7


def test_a_gaussian_process_finds_the_noise_that_was_drawn(tmp_path: Path):
    shown = run("gaussian_process", tmp_path)
    assert abs(figure(r"noise ([\d.]+)", shown) - 0.2) < 0.02
    assert figure(r"of the gradient ([\d.e-]+)", shown) < 1e-6
    assert figure(r"square error ([\d.]+)", shown) < 0.1


def test_a_kalman_filter_is_nearer_to_the_truth_than_measurements(tmp_path: Path):
    shown = run("kalman", tmp_path)
    assert abs(figure(r"noise ([\d.]+)", shown) - 0.5) < 0.05
    assert figure(r"of the filter ([\d.]+)", shown) < 0.25


def test_regressions_beat_least_squares(tmp_path: Path):
    shown = run("regression", tmp_path)
    for name in ("from the true ones", "generalised: spread of coefficients"):
        ours = rf"([\d.]+) {name}" if name.startswith("from") else rf"{name} ([\d.]+)"
        plain = figure(rf"{name}.*least squares ([\d.]+)", shown)
        assert figure(ours, shown) < 0.6 * plain

"""The training script on a small part of its data: what it gives is a function of data, recipe and seed alone."""

from __future__ import annotations

import gzip
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from polyref.paraphrase import load_paraphraser

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "train_paraphraser.py"
PAIRS = (1475, 4382, 79)
LOSSES = {4: 4.84967, 8: 4.76905, 12: 4.68011, 15: 4.62951}
OFTEN = ["--log", "4", "--save", "4"]
RECIPE = """
[vocabulary]
pieces = 310
[network]
width = 64
encoder_layers = 1
decoder_layers = 1
[training]
batch = 600
warmup = 4
average = 0.9
[leaks]
evaluation = ["made"]
[validation]
source = "made"
clusters = 5
[sources.made]
file = "made.jsonl.gz"
kind = "clusters"
origin = "made by rule"
licence = "none"
per_cluster = 4
rules = { most = 5, most_without_human = 2, most_template = 999, near_copies = 0.5 }
[sources.single]
file = "single.tsv.gz"
kind = "sentences"
origin = "made by rule"
licence = "none"
[[stages]]
name = "denoise"
tokens = 2000
mix = { single = 0.7, made = 0.3 }
[[stages]]
name = "pairs"
tokens = 4000
mix = { made = 1.0 }
truncate = 0.25
"""


@dataclass(frozen=True)
class Done:
    returncode: int
    stderr: str


def script(*arguments: str | Path) -> Done:
    """Run the script in this process: starting one takes longer than what most tests train."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        patch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as end:
            return Done(1, str(end.code))
        finally:
            torch.set_num_threads(threads)
    return Done(0, "")


def started(run: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, SCRIPT, "train", "--run", run, "--recipe", run / "recipe.toml", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def clusters(count: int) -> list[dict[str, Any]]:
    """Clusters made by rule: a few subjects, verbs and objects, worded in several ways."""
    people, things = ["The mayor", "A teacher", "Our neighbour", "The old doctor"], ["bridge", "garden", "letter"]
    rows = []
    for i in range(count):
        who, what, day = people[i % 4], things[i % 3], 1 + i % 28
        rows.append({
            "set": f"made{i % 2}", "lang": "en", "id": i // 2, "nref": int(i % 5 > 0),
            "texts": [f"{who} finally saw the new {what} number {i} in the town on March {day}.",
                      f"{who} at last saw the new {what} number {i} in town on March {day}.",
                      f"On March {day}, {who.lower()} finally saw the town's new {what} number {i}.",
                      f"{who} has finally seen the new {what} number {i} in town on March {day}."],
        })  # fmt: skip
    return rows


def write_data(folder: Path) -> None:
    with gzip.open(folder / "made.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in clusters(240))
    with gzip.open(folder / "single.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"made\tGuest {i} found chair {i}, near table {i} of room {i}.\n" for i in range(300))
    references = folder / "evaluation" / "made" / "references"
    references.mkdir(parents=True)
    (references / "de-en.refA.txt").write_text("Nothing of this is in the text.\n", "utf-8")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_data(folder)
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    run = folder / "run"
    done = prepare(folder, run)
    assert done.returncode == 0, done.stderr
    return run


def prepare(folder: Path, run: Path) -> Done:
    places = ["--data", folder, "--evaluation", folder / "evaluation", "--recipe", folder / "recipe.toml"]
    return script("prepare", *places, "--run", run)


@pytest.fixture
def copy(prepared: Path, tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        return Path(shutil.copytree(prepared, tmp_path / name))

    return make


def train(run: Path, *arguments: str | Path) -> Done:
    return script("train", "--run", run, "--recipe", run / "recipe.toml", *OFTEN, *arguments)


@pytest.fixture(scope="module")
def straight(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped; not to be changed."""
    run = Path(shutil.copytree(prepared, tmp_path_factory.mktemp("straight") / "run"))
    assert train(run).returncode == 0
    return run


def checkpoint(state: Path) -> dict[str, Any]:
    saved: dict[str, Any] = torch.load(state / "checkpoint.pt", weights_only=True)
    return saved


def log(state: Path) -> dict[int, dict[str, Any]]:
    rows = map(json.loads, (state / "log.jsonl").read_text("utf-8").splitlines())
    return {row["step"]: {**row, "seconds": 0} for row in rows}


def same_weights(one: dict[str, Any], other: dict[str, Any]) -> bool:
    names = ("master", "mean", "first", "second")
    return all(all(map(torch.equal, one["optimiser"][name], other["optimiser"][name])) for name in names)


def test_prepare_says_what_it_made(prepared: Path) -> None:
    facts = json.loads((prepared / "facts.json").read_text("utf-8"))
    made = facts["sources"]["made"]
    assert made["clusters"] == 230
    assert facts["held_out_clusters"] == 10
    assert 2 * made["clusters_with_pairs"] < made["pairs"] <= 5 * made["clusters_with_pairs"]
    assert made["left_out"]["near copy"] > 0
    assert sum(made["closeness"]) == made["pairs"]
    assert facts["sources"]["single"] == {"sentences": 300}
    assert facts["leaks"]["made.jsonl.gz"] == {"clean": 230}
    assert (prepared / "recipe.toml").read_text("utf-8") == RECIPE


def test_sources_can_be_added(prepared: Path, copy: Callable[[str], Path]) -> None:
    """What is there with the same rules is left as it is; changed rules make a source anew."""
    run = copy("run")
    folder = prepared.parent
    before = {path: path.stat().st_mtime_ns for path in (run / "sources").rglob("*.npz")}
    more = RECIPE.replace("[[stages]]", '[sources.best]\nfile = "made.jsonl.gz"\nkind = "clusters"\norigin = ""\n'
                          'licence = ""\nrules = { most = 1, least = -8.0 }\n[[stages]]', 1)  # fmt: skip
    (run / "recipe.toml").write_text(more.replace("most = 5", "most = 3"), "utf-8")
    places = ["--data", folder, "--evaluation", folder / "evaluation", "--recipe", run / "recipe.toml"]
    done = script("prepare", *places, "--run", run)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in (run / "sources").rglob("*.npz")}
    changed = {path.parent.name for path in after if after[path] != before.get(path)}
    assert changed == {"made", "best"}


@pytest.mark.parametrize(("action", "code"), [("fail", 1), ("drop", 0)])
def test_leaks(action: str, code: int, tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE.replace("[leaks]", f'[leaks]\naction = "{action}"'), "utf-8")
    outputs = tmp_path / "evaluation" / "made" / "system-outputs" / "fr-en"
    outputs.mkdir(parents=True)
    (outputs / "one.txt").write_text("guest 7 found CHAIR 7 near table 7 of room 7\n", "utf-8")
    run = tmp_path / "run"
    done = prepare(tmp_path, run)
    assert done.returncode == code
    found = json.loads((run / "leaks.json").read_text("utf-8"))["found"]["single.tsv.gz"]
    assert found["sentence"] == 1
    assert (run / "facts.json").exists() == (action == "drop")
    if action == "fail":
        assert "repeat evaluation text" in done.stderr
    else:
        facts = json.loads((run / "facts.json").read_text("utf-8"))
        assert facts["sources"]["single"]["sentences"] == found["clean"] < 300
        assert facts["leaks"]["single.tsv.gz"] == found


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights(straight: Path, copy: Callable[[str], Path]) -> None:
    killed = copy("killed")
    first = started(killed, *OFTEN)
    while not (killed / "checkpoint.pt").exists() and first.poll() is None:
        time.sleep(0.005)
    first.kill()
    first.wait()
    with (killed / "log.jsonl").open("a") as stream:
        stream.write('{"step": 99, "train": 0, "valid": 0}\n')  # of a step after the checkpoint: done again
    assert train(killed).returncode == 0
    one, other = checkpoint(straight), checkpoint(killed)
    assert same_weights(one, other)
    assert {**one["progress"], "seconds": 0} == {**other["progress"], "seconds": 0}
    rows = log(straight)
    assert rows.keys() == log(killed).keys()
    assert rows[max(rows)]["valid"] == log(killed)[max(rows)]["valid"]
    assert rows[max(rows)]["valid"] < rows[4]["valid"]
    assert rows[4]["stage"] == "denoise"
    assert rows[max(rows)]["stage"] == "pairs"
    assert rows[max(rows)]["tokens"] >= 6000
    assert set(one["progress"]["tokens_of"]) == {"made", "single"}


@pytest.mark.slow
def test_a_signal_ends_a_run_with_a_checkpoint(straight: Path, copy: Callable[[str], Path]) -> None:
    ended = copy("ended")
    first = started(ended, "--log", "1")
    while not (ended / "log.jsonl").exists() and first.poll() is None:
        time.sleep(0.005)
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    assert (ended / "checkpoint.pt").exists()
    assert train(ended).returncode == 0
    assert same_weights(checkpoint(straight), checkpoint(ended))


@pytest.mark.slow
def test_processes_share_every_step(copy: Callable[[str], Path]) -> None:
    """Losses and weights are those of one process, to rounding; a stopped run goes on, with any number of processes."""
    alone, shared = copy("alone"), copy("shared")
    recipe = RECIPE.replace("[training]", "[training]\ndropout = 0.0")
    for run in (alone, shared):
        (run / "recipe.toml").write_text(recipe, "utf-8")
    assert train(alone).returncode == 0
    first = started(shared, "--log", "1", "--processes", "2")
    while not (shared / "log.jsonl").exists() and first.poll() is None:
        time.sleep(0.005)
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    stopped = checkpoint(shared)["progress"]["step"]
    assert train(shared, "--processes", "3").returncode == 0
    one, other = checkpoint(alone), checkpoint(shared)
    assert 0 < stopped < one["progress"]["step"] == other["progress"]["step"]
    assert one["progress"]["tokens_of"] == other["progress"]["tokens_of"]
    for name, near in (("master", 0.01), ("mean", 0.01), ("first", 0.1), ("second", 0.1)):
        mine, theirs = (torch.cat([w.flatten() for w in saved["optimiser"][name]]) for saved in (one, other))
        assert float((mine - theirs).norm() / mine.norm()) < near, name
    last = max(log(alone))
    assert log(shared)[last]["valid"] == pytest.approx(log(alone)[last]["valid"], abs=2e-3)
    assert log(shared)[last]["train"] == pytest.approx(log(alone)[last]["train"], abs=2e-3)


@pytest.mark.slow
def test_the_network_may_compute_in_float32(straight: Path, copy: Callable[[str], Path], tmp_path: Path) -> None:
    """Losses are those of bfloat16, to its rounding, and those of what is exported; a run goes on in either."""
    single = copy("single")
    assert train(single, "--stop", "3000").returncode == 0
    assert train(single, "--precision", "float32").returncode == 0
    rows, half = log(single), log(straight)
    last = max(rows)
    assert last == max(half)
    assert rows[last]["valid"] != half[last]["valid"]
    assert rows[last]["valid"] == pytest.approx(half[last]["valid"], abs=0.05)
    out = tmp_path / "model"
    assert script("export", "--run", single, "--recipe", single / "recipe.toml", "--out", out).returncode == 0
    figures = json.loads((out / "figures.json").read_text("utf-8"))
    assert figures["validation"]["nats_a_token"] == pytest.approx(rows[last]["valid"], abs=1e-4)


@pytest.mark.slow
def test_processes_may_make_batches_ahead(straight: Path, copy: Callable[[str], Path]) -> None:
    """They are the same batches, also where a run goes on."""
    ahead = copy("ahead")
    assert train(ahead, "--stop", "2500", "--loaders", "1").returncode == 0
    assert train(ahead, "--loaders", "2").returncode == 0
    one, other = checkpoint(straight), checkpoint(ahead)
    assert same_weights(one, other)
    assert {**one["progress"], "seconds": 0} == {**other["progress"], "seconds": 0}


@pytest.mark.gpu
def test_a_gpu_trains_the_same(straight: Path, copy: Callable[[str], Path]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    run = copy("run")
    assert train(run, "--device", "cuda", "--loaders", "1").returncode == 0
    rows, half = log(run), log(straight)
    assert {**checkpoint(run)["progress"], "seconds": 0} == {**checkpoint(straight)["progress"], "seconds": 0}
    assert rows[max(rows)]["valid"] == pytest.approx(half[max(half)]["valid"], abs=0.05)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(copy: Callable[[str], Path]) -> None:
    run = copy("run")
    assert "finds no GPU" in train(run, "--device", "cuda").stderr
    assert not (run / "checkpoint.pt").exists()


@pytest.mark.slow
def test_a_teacher(tmp_path: Path) -> None:
    """From the text to the card: a student learns from the pairs that its teacher finds best."""
    write_data(tmp_path)
    student = RECIPE.replace(
        "[[stages]]",
        '[sources.true]\nkind = "taught"\norigin = "the better half"\nlicence = "none"\n'
        "teaching = { of = { made = 300 } }\n[[stages]]",
        1,
    ).replace("mix = { made = 1.0 }", "mix = { true = 1.0 }")
    (tmp_path / "recipe.toml").write_text(student, "utf-8")
    teacher_recipe = tmp_path / "recipe.teacher.toml"
    teacher_recipe.write_text('base = "recipe.toml"\n[network]\nwidth = 128\nencoder_layers = 1\ndecoder_layers = 1\n'
                              '[[stages]]\nname = "pairs"\ntokens = 2000\nmix = { made = 1.0 }\n', "utf-8")  # fmt: skip
    run = tmp_path / "run"
    assert prepare(tmp_path, run).returncode == 0
    teacher = Path(shutil.copytree(run, tmp_path / "teacher"))
    early = train(run)
    assert early.returncode == 1
    assert "sources/true, which stage pairs needs: `teach` makes it" in early.stderr
    assert script("train", "--run", teacher, "--recipe", teacher_recipe).returncode == 0
    recipe = run / "recipe.toml"
    done = script("teach", "--run", run, "--recipe", recipe, "--teacher", teacher)
    assert done.returncode == 0, done.stderr
    facts = json.loads((run / "sources" / "true" / "taught.json").read_text("utf-8"))
    assert facts["judged"] == 300 and 145 <= facts["pairs"] == sum(facts["closeness"]) <= 150
    assert facts["teacher"]["network"]["width"] == 128
    assert prepare(tmp_path, run).returncode == 0  # again: it leaves alone what is taught
    assert train(run).returncode == 0
    assert checkpoint(run)["progress"]["tokens_of"]["true"] > 3000
    done = script("export", "--run", run, "--recipe", recipe, "--out", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text("utf-8")
    assert f"| true |  | {facts['pairs']} pairs |" in card
    assert "minutes on a CPU" in card


@pytest.mark.slow
def test_what_has_not_begun_may_change(copy: Callable[[str], Path]) -> None:
    """The length of the running stage and later stages; what changed when is kept. Nothing else may change."""
    run = copy("run")
    assert train(run, "--stop", "1000").returncode == 0
    recipe = run / "recipe.toml"
    recipe.write_text(RECIPE.replace("tokens = 4000", "tokens = 1000\ndecay = true"), "utf-8")
    assert train(run).returncode == 0
    saved = checkpoint(run)
    (change,) = saved["settings"]["changes"]
    assert change["changed"] == ["stages"]
    assert 1000 <= change["tokens"] < 2000
    assert 3000 <= saved["progress"]["tokens"] < 4000
    for before, after in (("batch = 600", "batch = 500"), ("single = 0.7", "single = 0.5"), ("most = 5", "most = 4")):
        recipe.write_text(RECIPE.replace(before, after), "utf-8")
        refused = train(run)
        assert refused.returncode == 1
        assert "use another --run" in refused.stderr


@pytest.mark.slow
def test_the_optimiser_may_change(copy: Callable[[str], Path]) -> None:
    """The momenta go on, and what it was before is kept."""
    run = copy("run")
    recipe = run / "recipe.toml"
    recipe.write_text(RECIPE.replace("[training]", '[training]\noptimiser = "adam"'), "utf-8")
    assert train(run, "--stop", "1000").returncode == 0
    begun = checkpoint(run)["progress"]["step"]
    recipe.write_text(RECIPE.replace("[training]", "[training]\nrate = 2e-3"), "utf-8")
    assert train(run).returncode == 0
    (change,) = checkpoint(run)["settings"]["changes"]
    assert (change["step"], change["changed"]) == (begun, ["training"])
    assert (change["before"]["optimiser"], change["before"]["rate"]) == ("adam", 1e-3)
    assert checkpoint(run)["settings"]["recipe"]["training"]["optimiser"] == "muon"


@pytest.mark.slow
def test_a_cooldown_is_a_branch(copy: Callable[[str], Path]) -> None:
    """It leaves the run alone, is gone on with when stopped, and its learning rate falls to zero."""
    run = copy("run")
    assert train(run, "--stop", "1500").returncode == 0
    before = checkpoint(run)
    cooled, again = run / "cooled", run / "again"
    arguments = ("--cooldown", "3000", "--stage", "pairs", "--to")
    assert train(run, *arguments, cooled).returncode == 0
    assert same_weights(before, checkpoint(run))
    end = checkpoint(cooled)
    start = before["progress"]["tokens"]
    assert end["settings"]["cooldown"] == {"start": start, "tokens": 3000, "stage": 1}
    assert end["progress"]["tokens"] >= start + 3000
    rows = log(cooled)
    assert rows[max(rows)]["valid"] < rows[min(rows)]["valid"]
    assert rows[max(rows)]["stage"] == "pairs"
    shutil.copytree(cooled, again)  # finished: nothing more happens
    assert train(run, *arguments, again).returncode == 0
    assert same_weights(end, checkpoint(again))
    for wrong, message in (
        (("--cooldown", "10", "--to", cooled), "use another --to"),
        (("--cooldown", "10", "--stage", "none", "--to", run / "other"), "the recipe has denoise, pairs"),
    ):
        refused = train(run, *wrong)
        assert refused.returncode == 1
        assert message in refused.stderr
    shutil.copy(cooled / "checkpoint.pt", run)
    assert "is a cooldown" in train(run).stderr


@pytest.mark.slow
def test_export(straight: Path, tmp_path: Path) -> None:
    run = shutil.copytree(straight, tmp_path / "run")
    out = tmp_path / "model"
    (tmp_path / "sentences.txt").write_text("".join(f"On day {i} it rained.\n" for i in range(10, 22)), "utf-8")
    for judged, said in ((("3.7", "6", "0"), "`closeness` is 3.7, expected a whole number"),
                         (("3", "0", "0"), "`beam` is 0, expected 1 or more")):  # fmt: skip
        refused = script("export", "--run", run, "--recipe", run / "recipe.toml", "--out", out, "--judged", *judged)
        assert refused.returncode == 1 and f"--judged: {said}" in refused.stderr and not out.exists()
    # Nothing that this model writes is equivalent to 99 nats: a list may be empty.
    done = script("export", "--run", run, "--recipe", run / "recipe.toml", "--out", out, "--name", "tiny",
                  "--judged", "3", "6", "99", "--sentences", tmp_path / "sentences.txt")  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads((out / "figures.json").read_text("utf-8"))
    saved = checkpoint(run)
    assert figures["training"]["tokens"] == saved["progress"]["tokens"]
    # The log's validation is in bfloat16, the export's in float32.
    rows = log(run)
    assert figures["validation"]["nats_a_word"] == pytest.approx(rows[max(rows)]["valid_per_word"], abs=0.05)
    assert figures["validation"]["nats_a_word_int8"] == pytest.approx(figures["validation"]["nats_a_word"], abs=0.05)
    card = (out / "MODEL_CARD.md").read_text("utf-8")
    for said in (
        "from random weights",
        "made by rule",
        "made.jsonl.gz",
        figures["sha256"],
        "| denoise |",
        "the 25% least likely pairs of a batch do not count",
        "All that it offers and the default filter keeps",
    ):
        assert said in card
    loaded = load_paraphraser(out)
    assert loaded.name == "tiny" and loaded.signature.endswith("|equivalence>=99")
    assert "beam=6" in figures["generation"]["decoding"] and "closeness=3" in figures["generation"]["decoding"]
    assert figures["generation"]["candidates_a_segment"] == 0
    drawn = re.findall(r"^- (On day \d+ it rained\.)\n  → \(none\)", card, re.M)
    assert len(drawn) == len(set(drawn)) == 10


@pytest.mark.slow
def test_without_pointer(copy: Callable[[str], Path], tmp_path: Path) -> None:
    """The run is neither gone on with in the other way nor exported."""
    run = copy("run")
    recipe = run / "recipe.toml"
    recipe.write_text(RECIPE.replace("width = 64", "width = 64\npointer = false"), "utf-8")
    assert train(run, "--stop", "1000").returncode == 0
    refused = script("export", "--run", run, "--recipe", recipe, "--out", tmp_path / "model")
    assert refused.returncode == 1
    assert "without a pointer" in refused.stderr
    assert not (tmp_path / "model").exists()
    recipe.write_text(RECIPE, "utf-8")
    assert "use another --run" in train(run).stderr


@pytest.mark.data
def test_the_real_data_gives_the_recorded_losses(data_dir: Path, tmp_path: Path) -> None:
    """Losses of a short run on the first clusters, recorded with torch 2.13 on an AVX-512 processor (bfloat16)."""
    source = data_dir / "paraphrase-train" / "wmt.en.jsonl.gz"
    if not source.exists():
        pytest.skip(f"no {source}")
    with gzip.open(source, "rt", encoding="utf-8") as whole, gzip.open(tmp_path / "made.jsonl.gz", "wt") as part:
        part.writelines(islice(whole, 1500))
    with gzip.open(tmp_path / "single.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"made\tOn day {i} it rained.\n" for i in range(100))
    text = RECIPE.replace('["made"]', '["bio21.mqm", "wmt21.tedtalks"]\naction = "drop"').replace("310", "2000")
    text = text.replace("clusters = 5", "clusters = 25").replace("most_template = 999", "openings = false")
    text = text.replace("truncate = 0.25\n", "")
    (tmp_path / "recipe.toml").write_text(text.replace("tokens = 4000", "tokens = 6000"), "utf-8")
    run = tmp_path / "run"
    done = script("prepare", "--data", tmp_path, "--evaluation", data_dir, "--recipe", tmp_path / "recipe.toml",
                  "--run", run)  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads((run / "facts.json").read_text("utf-8"))
    made = facts["sources"]["made"]
    assert (made["clusters"], made["pairs"], facts["held_out_pairs"]) == PAIRS
    done = train(run)
    assert done.returncode == 0, done.stderr
    assert {step: row["valid"] for step, row in log(run).items()} == pytest.approx(LOSSES, abs=1e-3)

"""Train the shipped paraphraser and write it, with its model card, into the package.

    cd scripts
    python train_paraphraser.py prepare --data DIR --evaluation DIR --run RUN
    cp -r RUN TEACHER
    python train_paraphraser.py train   --device cuda --save 1000 --run TEACHER --recipe training/recipe.teacher.toml
    python train_paraphraser.py teach   --device cuda --run RUN --teacher TEACHER
    python train_paraphraser.py train   --device cuda --save 1000 --run RUN
    python train_paraphraser.py export  --run RUN --out MODEL

What is trained, on what and for how long is in ``training/recipe.toml``. ``prepare`` checks the text for leaks of
evaluation sets, makes vocabulary and pairs. ``teach`` makes the recipe's taught sources with a larger network that was
trained before: the best of the pairs, and the best of what it writes itself. ``train`` goes through the recipe's stages
from random weights and writes a checkpoint every ``--save`` steps; started again, it goes on from the last one and ends
with the same weights as an uninterrupted run (on a CPU, with the same versions, precision and numbers of processes and
threads). Where the learning rate stays level after its warm-up, stages can follow later; ``train --cooldown N --to
RUN/cooled`` takes a copy of the checkpoint and lets the rate fall to zero over N target tokens, which gives a model to
export at any time (``export --from RUN/cooled``). ``export`` writes the averaged weights. Keep RUN outside version
control.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SENTENCES = Path(__file__).parent / "paraphraser_sentences.txt"
RECIPE = Path(__file__).parent / "training" / "recipe.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("--data", type=Path, required=True, help="folder with the recipe's files")
    one.add_argument("--evaluation", type=Path, required=True, help="folder with the evaluation sets")
    two = commands.add_parser("train")
    two.add_argument("--processes", type=int, default=1, help="that share every step, for instance one a core")
    two.add_argument("--threads", type=int, default=1, help="of each process")
    two.add_argument(
        "--precision",
        choices=("bfloat16", "float32"),
        default="bfloat16",
        help="of the network: float32 is faster on a processor without bfloat16 units",
    )
    two.add_argument("--log", type=int, default=250, help="steps between lines of the log")
    two.add_argument("--save", type=int, default=125, help="steps between checkpoints")
    two.add_argument("--stop", type=int, metavar="TOKENS", help="stop early, after so many target tokens")
    two.add_argument("--cooldown", type=int, metavar="TOKENS", help="from here, let the learning rate fall to zero")
    two.add_argument("--stage", help="stage whose text is used in the cooldown (default: the one the run is in)")
    two.add_argument("--to", type=Path, help="folder of the cooldown's checkpoint and log")
    two.add_argument(
        "--loaders", type=int, help="processes that make batches ahead (default: up to 12 for a GPU, else 0)"
    )
    four = commands.add_parser("teach")
    four.add_argument("--teacher", type=Path, required=True, help="folder of the teacher's checkpoint")
    four.add_argument("--processes", type=int, default=1, help="that judge samples by the rules")
    for command in (two, four):
        command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the network computes")
    three = commands.add_parser("export")
    three.add_argument("--from", type=Path, dest="state", help="folder of the checkpoint (default: RUN)")
    three.add_argument("--out", type=Path, required=True, help="model folder to write")
    three.add_argument("--name", default="polyref-en")
    three.add_argument("--closeness", type=int, default=1, help="default of the model")
    three.add_argument("--shortlist", type=int, help="the search draws from so many first pieces, copies all others")
    three.add_argument("--strength", type=float, default=0.5, help="default diversity strength of the model")
    three.add_argument("--min-score", type=float, help="candidates below this are not offered")
    three.add_argument(
        "--judged",
        type=float,
        nargs=3,
        metavar=("CLOSENESS", "BEAM", "EQUIVALENCE"),
        help="its search, and how far a text and a candidate must follow from each other: 3 8 0",
    )
    three.add_argument("--sentences", type=Path, default=SENTENCES, help="of which ten are drawn for the card")
    three.add_argument("--gains", type=Path, help="Markdown for the card: what the model's references are worth")
    for command in (one, two, three, four):
        command.add_argument("--run", type=Path, required=True, help="working folder, kept out of git")
        command.add_argument("--recipe", type=Path, default=RECIPE)
    options = parser.parse_args()
    from training.recipe import read_recipe

    recipe = read_recipe(options.recipe)
    if options.command == "prepare":
        from training.prepare import prepare

        prepare(recipe, options.recipe, options.data, options.evaluation, options.run)
    elif options.command == "train":
        if (options.cooldown is None) != (options.to is None):
            parser.error("--cooldown and --to go together")
        if options.device == "cuda" and options.processes > 1:
            parser.error("--processes is for a CPU: one process trains on a GPU")
        from training.loop import train

        train(recipe, options)
    elif options.command == "teach":
        from training.teach import teach

        teach(recipe, options)
    else:
        from training.export import export

        export(recipe, options)


if __name__ == "__main__":
    main()

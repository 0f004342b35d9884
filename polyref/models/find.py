"""From a name to a model: those of the package, folders, and names of the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from polyref.errors import ModelError

SHIPPED = Path(__file__).parent / "shipped"
#: Some checkpoints have no limit of their own.
LONGEST_SOURCE = 1024


def shipped_languages() -> list[str]:
    """Languages with a model in the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "model.safetensors").is_file())


def find_model(name: str) -> tuple[Path, bool]:
    """The folder a name stands for, and whether it holds a model of the shipped kind; hub names stay as they are."""
    from polyref.models.checkpoints.pointer import is_pointer_folder

    folder = shipped_folder(name)
    if folder is not None:
        return folder, True
    if is_pointer_folder(Path(name)):
        return Path(name), True
    if not Path(name).is_dir() and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(
            "no such model folder", file=name, remedy="give a folder, `shipped`, or a hub name owner/model"
        )
    return Path(name), False


def shipped_folder(name: str) -> Path | None:
    """The folder of a model of the package, from `shipped` or `shipped/LANGUAGE`; None for any other name."""
    match = re.fullmatch(r"shipped(?:/(\w+))?", name)
    if not match:
        return None
    language = match[1] or "en"
    if language not in shipped_languages():
        known = ", ".join(f"shipped/{code}" for code in shipped_languages())
        raise ModelError(f"no model {name!r} in the package, expected one of {known}")
    return SHIPPED / language

"""Take README's picture of a report: ``python scripts/docs/screenshot.py REPORT`` (needs Chromium).

REPORT is the folder that the ``polyref evaluate`` of README writes with ``-o``. The picture shows the head of its page,
which holds numbers alone and no text of the evaluation set: the conclusion, the plot and the table.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: CSS pixels, and how many of the picture each of them takes.
WIDTH, SCALE = 1120, 1.5
#: What comes after the table is left out.
STYLE = "<style>section:not(#gains), #gains > :not(h2, .wide), nav, footer { display: none }</style>"


def main(report: Path) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"no browser: none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory() as folder:
        shown, taken = Path(folder) / "index.html", Path(folder) / "taken.png"
        shown.write_text((report / "index.html").read_text("utf-8").replace("</head>", f"{STYLE}</head>"), "utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", f"--user-data-dir={folder}/profile", f"--force-device-scale-factor={SCALE}",
                   "--blink-settings=preferredColorScheme=1", f"--window-size={WIDTH},1500", f"--screenshot={taken}",
                   shown.as_uri()]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        picture = Image.open(taken).convert("RGB")
    drawn = ImageChops.difference(picture, Image.new("RGB", picture.size, "white")).getbbox()
    left, top, right, bottom = drawn or (0, 0, *picture.size)
    edge = round(12 * SCALE)
    picture = picture.crop((left - edge, top - edge, right + edge, bottom + edge))
    picture.quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The styles of a page of figures: light and dark, narrow and wide, on screen and on paper."""

from keras_selfattn.drawing.colours import level_styles
from keras_selfattn.drawing.notebook import token_rules

# Okabe and Ito's colours, which the colour-blind tell apart; lighter ones on a dark ground.
_LIGHT = ("#0072b2", "#d55e00", "#007a5a", "#a5477f", "#8a6d00", "#3d3d3d", "#3a8fc4", "#8c3b00")
_DARK = ("#56b4e9", "#e69f00", "#2fc39a", "#e39ac3", "#f0e442", "#c8c8c8", "#8fd0f5", "#ffb380")
_GROUND = "--ground:#ffffff;--card:#f6f7f9;--ink:#1b1f24;--faint:#57606a;--line:#d5dae0;--token:0,114,178"
_DARK_GROUND = (
    "--ground:#14181d;--card:#1c2229;--ink:#e6e9ed;--faint:#a3adb8;--line:#3a434d;--token:86,180,233"
)


def _palette(colours: tuple[str, ...]) -> str:
    return ";".join(f"--c{place}:{colour}" for place, colour in enumerate(colours))


_SERIES = "".join(
    f".line.c{n}{{stroke:var(--c{n})}}.bar.c{n},.dot.c{n}{{fill:var(--c{n})}}" for n in range(len(_LIGHT))
)
STYLE = (
    f":root{{color-scheme:light dark;{_GROUND};{_palette(_LIGHT)}}}{level_styles(dark=False)}"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK_GROUND};{_palette(_DARK)}}}"
    f"{level_styles(dark=True)}}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:1180px;padding:16px;background:var(--ground);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}"
    "h1{font-size:1.6rem;line-height:1.25;margin:.4em 0 .2em;overflow-wrap:anywhere}"
    "h2{font-size:1.2rem;margin:2em 0 .5em;border-bottom:1px solid var(--line);padding-bottom:.2em}"
    "p{margin:.5em 0;max-width:75ch;overflow-wrap:anywhere}.faint{color:var(--faint)}"
    "a{color:var(--c0)}nav{display:flex;flex-wrap:wrap;gap:.2em 1em;margin:.8em 0}"
    ".tiles{display:flex;flex-wrap:wrap;gap:10px;margin:1em 0;padding:0;list-style:none}"
    ".tiles li{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:8px 14px}"
    ".tiles b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,345px),1fr));"
    "gap:14px;margin:12px 0}"
    "figure{margin:0;padding:10px;min-width:0;background:var(--card);border:1px solid var(--line);"
    "border-radius:6px}"
    "figure.wide{grid-column:1/-1}figure>svg{max-width:480px}figure.wide>svg{max-width:760px;margin:auto}"
    "figcaption,caption{font-weight:600;text-align:start;margin-bottom:4px;overflow-wrap:anywhere}"
    "figure svg{display:block;width:100%;height:auto}.key svg,.legend svg{display:inline;width:auto}"
    "svg{unicode-bidi:isolate}h2,li,a,summary{overflow-wrap:anywhere}"
    "svg text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;"
    "unicode-bidi:plaintext}"
    "svg text:not(.count){fill:var(--faint)}svg text.name{fill:var(--ink)}"
    ".grid{stroke:var(--line);stroke-width:.7}.axis{stroke:var(--faint)}"
    ".mark{stroke:var(--faint);stroke-dasharray:3 3}.diagonal{stroke:var(--faint);stroke-dasharray:1 3}"
    ".line{fill:none;stroke-width:1.8;stroke-linejoin:round}.bar{fill-opacity:.75}"
    ".matrix{fill:none;stroke:var(--line)}"
    f"{_SERIES}"
    ".legend{list-style:none;margin:6px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:2px 14px;"
    "font-size:.85rem}"
    ".legend svg{margin-inline-end:5px}.key{font-size:.85rem;margin:6px 0 0}"
    ".scroll{overflow-x:auto;margin:10px 0}"
    "table{border-collapse:collapse;font-size:.92rem}"
    "th,td{padding:4px 10px;border-bottom:1px solid var(--line);"
    "text-align:start;vertical-align:top;overflow-wrap:break-word}th{font-weight:600;white-space:nowrap}"
    "thead th{border-bottom:2px solid var(--line)}.number{text-align:end;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}td.text{min-width:13em;max-width:46em}td.name{min-width:4em;max-width:22em}td.short{white-space:nowrap}"
    "details{margin:10px 0}summary{cursor:pointer;font-weight:600}"
    "summary:focus-visible,a:focus-visible{outline:2px solid var(--c0);outline-offset:2px}"
    "img{image-rendering:pixelated;max-width:100%}td svg{width:240px;height:52px;max-width:60vw}"
    "mark{background:rgba(var(--token),.18);color:inherit;border-radius:3px;padding:0 2px}"
    ".wrong{outline:2px solid var(--c1);border-radius:3px;padding:0 2px}"
    f"{token_rules()}"
    f"@media print{{:root{{{_GROUND};{_palette(_LIGHT)}}}{level_styles(dark=False)}"
    "body{max-width:none;font-size:11pt}nav{display:none}figure,tr{break-inside:avoid}h2{break-after:avoid}"
    "details::details-content{content-visibility:visible;block-size:auto}.scroll{overflow:visible}}"
)
"""The style sheet of a page."""

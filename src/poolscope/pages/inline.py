"""SVG files made fit to stand inside one HTML page."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from markupsafe import Markup

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)


def inline(svg: str, *, prefix: str, label: str) -> Markup:
    """An SVG document as an element of a page.

    Its ids get a prefix, as several pictures share one page; its style sheet, which would apply
    to all of the page, is left to the page's own; its size follows the page up to its width in
    ``--width``. Text in it stays escaped: the result is safe markup.

    Parameters
    ----------
    svg : str
        A document from ``style.to_svg``.
    prefix : str
        Unique on the page.
    label : str
        What the picture shows, for those who do not see it.
    """
    root = ET.fromstring(svg)
    width = float(root.get("viewBox", "0 0 1 1").split()[2])
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
        for name, value in parent.attrib.items():
            parent.set(name, _prefixed(name, value, prefix))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("style", f"--width: {width:.0f}")
    return Markup(ET.tostring(root, encoding="unicode"))


def both(wide: str, narrow: str, *, number: int | str = "", label: str) -> dict[str, Markup]:
    """A picture's two forms, of which a page shows the one that fits; `number` tells it from the page's others."""
    forms = {"wide": wide, "narrow": narrow}
    return {form: inline(svg, prefix=f"{form}{number}", label=label) for form, svg in forms.items()}


def _prefixed(name: str, value: str, prefix: str) -> str:
    """An attribute's value with every id in it renamed."""
    if name == "id":
        return f"{prefix}-{value}"
    if name in ("href", f"{{{XLINK}}}href") and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    return value.replace("url(#", f"url(#{prefix}-")

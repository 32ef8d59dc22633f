"""A page as its elements, read by the standard library."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "col", "img", "link", "meta"}


@dataclass
class Element:
    name: str
    attributes: dict
    children: list = field(default_factory=list)

    @property
    def text(self):
        """All text inside, without that of tooltips."""
        parts = (each if isinstance(each, str) else each.text for each in self.children)
        return "" if self.name == "title" else "".join(parts)

    @property
    def tooltip(self):
        """The text of a `<title>` right inside."""
        return "".join("".join(each.children) for each in self.all("title")[:1])

    def all(self, name, **attributes):
        """All elements of a name below, with these attributes."""
        found = []
        for each in self.children:
            if isinstance(each, Element):
                fits = all(each.attributes.get(key.rstrip("_")) == value for key, value in attributes.items())
                found += ([each] if each.name == name and fits else []) + each.all(name, **attributes)
        return found

    def rows(self):
        """The cells of a table's body, as texts."""
        (body,) = self.all("tbody")
        return [[cell.text for cell in row.all("td")] for row in body.all("tr")]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attrs):
        made = Element(tag, dict(attrs))
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag):
        assert self.open[-1].name == tag, f"</{tag}> ends <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read_page(text):
    """The document; an end tag that is of no open element fails."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].name}> does not end"
    return reader.open[0]


def section(page, heading):
    """The section under a heading."""
    (found,) = [each for each in page.all("section") if each.all("h2")[0].text == heading]
    return found


def table(part, title):
    """The table of a caption or, of a folded one, of a summary."""
    for each in part.all("div", class_="scroll"):
        caption = each.all("caption")
        if caption and caption[0].text == title:
            return each.all("table")[0]
    for each in part.all("details"):
        if each.all("summary")[0].text == title:
            return each.all("table")[0]
    raise AssertionError(f"no table {title!r}")


def figure(part, title):
    """The figure of a caption."""
    (found,) = [each for each in part.all("figure") if each.all("figcaption")[0].text == title]
    return found

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What the pages of the documentation say of each other and of the sources: links lead somewhere, pages follow each other,
and the numbers, names and sentences that they quote are those of the code. Prints TAP.

    pages_test.py SOURCE_DIRECTORY C_COMPILER...
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import front_chart  # pylint: disable=wrong-import-position
import c_scan  # pylint: disable=wrong-import-position
import error_sentences  # pylint: disable=wrong-import-position
from tap import by_name, run_tests  # pylint: disable=wrong-import-position

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMENT = re.compile(r"<!-- (struct|values) (\S+)(?: (\S+) (\d+))? -->")


def without_code(text):
    """A page without its blocks and words of code, in which nothing is a link or a heading."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def anchors_of(text):
    """The anchors that a page's headings have where such pages are shown."""
    anchors = []
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
        shown = LINK.sub(lambda link: link[0][1:link[0].index("]")], heading).replace("`", "").strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        anchors.append(anchor if anchor not in anchors else f"{anchor}-{anchors.count(anchor)}")
    return anchors


def tables_of(text):
    """Each table behind a comment that names what it is of: kind, name, file, size, rows of cells."""
    for found in COMMENT.finditer(text):
        rows = []
        for line in text[found.end():].lstrip("\n").splitlines()[2:]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        kind, name, file, size = found.groups()
        assert rows, f"{found[0]}: no table follows"
        yield (kind, None, name, 0, rows) if kind == "values" else (kind, name, file, int(size), rows)


def struct_lines(name, size, rows):
    """Assertions in C of a structure's table, in which each field begins where the one before it ended."""
    end, lines = 0, [f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");']
    for at, length, field, *_ in rows:
        assert int(at) == end, f"{name}: {field} is said to be at {at}, and the one before it ends at {end}"
        end += int(length)
        member = field.strip("`")
        if member != "–":
            it = f"((struct {name} *)0)->{member}"
            lines.append(f'_Static_assert(offsetof(struct {name}, {member}) == {at}, "{name}.{member}: where");')
            lines.append(f'_Static_assert(sizeof({it}) == {length}, "{name}.{member}: bytes");')
    assert end == size, f"{name}: the table ends at {end}, and has {size} bytes"
    return lines


class Pages:
    """The pages of a source tree."""

    def __init__(self, root, compiler):
        self.root, self.compiler = root, compiler
        self.files = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
        self.texts = {file: file.read_text() for file in self.files}

    def page(self, name):
        """The text of a page in docs/."""
        return self.texts[self.root / "docs" / name]

    def sources(self, *folders):
        """All that is written in C there."""
        files = (file for folder in folders for file in sorted((self.root / folder).rglob("*.[ch]")))
        return "\n".join(file.read_text() for file in files)

    def links_lead_somewhere(self):
        """Every link to a file of ours finds it, and the heading in it."""
        count, problems = 0, []
        for file, text in self.texts.items():
            for target in LINK.findall(without_code(text)):
                if re.match(r"[a-z]+:", target):
                    continue
                count += 1
                path, _, anchor = target.partition("#")
                there = (file.parent / path).resolve() if path else file
                if not there.exists():
                    problems.append(f"{file.relative_to(self.root)}: there is no {target}")
                elif anchor and anchor not in anchors_of(there.read_text()):
                    problems.append(f"{file.relative_to(self.root)}: no heading is called {target}")
        assert not problems, "\n".join(problems)
        return f"{count} links"

    def tables_are_whole(self):
        """Every row of a table has as many cells as its head."""
        count, problems = 0, []
        for file, text in self.texts.items():
            for table in re.findall(r"(?:^\|.*\n)+", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
                head, *rows = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
                count += 1
                if any(row != head for row in rows):
                    problems.append(f"{file.relative_to(self.root)}: {table.splitlines()[0]}")
        assert not problems and count > 50, "\n".join(problems)
        return f"{count} tables"

    def front_chart_is_measured(self):
        """The README's chart is drawn from the table in docs/."""
        drawn = (self.root / "docs/front.svg").read_text()
        assert drawn == front_chart.draw(self.root), "run scripts/front_chart.py . docs/front.svg"

    def pages_follow_each_other(self):
        """docs/README.md has all pages in their order, for three readers, and each ends with a link to the next."""
        text = self.page("README.md")
        assert re.findall(r"^## (.*)$", text, re.M) == ["Using it", "Reference", "Inside"], "three kinds of pages"
        numbered = re.findall(r"^(\d+)\. \[[^\]]+\]\(([^)#]+)\)", text, re.M)
        listed = [name for _, name in numbered]
        assert [int(number) for number, _ in numbered] == list(range(1, len(listed) + 1)), numbered
        assert sorted(listed) == sorted({f.name for f in self.files if f.parent.name == "docs"} - {"README.md"}), listed
        for name, following in zip(listed, listed[1:]):
            last = self.page(name).rstrip().splitlines()[-1]
            assert last.startswith("Next: ") and f"]({following})" in last, f"{name} ends with {last!r}"
        return f"{len(listed)} pages"

    def folded_answers_are_counted(self):
        """docs/differences.md says how many rows each fold has and all have, and has none outside of a fold."""
        text = self.page("differences.md")
        row = re.compile(r"^\| `\w+\.", re.M)
        folds = re.findall(r"^<details><summary>(\d+) answers</summary>\n\n(.*?)\n\n</details>$", text, re.S | re.M)
        for said, fold in folds:
            there = len(row.findall(fold))
            assert int(said) == there, f"{said} are said, {there} are there: {fold[:200]}"
        total = sum(int(said) for said, _ in folds)
        assert total == len(row.findall(text)) > 400, f"{total} in folds, {len(row.findall(text))} in all"
        assert f"\n{total} rows," in text, f"the page does not say that there are {total} rows"
        return f"{total} rows"

    def protocol_has_the_numbers(self):
        """The tables of docs/protocol.md are what the compiler says of the structures and values in src/."""
        lines, count = {}, 0
        for kind, name, file, size, rows in tables_of(self.page("protocol.md")):
            here = lines.setdefault(file, [])
            count += len(rows)
            if kind == "struct":
                here += struct_lines(name, size, rows)
            else:
                here += [f'_Static_assert(({word}) == {value}, "{word}");'
                         for value, word in ((row[0], row[1].strip("`")) for row in rows)]
        assert count > 100, count
        with tempfile.TemporaryDirectory(prefix="cenote-pages-") as folder:
            for file, assertions in lines.items():
                source = Path(folder) / "look.c"
                source.write_text("\n".join([f'#include "{file}"', "#include <stddef.h>", *assertions, ""]))
                done = subprocess.run([*self.compiler, "-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-w",
                                       f"-I{self.root / 'src'}", f"-I{self.root / 'include'}",
                                       f"-I{self.root / 'include/cenote'}", str(source)],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
                assert not done.returncode, f"{file}:\n{done.stderr}"
        return f"{count} rows"

    def protocol_has_all_messages(self):
        """No kind of message is left out."""
        kinds = set(re.findall(r"\bCN_MESSAGE_\w+", (self.root / "src/share/wire/wire.h").read_text()))
        named = set(re.findall(r"`(CN_MESSAGE_\w+)`", self.page("protocol.md")))
        assert kinds == named and kinds, kinds ^ named

    def life_of_a_call_is_as_told(self):
        """Each function in a table of docs/life_of_a_call.md is defined in the file beside it, and those in the text are
        defined somewhere."""
        text, count = self.page("life_of_a_call.md"), 0
        definitions = {}
        for file in (self.root / "src").rglob("*.[ch]"):
            definitions[file] = {d.name for d in c_scan.scan(file.read_text()).definitions}
        for cells in re.findall(r"^\| (.*) \| `([\w/]+\.[chS])` \|", text, re.M):
            file = self.root / "src" / cells[1]
            there = definitions.get(file) or set(c_scan.WORD.findall(file.read_text()))
            names = re.findall(r"`(\w+)`", cells[0])
            count += len(names)
            assert names and set(names) <= there, f"{cells[1]} does not define {set(names) - there}"
        known = set().union(*definitions.values(), {"cn_slots"})  # which the build makes
        told = set(re.findall(r"`(?:struct )?((?:cn|own|host|gpu)_(?!cuX)\w+)(?:\(\))?`", text))
        assert told <= known and count > 50, f"{told - known}; {count} functions"
        return f"{count} functions"

    def environment_has_all_variables(self):
        """docs/environment.md has each variable that the sources read, and no other."""
        read = set(re.findall(r'"((?:CENOTE|CUDA)_(?!ERROR|SUCCESS)[A-Z_]+)"', self.sources("src", "tools")))
        named = set(re.findall(r"^\| `((?:CENOTE|CUDA)_[A-Z_]+)", self.page("environment.md"), re.M))
        assert read == named and len(read) > 8, f"only read: {read - named}; only on the page: {named - read}"

    def errors_are_what_is_said(self):
        """docs/error_sentences.md has all sentences of the sources, and docs/errors.md quotes none but these."""
        count = len(error_sentences.quoted(self.root))
        wrong = error_sentences.problems(self.root)
        assert not wrong and count > 40, f"{count} sentences are quoted\n" + "\n".join(wrong)
        return f"{len(error_sentences.read(self.root))} sentences, {count} with a remedy"

    def sentences_are_read_as_printed(self):
        """What stands in the sources and what a person sees are brought together."""
        for call, expected in {
                'CUDA_ERROR_INVALID_VALUE, "%zu bytes from 0x%" PRIx64 " on, (of %d)", a, b':
                    (["CUDA_ERROR_INVALID_VALUE"], ["… bytes from … on, (of …)"]),
                'CUDA_ERROR_UNKNOWN, "one "\n\t"two at 0x%" PRIx64, f(a, "x y z")':
                    (["CUDA_ERROR_UNKNOWN"], ["one two at …"]),
                'cudaErrorInvalidValue, "%s", a ? "count is 0" : "desc is NULL"':
                    (["cudaErrorInvalidValue"], ["count is 0", "… is NULL"]),
                'CUDA_ERROR_NOT_FOUND, "%s: %s", path, strerror(errno)': (["CUDA_ERROR_NOT_FOUND"], []),
        }.items():
            found = error_sentences.sentences_of(call)
            assert found == expected, f"{call}: {found}"

    def pointers_are_those_of_the_calls(self):
        """The table of docs/pointers.md is the one that is made from the headers and src/pointers.list."""
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "pointers.md"
            subprocess.run([sys.executable, self.root / "scripts/generate_pointers.py", "table", self.root, made],
                           check=True)
            assert made.read_text() == self.page("pointers.md"), \
                "`scripts/generate_pointers.py table . docs/pointers.md` puts the page right"

    def locks_are_those_of_the_sources(self):
        """Every lock of rank.h is in the table, in the same order, with the same words, and declared where it says."""
        kinds = {"slow": "slow_lock", "driver": "driver_lock", "fast": "lock", "quick": "quick_lock",
                 "owned": "owned_lock"}
        twos = {"no": "NEVER", "lower address first": "BY_ADDRESS", "many readers": "SHARED"}
        pattern = r'^\tRANK\((\w+), +(\w+), +(\w+), +"([^"]*)"\)'
        ranks = re.findall(pattern, (self.root / "src/base/rank.h").read_text(), re.M)
        shown = self.page("concurrency.md").split("<!-- ranks -->")[1].strip().split("\n\n")[0].splitlines()[2:]
        rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in shown]
        assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)], "ranks in their order"
        assert [(row[1], kinds[row[2]], twos[row[3]], row[4]) for row in rows] == ranks, "rows as in rank.h"
        for row in rows:
            text = (self.root / "src" / row[5]).read_text()
            assert re.search(rf"LOCK\({row[1]}\)\s+\w|cn_rank_enter\([^,]*, {row[1]}\)", text), f"{row[1]}: {row[5]}"


def main(root, *compiler):
    """Runs all tests; True when all passed."""
    pages = Pages(Path(root).resolve(), compiler)
    return run_tests(by_name(pages.links_lead_somewhere, pages.tables_are_whole, pages.pages_follow_each_other,
                             pages.folded_answers_are_counted, pages.front_chart_is_measured,
                             pages.protocol_has_the_numbers, pages.protocol_has_all_messages,
                             pages.life_of_a_call_is_as_told, pages.environment_has_all_variables,
                             pages.errors_are_what_is_said, pages.sentences_are_read_as_printed,
                             pages.pointers_are_those_of_the_calls, pages.locks_are_those_of_the_sources))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)

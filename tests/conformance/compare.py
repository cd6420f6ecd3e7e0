#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare a chapter's answers with its golden file, and speak TAP; or merge two runs into a golden file.

    compare.py CHAPTER-PROGRAM GOLDEN DIFFERENCES...   run, compare, TAP on standard output
    compare.py --merge FIRST SECOND                    two runs on a GPU: what differs becomes `varies`
    compare.py --unasked CHAPTER-PROGRAM GOLDEN        add the questions that GOLDEN does not know, as `not asked yet`

A question passes when the answers are equal; when the golden answer is a crash, a hang, `varies` or a spoilt context
(`… then CUDA_ERROR_…`) and ours is an answer; or when DIFFERENCES (a table `| question | driver | cenote | reason |`)
lists exactly ours. A `*` in a question stands for any text, and the row for all questions that it fits and whose
answers are those of the row. `… or the same` as our answer is for what news of another process's death decides, which
takes a moment, and for what a GPU and the tests' driver in its place answer differently: then the driver's answer will
do as well. A listed difference that no longer differs fails, and so does
a row that fits nothing, and a question that only one side knows, unless that is listed as `not asked`.

A golden answer `not asked yet` is for a question that no GPU was at hand for. Ours is reported beside it, as skipped,
and fails only if it is a crash; `make gpu-golden` puts the driver's answer in its place.

A second file of DIFFERENCES is of another device, over the first: its rows win, and `the same` as our answer says that
there is no difference there. `varies` as our answer is for numbers that depend on when the device is asked.
"""
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

CRASHES = ("crash", "hang")
OR_THE_SAME = " or the same"
SAME = "the same"
VARIES = "varies"
NOT_ASKED_YET = "not asked yet"
INFORMATIVE = ("attributes",)  # values are each device's own there: only the code counts


def read_answers(lines):
    answers = {}
    for line in lines:
        if line.startswith("#") or " = " not in line:
            continue
        question, answer = line.rstrip("\n").split(" = ", 1)
        answers[question] = answer.strip()
    return answers


def read_file(path):
    with open(path, encoding="utf-8") as lines:
        return read_answers(lines)


def read_differences(path, chapter):
    """The rows of the table whose question belongs to this chapter: question -> [(driver, cenote)]."""
    rows = {}
    if not os.path.exists(path):
        return rows
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            cells = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line.strip())]
            if len(cells) == 6 and cells[1].startswith(chapter + "."):
                rows.setdefault(cells[1], []).append((cells[2], cells[3]))
    return rows


def expand(rows, golden, ours):
    """Rows with a `*` become one for each question that they fit; those that fit none stay, to be reported."""
    expanded = {question: answers[0] for question, answers in rows.items() if "*" not in question}
    for pattern in [question for question in rows if "*" in question]:
        for answers in rows[pattern]:
            found = False
            for question in sorted(set(golden) | set(ours)):
                pair = (golden.get(question, "not asked"), ours.get(question, "not asked"))
                if question not in expanded and pair == answers and fnmatch.fnmatchcase(question, pattern):
                    expanded[question] = answers
                    found = True
            if not found:
                expanded["%s (%s, %s)" % ((pattern,) + answers)] = answers
    return expanded


def read_all(paths, chapter, golden, ours):
    """What is listed of each question in these files: question -> (driver, cenote)."""
    listed = {}
    for path in paths:
        listed.update(expand(read_differences(path, chapter), golden, ours))
    return {question: answers for question, answers in listed.items() if answers[1] != SAME}


def is_crash(answer):
    return answer.split(" ")[0] in CRASHES


def judge(question, golden, ours, listed):
    """None when ours may stand, else why not."""
    if golden == NOT_ASKED_YET and ours is not None and not is_crash(ours):
        return None
    if listed == (golden, VARIES) and not is_crash(ours or ""):
        return None
    if listed and listed[1].endswith(OR_THE_SAME):
        if ours == golden == listed[0]:
            return None
        listed = (listed[0], listed[1][: -len(OR_THE_SAME)])
    if ours is None and listed == (golden, "not asked"):
        return None  # it hangs on an answer that differs
    if ours is None and golden is None:
        return "listed in differences.md, but nothing fits"
    if ours is None:
        return "in the golden file, but not asked"
    if golden is None and listed == ("not asked", ours) and not is_crash(ours):
        return None  # the driver did not come so far
    if golden is None:
        return "asked, but not in the golden file"
    if question.split(".")[0] in INFORMATIVE:
        golden, ours = golden.split(" ")[0], ours.split(" ")[0]
    if is_crash(ours):
        return "expected %s, got %s" % (golden, ours)
    free = is_crash(golden) or golden == "varies" or " then CUDA_ERROR_" in golden
    if listed:
        if listed[0] != golden:
            return "differences.md says the driver answers %s, the golden file %s" % (listed[0], golden)
        if listed[1] != ours:
            return "differences.md says cenote answers %s, got %s" % (listed[1], ours)
        if ours == golden:
            return "listed in differences.md, but no longer different"
        return None
    if ours == golden or free:
        return None
    return "expected %s, got %s" % (golden, ours)


def ask(program):
    """Run it where no other process takes memory of its host devices."""
    with tempfile.TemporaryDirectory(prefix="cenote-conformance-") as folder:
        return subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "CENOTE_RUNTIME_DIR": folder})


def compare(program, golden_path, *differences_paths):
    chapter = os.path.splitext(os.path.basename(golden_path))[0]
    if not os.path.exists(golden_path):
        print("TAP version 13\n1..1\nnot ok 1 - %s has no golden file; scripts/gpu_golden.sh writes it" % chapter)
        return 1
    golden = read_file(golden_path)
    ran = ask(program)
    ours = read_answers(ran.stdout.splitlines())
    differences = read_all(differences_paths, chapter, golden, ours)
    questions = list(golden) + [question for question in ours if question not in golden]
    questions += [question for question in differences if question not in golden and question not in ours]
    print("TAP version 13")
    print("1..%d" % (len(questions) + 1))
    failed = 0
    for number, question in enumerate(questions, 1):
        why = judge(question, golden.get(question), ours.get(question), differences.get(question))
        failed += why is not None
        unasked = why is None and golden.get(question) == NOT_ASKED_YET
        said = ": " + why if why else " # SKIP the driver is not asked yet; ours is " + ours[question] if unasked else ""
        print("%s %d - %s%s" % ("ok" if why is None else "not ok", number, question, said))
    ended = ran.returncode == 0
    failed += not ended
    print("%s %d - %s ended well" % ("ok" if ended else "not ok", len(questions) + 1, chapter))
    return 1 if failed else 0


def merge(first_path, second_path):
    second = read_file(second_path)
    with open(first_path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or " = " not in line:
                sys.stdout.write(line)
                continue
            question, answer = line.rstrip("\n").split(" = ", 1)
            other = second.get(question)
            if other is None or other.strip() != answer.strip():
                sys.stderr.write("varies: %s = %s / %s\n" % (question, answer, other))
                answer = "varies"
            print("%s = %s" % (question, answer))
    for question in second:
        if question not in read_file(first_path):
            sys.stderr.write("only in the second run: %s\n" % question)
    return 0


def add_unasked(program, golden_path):
    golden = read_file(golden_path) if os.path.exists(golden_path) else {}
    ran = ask(program)
    questions = [question for question in read_answers(ran.stdout.splitlines()) if question not in golden]
    with open(golden_path, "a", encoding="utf-8") as lines:
        for question in questions:
            lines.write("%s = %s\n" % (question, NOT_ASKED_YET))
            print(question)
    return 0 if ran.returncode == 0 else 1


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--merge":
        return merge(sys.argv[2], sys.argv[3])
    if len(sys.argv) == 4 and sys.argv[1] == "--unasked":
        return add_unasked(sys.argv[2], sys.argv[3])
    if len(sys.argv) in (4, 5):
        return compare(*sys.argv[1:])
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())

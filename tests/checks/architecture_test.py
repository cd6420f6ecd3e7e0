#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What scripts/architecture.py finds: a small tree that is in order, and the same with one mistake of each kind. Prints TAP.

    architecture_test.py SOURCE_DIRECTORY
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(sys.argv[1])
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "scripts")]
import architecture  # pylint: disable=wrong-import-position
import c_scan  # pylint: disable=wrong-import-position
from tap import by_name, run_tests  # pylint: disable=wrong-import-position

LIST = """# A comment
layer base
layer device base
layer driver device
    base
public driver cu
outside tools base/jump.h
prefix base cn_lock cn_error
prefix device cn_device
prefix driver cn_enter
"""

FILES = {
    "src/layers.list": LIST,
    "src/base/lock.h": """/* A comment: cn_wrong() */
#ifndef CN_BASE_LOCK_H
#define CN_BASE_LOCK_H
struct cn_lock {
	int word;
};
#define CN_LOCK_SPINS 8
void cn_lock_take(struct cn_lock *lock, int (*wait)(int word));
static inline void cn_lock_give(struct cn_lock *lock)
{
	lock->word = CN_LOCK_SPINS;
}
#endif
""",
    "src/base/lock.c": """#include "base/lock.h"
static int count;
void cn_lock_take(struct cn_lock *lock, int (*wait)(int word))
{
	count += wait(lock->word);
}
""",
    "src/device/device.c": """#include "base/lock.h"
#include <stddef.h>
__attribute__((visibility("hidden"))) _Atomic(int *) cn_device_count = NULL;
int cn_device_open(struct cn_lock *lock)
{
	cn_lock_take(lock, NULL);
	cn_lock_give(lock);
	return '{' + sizeof "{ } cn_wrong()";
}
""",
    "src/driver/init.c": """int cn_device_open(void *lock);
extern int *cn_device_count;
int cuInit(unsigned flags)
{
	return cn_device_open(cn_device_count) + (int)flags;
}
""",
    "tools/main.c": '#include "cenote/cuda.h"\n#include "base/jump.h"\nint main(void)\n{\n\treturn 0;\n}\n',
    "src/base/jump.h": "#ifndef CN_BASE_JUMP_H\n#define CN_BASE_JUMP_H\n#endif\n",
    "tests/lock_test.c": "TEST(a)\n{\n\tcn_lock_take();\n}\n",
}


def problems(changes):
    """What is found in the tree after changes: a file's new text, or what is put behind the old one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**FILES, **{name: FILES.get(name, "") + text for name, text in changes.items()}}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return [(problem.kind, *problem.what) for problem in architecture.problems_of(root)]


def expect(changes, *wanted):
    """Exactly these are found."""
    found = problems(changes)
    assert found == list(wanted), f"found {found}, not {list(wanted)}"


def a_tree_in_order_passes():
    """Nothing is found, also where a comment or a string looks like code."""
    expect({})


def a_step_up_is_found():
    """A layer includes one above it, or a layer that is not in the list."""
    expect({"src/base/lock.c": '#include "device/device.h"\n'}, ("include", "lock.c", "device/device.h"))
    expect({"src/new/new.c": "static int one;\n"}, ("include", "new"))


def a_call_upwards_is_found():
    """A header, or a source, declares what a layer above it defines."""
    expect({"src/base/lock.h": "int cn_device_open(void *lock);\n"}, ("declare", "lock.h", "cn_device_open"))


def a_look_inside_is_found():
    """A tool includes a header of the library's that is not public."""
    expect({"tools/main.c": '#include "base/lock.h"\n'}, ("include", "main.c", "base/lock.h"))


def a_wrong_prefix_is_found():
    """Functions, variables, types, macros and constants, without a prefix and with another folder's."""
    wanted = ("spin", "CN_WAITS", "cn_device_word", "cn_kind", "CN_KIND_ONE")
    text = ("#define CN_WAITS 1\nstatic inline int spin(void)\n{\n\treturn CN_WAITS;\n}\n"
            "struct cn_device_word {\n\tint spin, cn_kind;\n};\nenum cn_kind { CN_KIND_ONE = 1 };\n")
    found = problems({"src/base/lock.h": text})
    assert sorted(found) == sorted(("prefix", name) for name in wanted), found
    expect({"src/driver/init.c": "int cn_ready[2] = {0};\nint cn_enter(void)\n{\n\treturn cn_ready[0];\n}\n",
            "tests/lock_test.c": "cn_enter cn_ready"}, ("prefix", "cn_ready"), ("unused", "cn_enter"))


def a_prefix_of_two_folders_is_found():
    """Each belongs to one."""
    expect({"src/layers.list": "prefix driver cn_lock\n"}, ("list", "cn_lock"))


def what_only_tests_use_is_found():
    """A function that the product does not call, and a macro that nothing mentions."""
    expect({"src/base/lock.c": "int cn_lock_ask(void)\n{\n\treturn 1;\n}\n", "tests/lock_test.c": "cn_lock_ask();\n"},
           ("unused", "cn_lock_ask"))
    expect({"src/base/jump.h": "#define CN_LOCK_OLD 1\n"}, ("unused", "CN_LOCK_OLD"))


def what_could_be_static_is_found():
    """A function that only its own file calls, unless a test does as well."""
    text = "int cn_lock_ask(void)\n{\n\treturn 1;\n}\nstatic int ask(void)\n{\n\treturn cn_lock_ask();\n}\n"
    expect({"src/base/lock.c": text}, ("static", "cn_lock_ask"))
    expect({"src/base/lock.c": text, "tests/lock_test.c": "cn_lock_ask();\n"})


def what_is_too_long_is_found():
    """Functions and files, in C and in Python."""
    body = "\n\tint more = 0;" * 70
    expect({"src/base/lock.c": f"static int ask(void)\n{{{body}\n}}\n"}, ("function", "lock.c", "ask"))
    expect({"tests/lock_test.c": f"TEST(long_one)\n{{{body}\n}}\n"}, ("function", "lock_test.c", "long_one"))
    expect({"scripts/one.py": "def main():\n" + "    pass\n" * 70}, ("function", "one.py", "main"))
    expect({"tools/long.c": "\n" * 801}, ("file", "long.c"))


def a_name_that_occurs_twice_is_found():
    """Of a file in src/."""
    expect({"src/device/lock.c": "static int one;\n"}, ("twice", "lock.c"))


def a_file_that_is_not_there_is_found():
    """In a comment; what the build makes is not looked for."""
    expect({"src/base/lock.c": "/* See lock.h, base/lock.h, src/base/lock.h and spin.h. */\n"},
           ("mention", "lock.c", "spin.h"))
    expect({"src/base/lock.c": "/* See versions.h. */\n", "src/layers.list": "made versions.h\n"})


def an_exception_lets_one_problem_pass():
    """And is a problem itself when nothing needs it, or it has no reason."""
    step = '#include "device/device.h"\n'
    line = "except include lock.c device/device.h : until the lock knows no device\n"
    expect({"src/base/lock.c": step, "src/layers.list": line})
    expect({"src/layers.list": line}, ("list", "include", "lock.c", "device/device.h"))
    found = problems({"src/base/lock.c": step, "src/layers.list": line.replace(" :", "")})
    assert ("include", "lock.c", "device/device.h") in found, found


def definitions_are_read():
    """The forms that C has for them."""
    source = c_scan.scan("""typedef void (*cn_call)(int);
typedef struct cn_one { int a; } cn_two;
const char *const names[] = {"a", "b"}, *other;
static struct { int lock; } state = {.lock = 1};
int (*table[2])(void);
struct declared;
extern int elsewhere;
_Static_assert(sizeof(int) == 4, "four");
MACRO(of, its, own)

static inline __attribute__((always_inline)) int function(int (*argument)(void))
{
	return argument();
}
""")
    found = [(d.name, d.kind) for d in source.definitions]
    wanted = [("cn_call", "type"), ("cn_one", "type"), ("cn_two", "type"), ("names", "variable"),
              ("other", "variable"), ("state", "variable"), ("table", "variable"), ("function", "function")]
    assert found == wanted, found
    assert source.definitions[-1].line == 11 and source.definitions[-1].lines == 4


if __name__ == "__main__":
    sys.exit(0 if run_tests(by_name(
        a_tree_in_order_passes, a_step_up_is_found, a_call_upwards_is_found, a_look_inside_is_found, a_wrong_prefix_is_found,
        a_prefix_of_two_folders_is_found, what_only_tests_use_is_found, what_could_be_static_is_found,
        what_is_too_long_is_found, a_name_that_occurs_twice_is_found, a_file_that_is_not_there_is_found,
        an_exception_lets_one_problem_pass,
        definitions_are_read)) else 1)

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Installs what was built into a temporary tree, and uses it from there as a stranger would: through pkg-config, through
CMake, and by the command. Prints TAP.

    install_test.py BUILD_DIRECTORY C_COMPILER... [-- C++_COMPILER...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
EXPECTED = "through the device and back\n"
NVIDIA_HEADERS = Path("/usr/local/cuda/include")
NOBODY = 65534
WAYS = ("events", "fabric", "legacy", "pools", "virtual_memory")


def run(*command, **variables):
    """What a command prints; a failure of its own ends the test."""
    done = subprocess.run([str(word) for word in command], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def need(tool):
    """Skip where a tool is missing."""
    if not shutil.which(tool):
        raise Skip(f"{tool} is not installed")


def expect(actual, expected):
    """Compare, and show both."""
    if actual != expected:
        raise AssertionError(f"got {actual!r}, not {expected!r}")


def path_without(tool):
    """The folders of the path that have no such tool."""
    return os.pathsep.join(f for f in os.environ["PATH"].split(os.pathsep) if not Path(f, tool).exists())


class Tree:
    """A temporary tree with Cenote in it."""

    def __init__(self, directory, build, compiler, cpp):
        self.directory, self.build, self.compiler, self.cpp = Path(directory), build, compiler, cpp
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", self.directory / "tree")
        package = next((self.directory / "tree").rglob("cenote.pc"))
        self.libraries = package.parent.parent
        self.prefix = next((self.directory / "tree").rglob("include")).parent

    def all_is_in_place(self):
        """The headers, the library under both names, the drop-in libraries where no loader looks, the manual."""
        for name in ("cuda.h", "cuda_runtime_api.h", "cuda_runtime.h", "cenote.h", "device/device.h"):
            assert (self.prefix / "include/cenote" / name).exists(), name
        for name in ("libcenote.so", "libcenote.so.1", "libcenote-driver.so", "libcenote-driver.so.1", "cenote/libcuda.so.1", "cenote/libcudart.so.13",
                     "cenote/libnvidia-ml.so.1", "cenote/libcenote-redirect.so", "cenote/libcenote-trace.so"):
            assert (self.libraries / name).exists(), name
        expect(sorted(f.name for f in (self.prefix / "include").iterdir()), ["cenote"])
        for name in ("man/man1/cenote.1", "man/man1/cenote-demo.1", "man/man3/cenote.3", "man/man3/cenote_send_pool.3",
                     "bash-completion/completions/cenote", "zsh/site-functions/_cenote"):
            assert (self.prefix / "share" / name).exists(), name

    def product_is_what_is_installed(self):
        """`make build` and the action build `product` and install without building again: it has all that is installed."""
        need("ninja")
        made = [line.strip(" |") for question in ("query", "inputs")  # what it names, and what that is made of
                for line in run("ninja", "-C", self.build, "-t", question, "product").splitlines()]
        installed = json.loads(run("meson", "introspect", "--installed", self.build))
        targets = json.loads(run("meson", "introspect", "--targets", self.build))
        names = {name for target in targets for name in target["filename"]} & set(installed)
        expect(sorted(names - {str(Path(self.build, name)) for name in made}), [])

    def command_runs(self):
        """The command finds its library by itself."""
        assert run(self.prefix / "bin/cenote", "info")

    def dropins_are_found(self):
        """The command finds its drop-in libraries through links, in a tree that was moved, and in another library folder."""
        def folder(command, **variables):
            return run(command, "run", "--device", "host", "sh", "-c", "echo $LD_LIBRARY_PATH", **variables).split(":")[0]
        installed, bare = self.libraries / "cenote", {"LD_LIBRARY_PATH": ""}
        expect(folder(self.prefix / "bin/cenote", **bare).strip(), str(installed))
        link, again = self.directory / "link", self.directory / "again"
        link.symlink_to(self.prefix / "bin/cenote")
        again.symlink_to("link")
        expect(folder(again, **bare).strip(), str(installed))
        moved = self.directory / "moved"
        shutil.copytree(self.prefix, moved, symlinks=True)
        there = moved / self.libraries.relative_to(self.prefix)
        expect(folder(moved / "bin/cenote", **bare).strip(), str(there / "cenote"))
        other = moved / "other" / "x86_64-linux-gnu"
        other.parent.mkdir()
        there.rename(other)
        expect(folder(moved / "bin/cenote", LD_LIBRARY_PATH=str(other)).strip(), str(other / "cenote"))

    def pkg_config_works(self):
        """A program is built with what pkg-config says."""
        need("pkg-config")
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        program = self.directory / "program"
        run(*self.compiler, "-include", "cenote.h", HERE / "program.c", *words.split(), "-o", program)
        expect(run(program, LD_LIBRARY_PATH=str(self.libraries)), EXPECTED)

    def linker_flag_works(self):
        """A program is built with -lcenote alone, and finds both libraries."""
        program = self.directory / "flag-program"
        run(*self.compiler, "-include", "cenote.h", f"-I{self.prefix / 'include/cenote'}", HERE / "program.c",
            f"-L{self.libraries}", "-lcenote", f"-Wl,-rpath,{self.libraries}", "-o", program)
        expect(run(program), EXPECTED)

    def readme_works(self):
        """The program in the README, built as the README says, prints what the README says."""
        need("pkg-config")
        text = (HERE.parent.parent / "README.md").read_text()
        code = re.search(r"```c\n(.*?)```", text, re.S)[1]
        printed = re.search(r"\./a\.out +# (.*)$", text, re.M)[1]
        self.build_readme(code, printed, "readme.c", self.compiler)

    def readme_is_cpp(self):
        """It is a program in C++ as well, from C++11 on, with our headers and with NVIDIA's."""
        need("pkg-config")
        if not self.cpp:
            raise Skip("there is no C++ compiler")
        text = (HERE.parent.parent / "README.md").read_text()
        code = re.search(r"```c\n(.*?)```", text, re.S)[1]
        printed = re.search(r"\./a\.out +# (.*)$", text, re.M)[1]
        for standard in ("c++11", "c++14", "c++17", "c++20"):
            self.build_readme(code, printed, "readme.cc", (*self.cpp, f"-std={standard}"))
        if not (NVIDIA_HEADERS / "cuda_runtime.h").exists():
            return "not with NVIDIA's headers: there are none"
        for standard in ("c++11", "c++20"):
            self.build_readme(code, printed, "readme.cc", (*self.cpp, f"-std={standard}", f"-I{NVIDIA_HEADERS}"))
        return "also with NVIDIA's headers"

    def build_readme(self, code, printed, name, compiler):
        """Build it, run it, and look at what it prints."""
        source, program = self.directory / name, self.directory / "readme"
        source.write_text(code)
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        run(*compiler, "-Wall", "-Wextra", "-Werror", source, *words.split(), "-o", program)
        lines = run(program, LD_LIBRARY_PATH=str(self.libraries)).splitlines()
        expect(lines, [printed])

    def guide_works(self):
        """Each whole program in docs/, as it stands there, prints what the block behind it says, and is C++20, too."""
        need("pkg-config")
        words = run("pkg-config", "--cflags", "--libs", "cenote", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        settings = {"CENOTE_DEVICE": "host", "CENOTE_IMEX_DIR": str(self.directory / "channels"),
                    "LD_LIBRARY_PATH": str(self.libraries)}
        run(self.prefix / "bin/cenote", "imex", "create", "0", **settings)
        built = []
        for page in sorted((HERE.parent.parent / "docs").glob("*.md")):
            text = page.read_text()
            programs = re.findall(r"^```c\n(#include.*?)^```$.*?^```text\n(.*?)^```$", text, re.S | re.M)
            expect(len(programs), len(re.findall(r"^```c\n#include", text, re.M)))
            for code, printed in programs:
                source, program = self.directory / "guide.c", self.directory / "guide"
                source.write_text(code)
                run(*self.compiler, "-Wall", "-Wextra", "-Werror", source, *words.split(), "-o", program)
                expect(run(program, **settings), printed)
                if self.cpp:
                    run(*self.cpp, "-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror",
                        "-fsyntax-only", "-x", "c++", source, *(w for w in words.split() if w.startswith("-I")))
                built.append(page.name)
        wanted = {"quick_start.md", "rules.md", *(f"share_{way}.md" for way in WAYS)}
        expect(set(built), wanted)
        return f"{len(built)} programs"

    def cmake_works(self):
        """A program is built by a CMake project."""
        need("cmake")
        run("cmake", "-S", HERE, "-B", self.directory / "cmake", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-Dcenote_DIR={self.libraries / 'cmake/cenote'}", CC=" ".join(self.compiler))
        run("cmake", "--build", self.directory / "cmake")
        expect(run(self.directory / "cmake/program"), EXPECTED)

    def toolkit_is_found(self):
        """CMake's find_package(CUDAToolkit) takes a folder of Cenote's for a toolkit, and finds no compiler there."""
        need("cmake")
        need("pkg-config")
        folder = self.directory / "toolkit"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(stranger C)\nfind_package(CUDAToolkit 13.0 REQUIRED)\n"
            f"add_executable(program {HERE / 'program.c'})\n"
            "target_link_libraries(program PRIVATE CUDA::cudart CUDA::cuda_driver CUDA::nvml)\n")
        root = run("pkg-config", "--variable=cudatoolkit_root", "cenote",
                   PKG_CONFIG_PATH=str(self.libraries / "pkgconfig")).strip()
        # Without a nvcc on the path, which CMake would take for the toolkit.
        run("cmake", "-S", folder, "-B", folder / "build", f"-DCUDAToolkit_ROOT={root}", CC=" ".join(self.compiler),
            PATH=path_without("nvcc"), CUDA_PATH="")
        run("cmake", "--build", folder / "build")
        expect(run(folder / "build/program", LD_LIBRARY_PATH="", CENOTE_DEVICE="host"), EXPECTED)

    def cuda_language_says_what_to_set(self):
        """In a project with the language CUDA, which would link NVIDIA's runtime, an error says what to do."""
        need("cmake")
        need("nvcc")
        folder = self.directory / "language"
        folder.mkdir()
        (folder / "program.cu").write_text("int main() { return 0; }\n")
        for before, after in (("enable_language(CUDA)", ""), ("", "enable_language(CUDA)")):
            (folder / "CMakeLists.txt").write_text(
                f"cmake_minimum_required(VERSION 3.19)\nproject(stranger C)\n{before}\nfind_package(cenote REQUIRED)\n"
                f"{after}\nadd_executable(program program.cu)\ntarget_link_libraries(program PRIVATE cenote::cudart)\n")
            build = folder / ("build-early" if before else "build-late")
            words = ("cmake", "-S", folder, "-B", build, f"-Dcenote_DIR={self.libraries / 'cmake/cenote'}")
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
            said = " ".join(done.stderr.split())
            assert done.returncode == 1 and "-DCMAKE_CUDA_RUNTIME_LIBRARY=None" in said, done
            assert "cenote::cudart" in said, said
        run(*words, "-DCMAKE_CUDA_RUNTIME_LIBRARY=None")
        run("cmake", "--build", build)

    def cpp_page_works(self):
        """The program of docs/cxx_cmake.md, built as that page says by CMake, by Meson and by hand."""
        need("pkg-config")
        need("cmake")
        if not self.cpp:
            raise Skip("there is no C++ compiler")
        text = (HERE.parent.parent / "docs/cxx_cmake.md").read_text()
        folder = self.directory / "cpp"
        folder.mkdir()
        for language, name in (("cpp", "share.cc"), ("cmake", "CMakeLists.txt"), ("meson", "meson.build")):
            (folder / name).write_text(re.search(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)[1])
        printed = re.search(r"^```text\n(.*?)^```$", text, re.S | re.M)[1]
        settings = {"CENOTE_DEVICE": "host", "CXX": " ".join(self.cpp),
                    "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        run("cmake", "-S", folder, "-B", folder / "cmake", f"-Dcenote_DIR={self.libraries / 'cmake/cenote'}",
            **settings)
        run("cmake", "--build", folder / "cmake")
        run("meson", "setup", folder, folder / "meson", **settings)
        run("ninja", "-C", folder / "meson")
        words = run("pkg-config", "--cflags", "--libs", "cenote", **settings).split()
        for standard in ("c++11", "c++20"):
            run(*self.cpp, f"-std={standard}", "-Wall", "-Wextra", "-Werror", folder / "share.cc", *words,
                f"-Wl,-rpath,{self.libraries}", "-o", folder / "share")
            expect(run(folder / "share", **settings), printed)
        for built in ("cmake/share", "meson/share"):
            expect(run(folder / built, **settings), printed)

    def cuda_page_works(self):
        """The program of docs/cc.md: by the README's words, and by CMake, Meson and a linker as that page says."""
        need("clang")
        need("cmake")
        need("pkg-config")
        text, folder = (HERE.parent.parent / "docs/cc.md").read_text(), self.directory / "cuda"
        folder.mkdir()
        for language, name in (("cpp", "share.cu"), ("cmake", "CMakeLists.txt"), ("meson", "meson.build")):
            (folder / name).write_text(re.search(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)[1])
        printed = re.search(r"^```text\n(.*?)^```$", text, re.S | re.M)[1]
        settings = {"CENOTE_DEVICE": "host", "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig"), "CXX": "clang++",
                    "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}", "LD_LIBRARY_PATH": ""}
        readme = (HERE.parent.parent / "README.md").read_text()
        command, said = re.search(r"^(cenote cc share.cu -o share).*\n\./share +# (.*)$", readme, re.M).groups()
        expect(said, printed.strip())
        run("sh", "-ec", f"cd {folder}; {command}", **settings)
        expect(run(folder / "share", **settings), printed)
        run("cmake", "-S", folder, "-B", folder / "cmake", f"-Dcenote_DIR={self.libraries / 'cmake/cenote'}",
            **settings)
        run("cmake", "--build", folder / "cmake", **settings)
        run("meson", "setup", folder, folder / "meson", **settings)
        run("ninja", "-C", folder / "meson", **settings)
        steps = re.search(r"^    (cenote cc -c .*)\n    (g\+\+ .*)$", text, re.M).groups()
        (folder / "hand").mkdir()
        shutil.copy(folder / "share.cu", folder / "hand")
        run("sh", "-ec", f"cd {folder / 'hand'}; {steps[0]}; {steps[1].replace('g++', 'clang++')}", **settings)
        for built in ("cmake/share", "meson/share", "hand/share"):
            expect(run(folder / built, **settings), printed)

    def dropin_works(self):
        """A program that was linked against NVIDIA's libraries runs when the command puts ours in front."""
        program = self.directory / "dropin-program"
        stand_ins = [self.stand_in("libcudart.so.13", r"\b(cuda[A-Z]\w+)\(", "libcudart.so.13"),
                     self.stand_in("libcuda.so.1", r"\b(cu[A-Z]\w+)\(", "")]
        run(*self.compiler, HERE / "program.c", f"-I{self.prefix / 'include/cenote'}", *stand_ins, "-o", program)
        expect(run(self.prefix / "bin/cenote", "run", program), EXPECTED)

    def stand_in(self, name, pattern, version):
        """To link with in place of NVIDIA's library: the functions that program.c calls, and their symbol version."""
        names = sorted(set(re.findall(pattern, (HERE / "program.c").read_text())))
        source, script = self.directory / f"{name}.c", self.directory / f"{name}.map"
        source.write_text("".join(f"void {function}(void) {{}}\n" for function in names))
        script.write_text(f"{version} {{ global: {'; '.join(names)}; local: *; }};\n".lstrip())
        run(*self.compiler, "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{name}",
            f"-Wl,--version-script={script}", source, "-o", self.directory / name)
        return self.directory / name

    def no_right_is_one_sentence(self):
        """Where the user may not write, `make install` says so in one line and begins nothing."""
        locked = self.directory / "locked"
        locked.mkdir(mode=0o755)
        source = HERE.parent.parent
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if not as_nobody:
            locked.chmod(0o555)
        done = subprocess.run(["sh", "-c", (source / "scripts/check_install.sh").read_text(), "check_install.sh",
                               "lib", locked / "prefix"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, cwd="/", **as_nobody)
        expect(done.returncode, 1)
        expect(done.stderr, f"make install: this user may not write to {locked}: "
                            "use sudo, or install elsewhere with PREFIX=$HOME/.local\n")
        expect(run("sh", source / "scripts/check_install.sh", "lib", self.directory / "new" / "prefix"), "")
        assert "\ninstall: install-rights build" in (source / "Makefile").read_text()

    def archives_are_the_same(self):
        """Two archives of one commit have the same bytes, and so have their documents, which name every file."""
        need("git")
        source = HERE.parent.parent
        if subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, check=False).returncode:
            raise Skip("these sources are not a git clone")
        folders = [self.directory / name for name in ("dist-1", "dist-2")]
        for folder in folders:
            run(source / "scripts/make_dist.sh", folder)
        names = sorted(file.name for file in folders[0].iterdir())
        assert [Path(name).suffix for name in names] == [".json", ".gz"], names
        for name in names:
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
        document = json.loads((folders[0] / names[0]).read_text())
        files = {file["fileName"] for file in document["files"]}
        assert {"./README.md", "./include/cenote/nvml.h", "./action.yml"} <= files, len(files)
        expect(document["packages"][0]["licenseDeclared"], "MIT")

    def workflow_is_the_pages(self):
        """The ten lines of docs/ci.md are the workflow that scripts/try_action.py runs; the action has what it calls."""
        source = HERE.parent.parent
        page, example = (source / "docs/ci.md").read_text(), source / "packaging/action/example"
        expect(re.search(r"^```yaml\n(.*?)^```$", page, re.S | re.M)[1], (example / "workflow.yml").read_text())
        expect(len((example / "workflow.yml").read_text().splitlines()), 10)
        script = re.search(r"GITHUB_ACTION_PATH/([\w./]+)", (source / "action.yml").read_text())[1]
        assert os.access(source / script, os.X_OK), script
        run("cmake", "-S", example, "-B", self.directory / "example", "-DCUDAToolkit_ROOT="
            + str(self.libraries / "cenote-cuda"), CC=" ".join(self.compiler), CUDA_PATH="", PATH=path_without("nvcc"))
        run("cmake", "--build", self.directory / "example")
        expect(run(self.directory / "example/share", CENOTE_DEVICE="host"), "the child reads 42\n")

    def workflow_runs(self):
        """The steps of the action and of the example workflow, as GitHub's runner would run them, over this build."""
        need("cmake")
        folder = self.directory / "runner"
        folder.mkdir()
        said = run(HERE.parent.parent / "scripts/try_action.py", "--built", self.build, folder,
                   CC=" ".join(self.compiler), CUDA_PATH="", PATH=path_without("nvcc"), CMAKE_PREFIX_PATH="")
        assert "100% tests passed" in said and said.endswith("the workflow has passed\n"), said

    def packages_come_before_meson(self):
        """In a fresh clone `make -j2` sets the build up only when the packages are there, of which Meson is one."""
        need("make")
        clone = self.directory / "clone"
        tools = clone / "tools"
        tools.mkdir(parents=True)
        (clone / "scripts").mkdir()
        shutil.copy(HERE.parent.parent / "Makefile", clone)
        for path, lines in {
                clone / "scripts/install_packages.sh": ["mv tools/later tools/meson"],
                tools / "later": ["mkdir $2", "touch $2/build.ninja"],
                tools / "ninja": ["[ -e $2/build.ninja ]"],
        }.items():
            path.write_text("\n".join(["#!/bin/sh -e", *lines, ""]))
            path.chmod(0o755)
        run("make", "-j2", "-C", clone, "build", PATH=f"{tools}:/usr/bin:/bin", MAKEFLAGS="")


def main(build, *compilers):
    """Runs all tests; True when all passed."""
    end = compilers.index("--") if "--" in compilers else len(compilers)
    with tempfile.TemporaryDirectory(prefix="cenote-install-") as directory:
        os.chmod(directory, 0o755)  # another user is to look into it
        tree = Tree(directory, build, compilers[:end], compilers[end + 1:])
        return run_tests(by_name(tree.all_is_in_place, tree.product_is_what_is_installed, tree.command_runs, tree.dropins_are_found, tree.pkg_config_works,
                                 tree.linker_flag_works, tree.readme_works, tree.readme_is_cpp, tree.guide_works,
                                 tree.cmake_works, tree.toolkit_is_found,
                                 tree.cuda_language_says_what_to_set, tree.cpp_page_works, tree.cuda_page_works,
                                 tree.dropin_works,
                                 tree.no_right_is_one_sentence, tree.archives_are_the_same,
                                 tree.workflow_is_the_pages, tree.workflow_runs,
                                 tree.packages_come_before_meson))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)

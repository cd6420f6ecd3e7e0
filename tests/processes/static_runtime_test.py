#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A test (TAP) of `cenote run` with programs that have a CUDA runtime inside, as nvcc links them by default.

    static_runtime_test.py BUILD_DIRECTORY C_COMPILER...

The runtime is made here: an object with a function of each name that NVIDIA's has, hidden as they are there, which
answers 36 to every call as NVIDIA's does without a driver. So an answer other than 36 comes from Cenote.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
from tap import Skip, by_name, run_tests  # pylint: disable=wrong-import-position

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = {major: [line.split()[1] for line in (ROOT / "scripts/nvidia_names.txt").read_text().splitlines()
                 if line.startswith(owner)] for major, owner in ((13, "runtime "), (12, "runtime12 "))}
REFUSED = 126

# As short as NVIDIA's; the others have ten bytes or more.
SHORT = "__cudaGetProcAddress"
# The version is stored by a function that cudaRuntimeGetVersion() calls, as in NVIDIA's.
VERSION = "\tsub $8, %rsp\n\tcall tell_version\n\tadd $8, %rsp\n\tret\n"

PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
int cudaOfALaterRelease(int, int);
int cudaOwnFunction(int number)
{
	return number + 1;
}
static void *count_devices(void *barrier)
{
	int count = 0;
	pthread_barrier_wait(barrier);
	cudaGetDeviceCount(&count);
	return (void *)(long)count;
}
static int first_calls_at_once(void)
{
	enum { COUNT = 8 };
	pthread_barrier_t barrier;
	pthread_t threads[COUNT];
	void *answer;
	int sum = 0;
	pthread_barrier_init(&barrier, NULL, COUNT);
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, count_devices, &barrier);
	for (int i = 0; i < COUNT; i++) {
		pthread_join(threads[i], &answer);
		sum += (int)(long)answer;
	}
	return sum;
}
int SUBJECT(void)
{
	char rows[6] = "abcdef", back[4] = "";
	void *memory = NULL;
	int version = 0;
	printf("threads %d\n", first_calls_at_once());
	/* Seven arguments: one is passed on the stack. */
	int results = cudaMalloc(&memory, 64) | cudaMemcpy2D(memory, 2, rows, 3, 2, 2, cudaMemcpyHostToDevice) |
		      cudaMemcpy(back, memory, 4, cudaMemcpyDeviceToHost) | cudaRuntimeGetVersion(&version);
	printf("results %d, bytes %.4s, version %d, own %d\n", results, back, version, cudaOwnFunction(1));
	results = cudaOfALaterRelease(1, 2);
	printf("later %d, last error %d\n", results, cudaGetLastError());
	return fflush(stdout);
}
"""
EXPECTED = "threads 16\nresults 0, bytes abde, version 13000, own 2\nlater 801, last error 801\n"

# Constructors use the runtime: nvcc's do.
CONSTRUCTOR = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
__attribute__((constructor)) static void early(void)
{
	void *memory;
	printf("early %d\n", cudaMalloc(&memory, 64));
}
"""

OPENER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments)
{
	(void)count;
	for (int i = 0; i < 2; i++) {
		void *library = dlopen(arguments[1], RTLD_NOW);
		if (!library)
			return puts(dlerror());
		((int (*)(void))dlsym(library, "subject"))();
		dlclose(library);
	}
	return 0;
}
"""


def environment(variables):
    """The environment without what has a say in Cenote, and with these variables."""
    return {**{name: value for name, value in os.environ.items()
               if not name.startswith(("CENOTE_", "LC_", "LD_"))}, **variables}


def run(*command, status=0, forbid=None, **variables):
    """What a command prints on both channels; it must end with this status."""
    done = subprocess.run([str(word) for word in command], env=environment(variables), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False,
                          preexec_fn=forbid)  # pylint: disable=subprocess-popen-preexec-fn
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {done.returncode}, not {status}\n"
                             + done.stdout + done.stderr)
    return done.stdout, done.stderr


def runtime_source(version):
    """The runtime, in assembler."""
    names = NAMES.get(version // 1000, NAMES[13])
    functions = {name: "\tpush %rbp\n\tmov %rsp, %rbp\n\tmov $36, %eax\n\tpop %rbp\n\tret\n" for name in names}
    functions[SHORT] = "\txor %eax, %eax\n\tret\n"
    functions["cudaRuntimeGetVersion"] = VERSION
    functions["cudaGetExportTable"] = "\tsub $8, %rsp\n\tcall dlsym@PLT\n\tadd $8, %rsp\n\tret\n"
    order = sorted(functions)
    order.insert(len(order) // 2, "cudaOfALaterRelease")
    functions["cudaOfALaterRelease"] = "\tmov $36, %eax\n\tret\n"
    text = "\t.text\n\t.balign 16\ntell_version:\n"
    text += f"\ttest %rdi, %rdi\n\tje 1f\n\tmovl ${version}, (%rdi)\n1:\txor %eax, %eax\n\tret\n"
    for name in order:
        text += (f"\t.balign 16\n\t.globl {name}\n\t.hidden {name}\n\t.type {name}, @function\n{name}:\n"
                 + functions[name] + f"\t.size {name}, . - {name}\n")
    return text + '\t.section .rodata\n\t.asciz "cudaErrorCudartUnloading"\n\t.section .note.GNU-stack, "", @progbits\n'


class Programs:
    """The command, and a folder with programs that have a runtime inside."""

    def __init__(self, build, compiler, folder):
        self.cenote, self.driver = Path(build) / "bin/cenote", Path(build) / "tests/libcuda-host.so"
        self.compiler, self.folder = compiler, Path(folder)
        self.runtime = self.make_runtime("runtime", 13000)
        self.program = self.make("program", PROGRAM, "-DSUBJECT=main", self.runtime)
        self.opener = self.make("opener", OPENER)

    def make_runtime(self, name, version):
        """An object with the runtime of a version."""
        source, made = self.folder / f"{name}.s", self.folder / f"{name}.o"
        source.write_text(runtime_source(version))
        run(*self.compiler, "-c", source, "-o", made)
        return made

    def make(self, name, source, *arguments):
        """A program or library."""
        (self.folder / f"{name}.c").write_text(source)
        run(*self.compiler, f"-I{ROOT / 'include/cenote'}", self.folder / f"{name}.c", *arguments, "-pthread", "-ldl",
            "-o", self.folder / name)
        return self.folder / name

    def make_library(self, name, *arguments, source=PROGRAM + CONSTRUCTOR):
        """A library with the runtime inside."""
        return self.make(name, source, "-DSUBJECT=subject", "-shared", "-fPIC", *arguments)

    def expect(self, text, *command, **options):
        """What a program prints, with nothing on the other channel."""
        said, complaint = run(self.cenote, "run", "--devices", "2", *command, **options)
        assert said == text and not complaint, (said, complaint)

    def refuse(self, *parts, **options):
        """A program is not started, and one sentence that names it says why."""
        command = options.pop("command", (self.program,))
        said, complaint = run(self.cenote, "run", "--device", "host", *command, status=REFUSED, **options)
        assert not said, said
        assert complaint.count("\n") == 1 and complaint.startswith("cenote run: "), complaint
        for part in parts:
            assert part in complaint, (part, complaint)

    def alone_it_fails(self):
        """The test can fail: without Cenote each call answers 36."""
        contents, _ = run(self.program)
        assert "results 36, bytes ," in contents.replace("\0", "") and "later 36" in contents, contents

    def serves_an_executable(self):
        """The executable has it; position-independent or not; also where the program is started by another."""
        self.expect(EXPECTED, self.program)
        self.expect(EXPECTED, "sh", "-c", str(self.program))
        fixed = self.make("fixed", PROGRAM, "-DSUBJECT=main", self.runtime, "-no-pie")
        self.expect(EXPECTED, fixed)

    def names_what_is_missing(self):
        """What our runtime has not is refused by name: of this release, and of a later one."""
        _, complaint = run(self.cenote, "run", "--devices", "2", self.program, CENOTE_LOG="debug")
        assert "Cenote has no cudaOfALaterRelease" in complaint, complaint

    def serves_a_linked_library(self):
        """A library has it that the program is linked with: its constructors find ours."""
        library = self.make_library("libinside.so", self.runtime)
        program = self.make("linked", "int subject(void);\nint main(void) { return subject(); }\n", library,
                            f"-Wl,-rpath,{self.folder}")
        self.expect("early 0\n" + EXPECTED, program)

    def serves_an_opened_library(self):
        """A library has it that is opened, closed and opened again."""
        library = self.make_library("libopened.so", self.runtime)
        self.expect(("early 0\n" + EXPECTED) * 2, self.opener, library)

    def serves_two_at_once(self):
        """Executable and library have one each: both lead to the same runtime."""
        source = "#include <cuda_runtime_api.h>\nvoid *give(void) { void *memory = 0; cudaMalloc(&memory, 64); return memory; }\n"
        library = self.make("libgive.so", source, "-shared", "-fPIC", self.runtime)
        program = self.make("takes", "#include <cuda_runtime_api.h>\n#include <stdio.h>\nvoid *give(void);\n"
                            'int main(void) { return printf("freed %d\\n", cudaFree(give())) < 0; }\n',
                            library, self.runtime, f"-Wl,-rpath,{self.folder}")
        self.expect("freed 0\n", program)

    def leaves_other_programs_alone(self):
        """Programs that have some of the names, and are no runtime."""
        source = "#include <dlfcn.h>\n#include <stdio.h>\n" + "".join(
            f"__attribute__((noinline)) int {name}(int *value) {{ return value ? *value : {number}; }}\n"
            for number, name in enumerate(("cudaMalloc", "cudaRuntimeGetVersion", "__cudaRegisterFatBinary"), 40))
        source += 'int main(void) { printf("%d %d\\n", cudaMalloc(0), cudaRuntimeGetVersion(0)); return !dlsym(0, "puts"); }\n'
        self.expect("40 41\n", self.make("own-names", source))

    def refuses_a_stripped_one(self):
        """Without symbols nothing can be found. An opened library is told of, and left as it is."""
        stripped = self.make("stripped", PROGRAM, "-DSUBJECT=main", self.runtime, "-s")
        self.refuse(f"{stripped} has a CUDA runtime inside and its symbols removed", "nvcc -cudart shared",
                    command=(stripped,))
        library = self.make_library("libstripped.so", self.runtime, "-s")
        said, complaint = run(self.cenote, "run", "--device", "host", self.opener, library)
        assert "early 36\n" in said and "libstripped.so has a CUDA runtime inside" in complaint, (said, complaint)

    def refuses_half_of_it(self):
        """All or nothing: a symbol table without one of its functions."""
        strip = shutil.which("strip")
        if not strip:
            raise Skip("there is no strip")
        half = self.folder / "half"
        run(strip, "--strip-symbol=cudaFree", self.program, "-o", half)
        self.refuse("without the names of 1 of its functions", command=(half,))

    def refuses_another_version(self):
        """The runtimes of an early CUDA 12 and of CUDA 14, in the program and in a library of its."""
        for version, name in ((12030, "12.3"), (14010, "14.1")):
            runtime = self.make_runtime(f"runtime-{version}", version)
            program = self.make(f"program-{version}", PROGRAM, "-DSUBJECT=main", runtime)
            self.refuse(f"{program} has the runtime of CUDA {name} inside", "CUDA 13", command=(program,))
        library = self.make_library("libother.so", self.folder / "runtime-12030.o")
        program = self.make("linked-other", "int subject(void);\nint main(void) { return subject(); }\n", library,
                            f"-Wl,-rpath,{self.folder}")
        self.refuse("libother.so has the runtime of CUDA 12.3 inside", command=(program,))

    def serves_cuda_12(self):
        """A program with the runtime of CUDA 12 inside has Cenote's of CUDA 12."""
        runtime = self.make_runtime("runtime-12080", 12080)
        program = self.make("program-12080", PROGRAM, "-DSUBJECT=main", runtime)
        self.expect(EXPECTED.replace("version 13000", "version 12090"), program)

    def refuses_where_memory_is_protected(self):
        """A system that makes no memory executable."""
        libc = ctypes.CDLL(None, use_errno=True)
        refuse_exec_gain = (65, 1, 0, 0, 0)  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
        child = os.fork()
        if child == 0:
            os._exit(libc.prctl(*refuse_exec_gain) != 0)
        if os.waitpid(child, 0)[1]:
            raise Skip("this system cannot forbid it (PR_SET_MDWE)")
        self.refuse("forbids to change instructions", forbid=lambda: libc.prctl(*refuse_exec_gain))

    def refuses_one_that_changes_its_user(self):
        """The system lets nothing of ours into it."""
        if os.getuid():
            raise Skip("a program that changes its user can be made by root alone")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            raise Skip("programs do not change their user in this folder")
        program = self.make("changes-user", PROGRAM + 'const char *volatile driver = "libcuda.so.1";\n',
                            "-DSUBJECT=main", self.runtime)
        os.chown(program, 65534, -1)
        program.chmod(0o4755)
        self.refuse("set-user-ID", "run a copy", command=(program,))

    def stays_out_on_a_gpu(self):
        """There the runtime is NVIDIA's own, and serves the driver."""
        text, _ = run(self.cenote, "run", "env", CENOTE_DEVICE="cuda", CENOTE_LIBCUDA=str(self.driver))
        assert "LD_PRELOAD=" in text and "LD_AUDIT" not in text, text


def main():
    """Run the tests."""
    if platform.machine() != "x86_64":
        print("1..0 # SKIP the static runtime is served on x86-64 alone")
        return True
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(sys.argv[1], sys.argv[2:], folder)
        os.chmod(folder, 0o755)  # another user's program is in it
        return run_tests(by_name(
            programs.alone_it_fails, programs.serves_an_executable, programs.names_what_is_missing,
            programs.serves_a_linked_library, programs.serves_an_opened_library, programs.serves_two_at_once,
            programs.leaves_other_programs_alone, programs.refuses_a_stripped_one, programs.refuses_half_of_it,
            programs.refuses_another_version, programs.serves_cuda_12, programs.refuses_where_memory_is_protected,
            programs.refuses_one_that_changes_its_user, programs.stays_out_on_a_gpu))


if __name__ == "__main__":
    sys.exit(not main())

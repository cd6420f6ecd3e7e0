#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs each instruction of PTX that Cenote supports, in all its variants and on edge values, on a real GPU, and writes
what it gave.

    ptx_golden.py OUT.txt [FOLDER]    needs a GPU with its driver
    ptx_golden.py --assemble FOLDER   needs ptxas: machine code for the other form, where the GPU's machine has neither
                                      ptxas nor a driver that compiles PTX
    ptx_golden.py --programs FOLDER OUT.txt
                                      runs random programs on the GPU: FOLDER has SEED.cubin (or SEED.ptx) and SEED.in,
                                      which build/tests/ptx/ptx_generate writes; SEED.out is left beside them

tests/ptx/ptx_golden_test.c reads the file, runs the same instructions, and compares. The file stands for itself:

    values TABLE = HEX…                       the inputs, by the names of their tables
    case RESULT : OPERANDS : HOW : PTX        registers %d, %a, %b, %c; HOW is exact, nan (any NaN is one), or ulp N
    = HEX…                                    results of the threads, each with the operands that pick() chooses

An operand is TABLE/REGISTER. A thread reads its operands from 32 bytes of its own, which %x1 points to and which the
instructions may use as memory from byte 24 on.
"""

import ctypes
import itertools
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

THREADS = 96
CASES_A_MODULE = 150


def float_bits(value, code="<f"):
    """A number as the bits of a float."""
    return int.from_bytes(struct.pack(code, value), "little")


def integers(bits):
    """Where something changes, for integers of a width."""
    top = 1 << bits
    return [0, 1, 2, 3, 7, 8, 15, 31, 32, 33, 100, 255, 0x5a5a5a5a5a5a5a5a % top, top // 2 - 1, top // 2, top // 2 + 1,
            top - 1, top - 2, top - 8, top - 100, 0x123456789abcdef0 % top, 0x80808080 % top, 0x7fff, 0x8000]


F32 = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x40490fdb, 0x3f000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
       0x7f7fffff, 0xff7fffff, 1, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x3f800001, 0x3f7fffff, 0x4b000000,
       0x4b800001, 0x3fc00000, 0xc0200000, 0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000, 0xdf800000, 0x3eaaaaab,
       0x33800000, 0x7e800000, 0x01000000, 0xc2c80000, 0x437f8000, 0x47800000]
F64 = [0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x400921fb54442d18, 0x3fe0000000000000, 0x7ff0000000000000,
       0xfff0000000000000, 0x7ff8000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 1, 0x8000000000000001,
       0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000001, 0x3fefffffffffffff, 0x41dfffffffc00000,
       0x41e0000000000000, 0xc1e0000000200000, 0x43e0000000000000, 0xc3e0000000000000, 0x3fd5555555555555,
       0x3810000000000000, 0x36a0000000000001, 0x47efffffe0000000, 0x47effffff0000000, 0x3ff8000000000000,
       0xc004000000000000, 0x40effc0000000000, 0x3e70000000000000, 0x4340000000000001]
F16 = [0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0xfbff, 1, 0x8001, 0x03ff, 0x0400, 0x8400,
       0x3c01, 0x3bff, 0x3555, 0x4248, 0x6400, 0x6401, 0x5640, 0xd640, 0x1400, 0x3e00]
BF16 = [0, 0x8000, 0x3f80, 0xbf80, 0x3f00, 0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f, 1, 0x8001, 0x007f, 0x0080, 0x8080,
        0x3f81, 0x3f7f, 0x3eab, 0x4049, 0x4b00, 0x4b01, 0x42c8, 0xc2c8, 0x3380, 0x3fc0]


def pairs(halves):
    """Two halves in a word."""
    return [low | high << 16 for low, high in zip(halves, halves[5:] + halves[:5])]


TABLES = {
    "8": [x for x in integers(8)], "16": integers(16), "32": integers(32), "64": integers(64),
    "shift": [0, 1, 4, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0xffffffff, 0x100001],
    "small": [0, 1, 2, 3, 4, 5, 0x3210, 0x7654, 0xba98, 0xfedc, 0x0123, 0x8888, 0x1111],
    "p": [0, 1, 1, 0, 1], "f32": F32, "f64": F64, "f16": F16, "bf16": BF16, "f16x2": pairs(F16),
    "bf16x2": pairs(BF16),
    "angle": [0, 0x3f800000, 0xbf800000, 0x40490fdb, 0x3f000000, 0x40c90fdb, 0x38d1b717, 0xc0000000],
}
BYTES = {"p": 1, "b16": 2, "b32": 4, "b64": 8}


def pick(table, thread, which):
    """The value of a thread's operand. The test does the same."""
    values = TABLES[table]
    count = len(values)
    return values[(thread * (1, 7, 5)[which] + thread // count * (0, 1, 3)[which]) % count]


def register_of(name):
    """The register that holds values of a type."""
    return {"8": "b16", "16": "b16", "32": "b32", "64": "b64", "shift": "b32", "small": "b32", "p": "p", "f32": "b32",
            "f64": "b64", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "angle": "b32"}[name]


CASES = []


def case(result, operands, text, how="exact"):
    """One more."""
    CASES.append((result, [f"{o}/{register_of(o)}" if "/" not in o else o for o in operands.split()], how, text))


def width(kind):
    """s32 -> 32"""
    return kind.lstrip("usbf")


def integer_cases():
    """Arithmetic of integers."""
    for kind in ("s16", "u16", "s32", "u32", "s64", "u64"):
        w = width(kind)
        reg, two, three = "b" + w, f"{w} {w}", f"{w} {w} {w}"
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            case(reg, two, f"{op}.{kind} %d, %a, %b;")
        for op in ("mad.lo", "mad.hi", "sad"):
            case(reg, three, f"{op}.{kind} %d, %a, %b, %c;")
        case(reg, f"{w} shift", f"shr.{kind} %d, %a, %b;")
        if kind[0] == "s":
            for op in ("abs", "neg"):
                case(reg, w, f"{op}.{kind} %d, %a;")
        if w != "64":
            wide = "32" if w == "16" else "64"
            case("b" + wide, two, f"mul.wide.{kind} %d, %a, %b;")
            case("b" + wide, f"{two} {wide}", f"mad.wide.{kind} %d, %a, %b, %c;")
        if w != "16":
            case(reg, three, f"add.cc.{kind} %d, %a, %b; addc.{kind} %d, %b, %c;")
            case(reg, three, f"sub.cc.{kind} %d, %a, %b; subc.{kind} %d, %b, %c;")
            case(reg, three, f"mad.lo.cc.{kind} %d, %a, %b, %c; madc.hi.{kind} %d, %a, %b, %c;")
            case(reg, f"{w} small small", f"bfe.{kind} %d, %a, %b, %c;")
            case(reg, f"{w} shift shift", f"bfe.{kind} %d, %a, %b, %c;")
            case("b32", w, f"bfind.{kind} %d, %a;")
            case("b32", w, f"bfind.shiftamt.{kind} %d, %a;")
    for op in ("add.sat", "sub.sat"):
        case("b32", "32 32", f"{op}.s32 %d, %a, %b;")
    case("b32", "32 32 32", "mad.hi.sat.s32 %d, %a, %b, %c;")
    for kind, half in itertools.product(("s32", "u32"), ("lo", "hi")):
        case("b32", "32 32", f"mul24.{half}.{kind} %d, %a, %b;")
        case("b32", "32 32 32", f"mad24.{half}.{kind} %d, %a, %b, %c;")
    case("b32", "32 32 32", "mad24.hi.sat.s32 %d, %a, %b, %c;")
    for a, b in itertools.product(("s32", "u32"), repeat=2):
        case("b32", "32 32 32", f"dp4a.{a}.{b} %d, %a, %b, %c;")
        case("b32", "32 32 32", f"dp2a.lo.{a}.{b} %d, %a, %b, %c;")
        case("b32", "32 32 32", f"dp2a.hi.{a}.{b} %d, %a, %b, %c;")
    for kind in ("s16x2", "u16x2"):
        for op in ("add", "min", "max"):
            case("b32", "32 32", f"{op}.{kind} %d, %a, %b;")
    case("b32", "32 32", "min.relu.s16x2 %d, %a, %b;")


def bit_cases():
    """Bits."""
    for w in ("16", "32", "64"):
        for op in ("and", "or", "xor"):
            case("b" + w, f"{w} {w}", f"{op}.b{w} %d, %a, %b;")
        for op in ("not", "cnot"):
            case("b" + w, w, f"{op}.b{w} %d, %a;")
        case("b" + w, f"{w} shift", f"shl.b{w} %d, %a, %b;")
        case("b" + w, f"{w} {w} p", f"selp.b{w} %d, %a, %b, %c;")
        case("b" + w, f"{w} {w} 32", f"slct.b{w}.s32 %d, %a, %b, %c;")
        case("b" + w, f"{w} {w} f32", f"slct.b{w}.f32 %d, %a, %b, %c;")
        case("b" + w, f"{w} {w} f32", f"slct.ftz.b{w}.f32 %d, %a, %b, %c;")
    for op in ("and", "or", "xor"):
        case("p", "p p/p", f"{op}.pred %d, %a, %b;")
    case("p", "p", "not.pred %d, %a;")
    for w in ("32", "64"):
        for op in ("popc", "clz"):
            case("b32", w, f"{op}.b{w} %d, %a;")
        case("b" + w, w, f"brev.b{w} %d, %a;")
        for c in ("0x0508", "0x2000", "0xff1f", "0x0020", "0x0110", "0x4000"):
            position, length = int(c, 16) & 255, int(c, 16) >> 8
            case("b" + w, f"{w} {w}", f"bfi.b{w} %d, %a, %b, {position}, {length};")
        case("b" + w, f"{w} {w} shift", f"bfi.b{w} %d, %a, %b, %c, %c;")
    for direction, mode in itertools.product("lr", ("wrap", "clamp")):
        case("b32", "32 32 shift", f"shf.{direction}.{mode}.b32 %d, %a, %b, %c;")
    for table in (0x80, 0xfe, 0x96, 0x1b, 0xca, 0xe8, 0, 255):
        case("b32", "32 32 32", f"lop3.b32 %d, %a, %b, %c, {table};")
    case("b32", "32 32 small", "prmt.b32 %d, %a, %b, %c;")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        case("b32", "32 32 small", f"prmt.b32.{mode} %d, %a, %b, %c;")
    case("b32", "32 small", "{ .reg .b32 %q; and.b32 %q, %b, 31; fns.b32 %d, %a, %q, 1; }")
    case("b32", "32 small", "{ .reg .b32 %q; and.b32 %q, %b, 31; fns.b32 %d, %a, %q, -2; }")
    case("b32", "32 small", "{ .reg .b32 %q; and.b32 %q, %b, 31; fns.b32 %d, %a, %q, 0; }")
    for mode in ("clamp", "wrap"):
        case("b32", "shift shift", f"bmsk.{mode}.b32 %d, %a, %b;")
        case("b32", "32 shift", f"szext.{mode}.s32 %d, %a, %b;")
        case("b32", "32 shift", f"szext.{mode}.u32 %d, %a, %b;")


def compare_cases():
    """Comparisons."""
    signed, unsigned = ("eq", "ne", "lt", "le", "gt", "ge"), ("eq", "ne", "lo", "ls", "hi", "hs", "lt", "ge")
    floats = signed + ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    kinds = [(k, signed, width(k)) for k in ("s16", "s32", "s64")]
    kinds += [(k, unsigned, width(k)) for k in ("u16", "u32", "u64")]
    kinds += [("f32", floats, "f32"), ("ftz.f32", floats, "f32"), ("f64", floats, "f64"), ("f16", floats, "f16"),
              ("ftz.f16", ("lt", "eq", "ge"), "f16"), ("bf16", floats, "bf16")]
    for kind, comparisons, table in kinds:
        for how in comparisons:
            case("p", f"{table} {table}", f"setp.{how}.{kind} %d, %a, %b;")
        for op in ("and", "or", "xor"):
            case("p", f"{table} {table} p", f"setp.{comparisons[0]}.{op}.{kind} %d, %a, %b, %c;")
        if "f16" not in kind:
            for to, reg in (("u32", "b32"), ("s32", "b32"), ("f32", "b32")):
                ftz, plain = ("ftz.", kind[4:]) if kind.startswith("ftz") else ("", kind)
                case(reg, f"{table} {table}", f"set.{comparisons[2]}.{ftz}{to}.{plain} %d, %a, %b;")
                case(reg, f"{table} {table} p", f"set.{comparisons[1]}.xor.{ftz}{to}.{plain} %d, %a, %b, %c;")
        if "f16" not in kind:
            case("p", f"{table} {table}", "{ .reg .pred %q; setp." + f"{comparisons[2]}.{kind} %d|%q, %a, %b; " +
                 "xor.pred %d, %d, %q; }")
    for kind, table in (("f16x2", "f16x2"), ("bf16x2", "bf16x2")):
        case("p", f"{table} {table}", "{ .reg .pred %q; setp.lt." + kind + " %d|%q, %a, %b; and.pred %d, %d, %q; }")
        case("p", f"{table} {table}", "{ .reg .pred %q; setp.geu." + kind + " %d|%q, %a, %b; or.pred %d, %d, %q; }")
    case("b32", "f16x2 f16x2", "set.lt.f16x2.f16x2 %d, %a, %b;")
    case("b32", "f16 f16", "set.le.u32.f16 %d, %a, %b;")
    case("b16", "f16 f16", "set.gt.f16.f16 %d, %a, %b;")
    modes = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    for kind, mode in itertools.product(("f32", "f64"), modes):
        case("p", kind, f"testp.{mode}.{kind} %d, %a;")


def float_cases():
    """IEEE operations, in all rounding modes."""
    for rounding, flush, saturate in itertools.product(("rn", "rz", "rm", "rp"), ("", ".ftz"), ("", ".sat")):
        for op in ("add", "sub", "mul"):
            case("b32", "f32 f32", f"{op}.{rounding}{flush}{saturate}.f32 %d, %a, %b;")
        case("b32", "f32 f32 f32", f"fma.{rounding}{flush}{saturate}.f32 %d, %a, %b, %c;")
        if not saturate:
            case("b32", "f32 f32", f"div.{rounding}{flush}.f32 %d, %a, %b;")
            case("b32", "f32", f"sqrt.{rounding}{flush}.f32 %d, %a;")
            case("b32", "f32", f"rcp.{rounding}{flush}.f32 %d, %a;")
    for rounding in ("rn", "rz", "rm", "rp"):
        for op in ("add", "sub", "mul", "div"):
            case("b64", "f64 f64", f"{op}.{rounding}.f64 %d, %a, %b;", "nan")
        case("b64", "f64 f64 f64", f"fma.{rounding}.f64 %d, %a, %b, %c;", "nan")
        case("b64", "f64", f"sqrt.{rounding}.f64 %d, %a;", "nan")
        case("b64", "f64", f"rcp.{rounding}.f64 %d, %a;", "nan")
    for op, flush, mode in itertools.product(("min", "max"), ("", ".ftz"), ("", ".NaN")):
        case("b32", "f32 f32", f"{op}{flush}{mode}.f32 %d, %a, %b;")
    for op in ("min", "max"):
        case("b64", "f64 f64", f"{op}.f64 %d, %a, %b;", "nan")
    for op, flush in itertools.product(("abs", "neg"), ("", ".ftz")):
        case("b32", "f32", f"{op}{flush}.f32 %d, %a;", "nan")
    for op in ("abs", "neg"):
        case("b64", "f64", f"{op}.f64 %d, %a;", "nan")
    case("b32", "f32 f32", "copysign.f32 %d, %a, %b;")
    case("b64", "f64 f64", "copysign.f64 %d, %a, %b;")
    for kind, reg in (("f16", "b16"), ("f16x2", "b32"), ("bf16", "b16"), ("bf16x2", "b32")):
        flushes = ("", ".ftz") if kind[0] == "f" else ("",)
        for op, flush in itertools.product(("add", "sub", "mul"), flushes):
            case(reg, f"{kind} {kind}", f"{op}.rn{flush}.{kind} %d, %a, %b;")
        for op, mode in itertools.product(("min", "max"), ("", ".NaN")):
            case(reg, f"{kind} {kind}", f"{op}{mode}.{kind} %d, %a, %b;")
        for op in ("abs", "neg"):
            case(reg, kind, f"{op}.{kind} %d, %a;", "nan")
        for flag in ("", ".relu") + ((".ftz", ".sat") if kind[0] == "f" else ()):
            case(reg, f"{kind} {kind} {kind}", f"fma.rn{flag}.{kind} %d, %a, %b, %c;")


def approximate_cases():
    """Approximations: within so many units in the last place, or so close."""
    for flush in ("", ".ftz"):
        case("b32", "f32 f32", f"div.full{flush}.f32 %d, %a, %b;", "ulp 4")
        case("b32", "f32", f"rcp.approx{flush}.f32 %d, %a;", "ulp 2")
        case("b32", "f32", f"sqrt.approx{flush}.f32 %d, %a;", "ulp 4")
        case("b32", "f32", f"rsqrt.approx{flush}.f32 %d, %a;", "ulp 4")
        case("b32", "angle", f"sin.approx{flush}.f32 %d, %a;", "near 21")
        case("b32", "angle", f"cos.approx{flush}.f32 %d, %a;", "near 21")
        case("b32", "f32", f"lg2.approx{flush}.f32 %d, %a;", "near 22")
        case("b32", "f32", f"ex2.approx{flush}.f32 %d, %a;", "ulp 8")
    case("b32", "f32", "tanh.approx.f32 %d, %a;", "near 10")
    case("b64", "f64", "rcp.approx.ftz.f64 %d, %a;", "high 20")
    case("b64", "f64", "rsqrt.approx.ftz.f64 %d, %a;", "high 20")


def convert_cases():
    """Conversions between everything, in all rounding modes."""
    tables = {k: (k if k[0] in "fb" else width(k)) for k in
              ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")}
    ints = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    regs = {k: register_of(t) for k, t in tables.items()}
    for to, source in itertools.product(ints, repeat=2):
        if to == source and to[1:] == "8":
            continue
        case(regs[to], tables[source], f"cvt.{to}.{source} %d, %a;")
        wider = int(width(to)) > int(width(source))
        if to != source and not (wider and (source[0] == "u" or to[0] == "s")):  # not where everything fits
            case(regs[to], tables[source], f"cvt.sat.{to}.{source} %d, %a;")
    for to, source, rounding in itertools.product(("f16", "f32", "f64"), ints, ("rn", "rz", "rm", "rp")):
        case(regs[to], tables[source], f"cvt.{rounding}.{to}.{source} %d, %a;")
    for to, source, rounding in itertools.product(ints, ("f16", "f32", "f64"), ("rni", "rzi", "rmi", "rpi")):
        case(regs[to], tables[source], f"cvt.{rounding}.{to}.{source} %d, %a;")
        if source == "f32" and rounding == "rzi":
            case(regs[to], tables[source], f"cvt.{rounding}.ftz.{to}.{source} %d, %a;")
    for rounding, flush, saturate in itertools.product(("rn", "rz", "rm", "rp"), ("", ".ftz"), ("", ".sat")):
        case("b32", "f64", f"cvt.{rounding}{flush}{saturate}.f32.f64 %d, %a;")
    for rounding in ("rn", "rz", "rm", "rp"):
        case("b16", "f64", f"cvt.{rounding}.f16.f64 %d, %a;")
    for rounding in ("rn", "rz"):
        case("b16", "f32", f"cvt.{rounding}.f16.f32 %d, %a;")
        case("b16", "f32", f"cvt.{rounding}.bf16.f32 %d, %a;")
        case("b32", "f32 f32", f"cvt.{rounding}.f16x2.f32 %d, %a, %b;")
        case("b32", "f32 f32", f"cvt.{rounding}.relu.bf16x2.f32 %d, %a, %b;")
    case("b16", "f32", "cvt.rn.sat.f16.f32 %d, %a;")
    case("b32", "f32", "cvt.rna.tf32.f32 %d, %a;", "nan")
    for source in ("f16", "bf16"):
        case("b32", source, f"cvt.f32.{source} %d, %a;")
    case("b64", "f16", "cvt.f64.f16 %d, %a;", "nan")
    for flag in ("", ".ftz", ".sat", ".ftz.sat"):
        case("b64", "f32", f"cvt{flag}.f64.f32 %d, %a;", "nan")
        case("b32", "f32", f"cvt{flag}.f32.f32 %d, %a;", "nan")
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        case("b32", "f32", f"cvt.{rounding}.f32.f32 %d, %a;")
        case("b32", "f32", f"cvt.{rounding}.ftz.sat.f32.f32 %d, %a;")
        case("b64", "f64", f"cvt.{rounding}.f64.f64 %d, %a;", "nan")
        case("b16", "f16", f"cvt.{rounding}.f16.f16 %d, %a;", "nan")


def memory_cases():
    """Loads and stores of all widths, and atomics on a thread's own word."""
    for kind, reg in (("u8", "b16"), ("s8", "b16"), ("u8", "b32"), ("s8", "b32"), ("s8", "b64"), ("u16", "b32"),
                      ("s16", "b32"), ("s16", "b64"), ("s32", "b64"), ("u32", "b64"), ("b8", "b32"), ("b16", "b64")):
        case(reg, "64", f"st.global.b64 [%x1+24], %a; ld.global.{kind} %d, [%x1+25-1];")
    case("b32", "32 32", "st.global.v2.b32 [%x1+24], {%a, %b}; { .reg .b64 %q; ld.global.b64 %q, [%x1+24]; "
                         "shr.u64 %q, %q, 8; cvt.u32.u64 %d, %q; }")
    case("b64", "32 32", "mov.b64 %d, {%a, %b};")
    case("b32", "16 16", "mov.b32 %d, {%a, %b};")
    case("b32", "64", "{ .reg .b32 %q; mov.b64 {%q, %d}, %a; xor.b32 %d, %d, %q; }")
    case("b64", "16 16", "mov.b64 %d, {%a, %b, %b, %a};")
    atomics = [(op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")]
    sums = ("u32", "s32", "u64", "f32", "f64", "noftz.f16x2", "noftz.bf16x2", "noftz.f16", "noftz.bf16")
    atomics += [("add", kind) for kind in sums]
    atomics += [(op, "u32") for op in ("inc", "dec")]
    atomics += [(op, kind) for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64")]
    for op, kind in atomics:
        bare = kind.split(".")[-1]
        table = bare if bare[0] == "f" or bare.startswith("bf") else width(bare)
        reg = register_of(table)
        how = "nan" if bare == "f64" else "exact"
        case(reg, f"{table} {table}", f"st.global.{reg} [%x1+24], %a; atom.global.{op}.{kind} %d, [%x1+24], %b; "
                                      f"ld.global.{reg} %d, [%x1+24];", how)
        case(reg, f"{table} {table}", f"st.global.{reg} [%x1+24], %a; atom.global.{op}.{kind} %d, [%x1+24], %b;", how)
        if not bare.startswith("bf") and bare != "f16":
            case(reg, f"{table} {table}", f"st.global.{reg} [%x1+24], %a; red.global.{op}.{kind} [%x1+24], %b; "
                                          f"ld.global.{reg} %d, [%x1+24];" if op != "exch" else
                 f"st.global.{reg} [%x1+24], %a; ld.global.nc.{reg} %d, [%x1]; ld.global.{reg} %d, [%x1+24];", how)
            case(reg, f"{table} {table}", "{ .shared .align 8 .b64 sh[96]; .reg .b32 %s; mov.u32 %s, sh; "
                                          f"mad.lo.u32 %s, %t0, 8, %s; st.shared.{reg} [%s], %a; "
                                          f"atom.shared.{op}.{kind} %d, [%s], %b; ld.shared.{reg} %d, [%s]; " "}", how)
    shared = ("{ .shared .align 16 .b8 sh[1536]; .reg .b32 %s; .reg .b64 %g; mov.u32 %s, sh; "
              "mad.lo.u32 %s, %t0, 16, %s; ")
    for count, kept in itertools.product((4, 8, 16), (0, 1, 4, 7, 8, 12, 16)):
        if kept <= count:
            case("b64", "64 64", shared + f"cp.async.ca.shared.global [%s], [%x1], {count}, {kept}; "
                                          "cp.async.commit_group; cp.async.wait_group 0; "
                                          f"ld.shared.b32 %t1, [%s+{count - 4}]; ld.shared.b32 %t2, [%s]; "
                                          "mov.b64 %d, {%t1, %t2}; }")
    for space in ("global", "shared", "local", "const"):
        case("p", "32", shared + f"cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g; isspacep.{space} %d, %g; " "}")
        case("p", "32", f"isspacep.{space} %d, %x1;")
    case("b32", "32", shared + "cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g; st.b32 [%g+4], %a; "
                               "cvta.to.shared.u64 %g, %g; ld.shared.b32 %d, [%g+4]; }")
    for w in ("16", "32", "64"):
        case("b" + w, f"{w} {w} {w}", f"st.global.b{w} [%x1+24], %a; atom.global.cas.b{w} %d, [%x1+24], %b, %c; "
                                      f"ld.global.b{w} %d, [%x1+24];")


def warp_cases():
    """What the threads of a warp do together: three whole warps."""
    for mode, c in itertools.product(("up", "down", "bfly", "idx"), ("0", "0x1f", "0x181f", "0x1800", "0x1c03")):
        case("b32", "32 shift", f"shfl.sync.{mode}.b32 %d, %a, %b, {c}, 0xffffffff;")
        case("p", "32 shift", "{ .reg .b32 %q; shfl.sync." + f"{mode}.b32 %q|%d, %a, %b, {c}, 0xffffffff; " + "}")
    for mode in ("all", "any", "uni"):
        case("p", "p", f"vote.sync.{mode}.pred %d, %a, 0xffffffff;")
    case("b32", "p", "vote.sync.ballot.b32 %d, %a, 0xffffffff;")
    for w in ("32", "64"):
        case("b32", w, f"match.any.sync.b{w} %d, %a, 0xffffffff;")
        case("b32", w, "{ .reg .pred %q; match.all.sync.b" + w + " %d|%q, %a, 0xffffffff; }")
    for op, kind in [(op, k) for op in ("add", "min", "max") for k in ("u32", "s32")] + \
            [(op, "b32") for op in ("and", "or", "xor")]:
        case("b32", "32", f"redux.sync.{op}.{kind} %d, %a, 0xffffffff;")
    case("b32", "32", "activemask.b32 %d;")
    case("b32", "32", "mov.u32 %d, %laneid;")
    for which in ("eq", "le", "lt", "ge", "gt"):
        case("b32", "32", f"mov.u32 %d, %lanemask_{which};")


def kernel(number, chosen):
    """A case as a kernel."""
    result, operands, _, text = chosen
    lines = [f".visible .entry case_{number}(.param .u64 in, .param .u64 out)", "{",
             ".reg .b64 %x<3>; .reg .b32 %t<4>; .reg .pred %pp;"]
    for name, register in zip("dabc", [result] + [o.split("/")[1] for o in operands]):
        lines.append(f".reg .{'pred' if register == 'p' else register} %{name};")
    lines += ["mov.u32 %t0, %tid.x; mul.wide.u32 %x0, %t0, 32; ld.param.u64 %x1, [in]; add.u64 %x1, %x1, %x0;",
              "ld.param.u64 %x2, [out]; mul.wide.u32 %x0, %t0, 8; add.u64 %x2, %x2, %x0;"]
    for i, (name, operand) in enumerate(zip("abc", operands)):
        register = operand.split("/")[1]
        if register == "p":
            lines.append(f"ld.global.u32 %t1, [%x1+{8 * i}]; setp.ne.u32 %{name}, %t1, 0;")
        else:
            lines.append(f"ld.global.{register} %{name}, [%x1+{8 * i}];")
    lines.append(text)
    if result == "p":
        lines.append("selp.u32 %t2, 1, 0, %d; st.global.u32 [%x2], %t2;")
    else:
        lines.append(f"st.global.{result} [%x2], %d;")
    return "\n".join(lines + ["ret;", "}"])


def module(first):
    """A text with the cases from one on."""
    chosen = CASES[first:first + CASES_A_MODULE]
    return "\n".join([".version 8.0", ".target sm_90", ".address_size 64"] +
                     [kernel(first + i, c) for i, c in enumerate(chosen)]) + "\n"


def assemble(text):
    """Machine code, where there is an assembler; else the text."""
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not pathlib.Path(ptxas).exists():
        return text.encode() + b"\0"
    with tempfile.TemporaryDirectory() as place:
        source, target = pathlib.Path(place, "cases.ptx"), pathlib.Path(place, "cases.cubin")
        source.write_text(text)
        done = subprocess.run([ptxas, "-arch=sm_90", source, "-o", target], check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit("\n".join(done.stderr.splitlines()[:40]))
        return target.read_bytes()


class Driver:
    """The few calls that a launch needs."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.memory_in, self.memory_out = self.allocate(THREADS * 32), self.allocate(THREADS * 8)

    def call(self, name, *arguments):
        """A call that must succeed."""
        status = getattr(self.library, name)(*arguments)
        if status:
            sys.exit(f"{name}: error {status}")

    def allocate(self, size):
        """Memory of the device."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def load(self, image):
        """A module."""
        loaded = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(loaded), image)
        return loaded

    def run(self, loaded, number, inputs):
        """The results of a case."""
        function = ctypes.c_void_p()
        out = (ctypes.c_uint64 * THREADS)()
        self.call("cuModuleGetFunction", ctypes.byref(function), loaded, f"case_{number}".encode())
        self.call("cuMemcpyHtoD_v2", self.memory_in, inputs, ctypes.c_size_t(len(inputs)))
        self.call("cuMemsetD8_v2", self.memory_out, ctypes.c_ubyte(0), ctypes.c_size_t(THREADS * 8))
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(m) for m in (self.memory_in, self.memory_out)))
        self.call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        self.call("cuMemcpyDtoH_v2", out, self.memory_out, ctypes.c_size_t(THREADS * 8))
        return list(out)


def inputs_of(chosen):
    """The operands of all threads, 32 bytes each."""
    image = bytearray()
    for thread in range(THREADS):
        words = [pick(operand.split("/")[0], thread, i) for i, operand in enumerate(chosen[1])]
        image += struct.pack("<4Q", *(words + [0] * (4 - len(words))))
    return bytes(image)


def write(path, folder=None):
    """All cases on the GPU."""
    driver, lines = Driver(), ["# Written by scripts/ptx_golden.py on a GPU; not to be edited."]
    lines += [f"values {name} = " + " ".join(f"{v:x}" for v in values) for name, values in TABLES.items()]
    for first in range(0, len(CASES), CASES_A_MODULE):
        loaded = driver.load(pathlib.Path(folder, f"{first}.cubin").read_bytes() if folder else assemble(module(first)))
        for number in range(first, min(first + CASES_A_MODULE, len(CASES))):
            result, operands, how, text = CASES[number]
            results = driver.run(loaded, number, inputs_of(CASES[number]))
            lines.append(f"case {result} : {' '.join(operands)} : {how} : {text}")
            lines.append("= " + " ".join(f"{r:x}" for r in results))
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} cases")


def digest(data):
    """As generate_digest() of tests/ptx/generate.c."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def run_programs(folder, path):
    """Random programs: tests/ptx/generate.h says how they are launched."""
    blocks, threads, out_bytes = 2, 96, 2 * 96 * 256
    driver, lines = Driver(), ["# Written by scripts/ptx_golden.py on a GPU; not to be edited. Seed and digest."]
    memory_in, memory_out = driver.allocate(2 * 96 * 64), driver.allocate(out_bytes)
    structure, number = (ctypes.c_ubyte * 24)(*(7 * i + 1 & 255 for i in range(24))), ctypes.c_uint32(12345)
    arguments = (ctypes.c_void_p * 4)(*(ctypes.addressof(a) for a in (memory_in, memory_out, structure, number)))
    for source in sorted(pathlib.Path(folder).glob("*.in"), key=lambda p: int(p.stem)):
        cubin, function, out = source.with_suffix(".cubin"), ctypes.c_void_p(), (ctypes.c_ubyte * out_bytes)()
        if not cubin.exists() and not shutil.which("ptxas"):
            continue
        loaded = driver.load(cubin.read_bytes() if cubin.exists() else assemble(source.with_suffix(".ptx").read_text()))
        driver.call("cuModuleGetFunction", ctypes.byref(function), loaded, b"k")
        driver.call("cuMemcpyHtoD_v2", memory_in, source.read_bytes(), ctypes.c_size_t(2 * 96 * 64))
        driver.call("cuMemsetD8_v2", memory_out, ctypes.c_ubyte(0), ctypes.c_size_t(out_bytes))
        driver.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)
        driver.call("cuMemcpyDtoH_v2", out, memory_out, ctypes.c_size_t(out_bytes))
        driver.call("cuModuleUnload", loaded)
        source.with_suffix(".out").write_bytes(bytes(out))
        lines.append(f"{source.stem} {digest(bytes(out)):016x}")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} programs")


def main():
    """What the command line asks for."""
    for add in (integer_cases, bit_cases, compare_cases, float_cases, approximate_cases, convert_cases, memory_cases,
                warp_cases):
        add()
    if len(sys.argv) == 3 and sys.argv[1] == "--assemble":
        pathlib.Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        for first in range(0, len(CASES), CASES_A_MODULE):
            pathlib.Path(sys.argv[2], f"{first}.cubin").write_bytes(assemble(module(first)))
        print(f"{len(CASES)} cases")
    elif len(sys.argv) == 4 and sys.argv[1] == "--programs":
        run_programs(sys.argv[2], sys.argv[3])
    elif len(sys.argv) in (2, 3) and not sys.argv[1].startswith("-"):
        write(*sys.argv[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

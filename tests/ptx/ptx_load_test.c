/* SPDX-License-Identifier: MIT */
/*
 * Loading: what is refused, with which sentence and line; what a module says of itself; fat binaries.
 */
#include "run.h"

#include "harness.h"

#include <dlfcn.h>

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

static void refuses(const char *body, const char *sentence)
{
	const char *found = run_refusal_of_body(body, NULL);

	if (!strstr(found, sentence))
		printf("%s\n", body);
	ASSERT_STREQ(sentence, found);
}

/* Goal: what is not supported is named, with its line. */
TEST(unsupported_instructions_are_named)
{
	unsigned line = 0;

	ASSERT_STREQ("instruction tex is not supported",
		     run_refusal_of_body("mov.u32 %r1, 1;\n\ntex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}];",
					 &line));
	ASSERT_EQ(8, line);
	refuses("mad.wide.u16x9 %r1, %h1, %h2, %r2;", "instruction mad with .u16x9 is not supported");
	refuses("cp.async.bulk.commit_group;", "instruction cp with .bulk is not supported");
	refuses("redux.add.u32 %r1, %r2, 1;", "instruction redux without .sync is not supported");
	refuses("add.u32 %r1, %r2+1000000, 1;", "a sum as an operand of add");
	refuses("barrier.cluster.arrive;", "this form of instruction barrier is not supported");
	refuses("lop3.and.b32 %r1|%p1, %r1, %r2, %r3, 1, %p2;", "instruction lop3 with .and is not supported");
	ASSERT_STREQ("addresses of other than 64 bits are not supported",
		     run_refusal(".version 7.0\n.target sm_75\n.address_size 32\n", &line));
	ASSERT_EQ(3, line);
	ASSERT_STREQ("textures and surfaces (.texref) are not supported", run_refusal(HEAD ".global .texref t;", NULL));
	ASSERT_STREQ("variable 'x' is of another module: link it first",
		     run_refusal(HEAD ".extern .global .u32 x;", NULL));
}

/* Goal: what breaks PTX's rules is refused. */
TEST(wrong_texts_are_refused)
{
	refuses("add.u32 %r1, %r2, %d1;", "register '%d1' is not of the width that add wants");
	refuses("add.u32 %r1, %r2;", "add with 2 operands");
	refuses("add.u32 %r99, %r2, 1;", "register '%r99' is not declared");
	refuses("bra NOWHERE;", "no label 'NOWHERE'");
	refuses("A: A: ret;", "'A' is declared twice");
	refuses("@%r1 ret;", "'%r1' is not a predicate");
	refuses("mul.u32 %r1, %r1, %r2;", "mul of integers without .lo, .hi or .wide");
	refuses("call g, ();", "a call of something that is not declared");
	refuses("ld.global.v2.u32 %r1, [%d1];", "ld with a vector of another length");
	refuses("bra A B: ret;", "expected ';' before 'B'");
	refuses("mov.u32 %r1, 99999999999999999999;", "a number does not fit 64 bits");
	refuses("/* ", "a comment does not end");
	refuses("setp.lt.u32 %r1, %r2, %r3;", "register '%r1' cannot hold the result of setp");
	ASSERT_STREQ("the text does not begin with .version: it is not PTX", run_refusal("int main() {}", NULL));
	ASSERT_STREQ("the text does not begin with .version: it is not PTX", run_refusal("", NULL));
	ASSERT_STREQ("more first values than the variable has elements",
		     run_refusal(HEAD ".global .u32 x[2] = {1, 2, 3};", NULL));
	ASSERT_STREQ("an alignment of 3", run_refusal(HEAD ".global .align 3 .u32 x;", NULL));
	ASSERT_STREQ("an array of 9223372036854775807 elements",
		     run_refusal(HEAD ".global .u32 x[0x7fffffffffffffff];", NULL));
	ASSERT_STREQ("an array of 4611686018427387904 elements", /* 2^64 bytes */
		     run_refusal(HEAD ".global .u32 x[0x4000000000000000];", NULL));
	ASSERT_STREQ("a function's body does not end", run_refusal(HEAD ".entry k() { ret;", NULL));
}

/* Goal: kernels and variables are listed as they are. */
TEST(contents)
{
	struct run_module module =
		run_load(".version 8.3\n.target sm_80\n.address_size 64\n.visible .global .align 8 .f64 pi = "
			 "0d400921FB54442D18;\n"
			 ".const .align 4 .b8 c[6] = {1, 2, 3};\n.global .attribute(.managed) .u32 m;\n.shared .u32 "
			 "s[10];\n.shared .u64 unused[99];\n"
			 ".func f() { .reg .u32 %r; mov.u32 %r, s; ret; }\n"
			 ".entry one(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 .ptr .global .align 4 p) "
			 ".maxntid 32, 2\n"
			 "{ .local .b8 l[24]; .shared .u16 own; .reg .u32 %r; mov.u32 %r, own; call f; ret; }\n"
			 ".entry two() .reqntid 8, 4, 2 .minnctapersm 2 { ret; }\n");
	const struct cn_ptx_contents *contents = cn_ptx_calls.contents(module.module);
	const struct cn_ptx_kernel *one = &contents->kernels[0], *two = &contents->kernels[1];
	double pi;

	ASSERT_EQ(83, contents->version);
	ASSERT_EQ(80, contents->target);
	ASSERT_EQ(2, contents->kernel_count);
	ASSERT_EQ(3, contents->variable_count);
	ASSERT_STREQ("one", one->name);
	ASSERT_EQ(3, one->parameter_count);
	ASSERT_EQ(16, one->parameters[1].offset_bytes);
	ASSERT_EQ(20, one->parameters[1].bytes);
	ASSERT_EQ(16, one->parameters[1].alignment);
	ASSERT_EQ(40, one->parameters[2].offset_bytes);
	ASSERT_EQ(48, one->parameter_bytes);
	ASSERT_EQ(44, one->shared_bytes); /* its own 2, and 40 of the function that it calls */
	ASSERT_EQ(32, one->local_bytes);
	ASSERT_EQ(64, one->max_threads);
	ASSERT_EQ(0, two->shared_bytes);
	ASSERT_EQ(4, two->required[1]);
	ASSERT(!contents->variables[0].constant && contents->variables[1].constant && contents->variables[2].managed);
	memcpy(&pi, run_variable(&module, "pi"), sizeof pi);
	ASSERT(pi > 3.14159 && pi < 3.1416);
	ASSERT(!memcmp(run_variable(&module, "c"), "\1\2\3\0\0\0", 6));
	run_unload(&module);
}

/* ---- Fat binaries ------------------------------------------------------------------------------------------------ */

static unsigned char image[16384];

static void put(size_t at, uint64_t value, size_t bytes)
{
	memcpy(image + at, &value, bytes);
}

/* An entry at the end of the image, whose length it returns anew. */
static size_t add_entry(size_t at, unsigned kind, unsigned architecture, uint64_t flags, const void *bytes,
			size_t count, size_t uncompressed)
{
	size_t padded = (count + 7) & ~(size_t)7;

	memset(image + at, 0, 64 + padded);
	put(at, kind, 2);
	put(at + 4, 64, 4);
	put(at + 8, padded, 8);
	put(at + 16, flags ? count : 0, 4);
	put(at + 28, architecture, 4);
	put(at + 40, flags, 8);
	put(at + 56, uncompressed, 8);
	memcpy(image + at + 64, bytes, count);
	put(0, 0xBA55ED50, 4);
	put(4, 1, 2);
	put(6, 16, 2);
	put(8, at + 64 + padded - 16, 8);
	return at + 64 + padded;
}

static const char *load_image(const void *at, size_t bytes, unsigned *ret_target)
{
	static struct cn_ptx_error error;
	struct cn_ptx_module *module;

	if (cn_ptx_calls.load(at, bytes, 85, &error, &module))
		return error.sentence;
	*ret_target = cn_ptx_calls.contents(module)->target;
	cn_ptx_calls.unload(module);
	return "";
}

#define TEXT(target) ".version 7.0\n.target sm_" target "\n.address_size 64\n.entry k() { ret; }\n"

/* Goal: the best PTX of a fat binary is taken, also behind both kinds of wrapper. */
TEST(fat_binaries)
{
	unsigned target = 0;
	size_t length = add_entry(16, 2, 75, 0, "machine code", 12, 0);
	const void *list[] = {image, NULL};
	struct {
		uint32_t magic, version;
		const void *data, *list;
	} wrapper = {0x466243B1, 1, image, NULL}, linked = {0x466243B1, 2, NULL, list};

	ASSERT(strstr(load_image(image, length, &target), "machine code and no PTX"));
	length = add_entry(length, 1, 75, 0, TEXT("75"), sizeof TEXT("75"), 0);
	length = add_entry(length, 1, 80, 0, TEXT("80"), sizeof TEXT("80"), 0);
	length = add_entry(length, 1, 90, 0, TEXT("90"), sizeof TEXT("90"), 0);
	ASSERT_STREQ("", load_image(image, length, &target));
	ASSERT_EQ(80, target);
	target = 0;
	ASSERT_STREQ("", load_image(image, SIZE_MAX, &target));
	ASSERT_STREQ("", load_image(&wrapper, SIZE_MAX, &target));
	ASSERT_EQ(80, target);
	target = 0;
	ASSERT_STREQ("", load_image(&linked, sizeof linked, &target));
	ASSERT_EQ(80, target);
	ASSERT_STREQ("a fat binary that is shorter than its header says", load_image(image, length - 1, &target));
	put(16 + 8, UINT64_MAX, 8);
	ASSERT_STREQ("a fat binary with an entry that is longer than itself", load_image(image, length, &target));
}

/* Goal: compressed PTX, by the system's libraries. */
TEST(compressed_entries)
{
	static const struct {
		const char *file, *function;
		uint64_t flag;
	} kinds[] = {{"libzstd.so.1", "ZSTD_compress", 0x8000}, {"liblz4.so.1", "LZ4_compress_default", 0x2000}};
	static const char text[] =
		TEXT("75") "// a comment that repeats itself, a comment that repeats itself, a comment that repeats "
			   "itself\n";
	unsigned tried = 0;

	for (unsigned i = 0; i < 2; i++) {
		void *library = dlopen(kinds[i].file, RTLD_NOW),
		     *function = library ? dlsym(library, kinds[i].function) : NULL;
		static char packed[4096];
		unsigned target = 0;
		size_t length;

		if (!function)
			continue;
		tried++;
		if (i == 0) {
			size_t (*compress)(void *, size_t, const void *, size_t, int);

			memcpy(&compress, &function, sizeof compress);
			length = compress(packed, sizeof packed, text, sizeof text, 3);
		} else {
			int (*compress)(const char *, char *, int, int);

			memcpy(&compress, &function, sizeof compress);
			length = (size_t)compress(text, packed, sizeof text, sizeof packed);
		}
		ASSERT(length > 0 && length < sizeof text);
		length = add_entry(16, 1, 75, kinds[i].flag, packed, length, sizeof text);
		ASSERT_STREQ("", load_image(image, length, &target));
		ASSERT_EQ(75, target);
		image[16 + 64 + 9] ^= 0x55;
		image[16 + 64] ^= 0xff;
		ASSERT(*load_image(image, length, &target));
	}
	if (!tried)
		SKIP("neither zstd nor LZ4 is installed");
}

/* SPDX-License-Identifier: MIT */
/*
 * Random programs (generate.h): all builds of the arithmetic agree with each other, and with what a GPU gave.
 */
#include "run.h"

#include "generate.h"
#include "harness.h"

static unsigned char input[GENERATE_ALL_IN_BYTES], output[GENERATE_ALL_OUT_BYTES];

struct parameters {
	uint64_t in, out;
	unsigned char structure[GENERATE_STRUCT_BYTES];
	uint32_t number;
};

/* The digest of what a seed's program writes, with one build of the arithmetic. */
static uint64_t run_seed(uint64_t seed, const char *build, uint64_t budget)
{
	char *text = generate_text(seed);
	struct run_module module = run_load(text);
	struct parameters parameters = {(uintptr_t)input, (uintptr_t)output, {0}, GENERATE_NUMBER};
	struct cn_ptx_fault fault = {0};
	enum cn_ptx_state state;

	ASSERT(cn_ptx_calls.choose(build));
	for (unsigned i = 0; i < GENERATE_STRUCT_BYTES; i++)
		parameters.structure[i] = (unsigned char)(7 * i + 1);
	generate_input(seed, input);
	memset(output, 0, sizeof output);
	state = run_launch(&module,
			   &(struct run_launch){.grid = {GENERATE_BLOCKS},
						.block = {GENERATE_THREADS},
						.parameters = &parameters,
						.budget = budget},
			   &fault);
	if (state != CN_PTX_DONE)
		printf("seed %llu: state %d at line %u, block %u, thread %u\n", (unsigned long long)seed, state,
		       fault.line, fault.block[0], fault.thread[0]);
	ASSERT_EQ(CN_PTX_DONE, state);
	run_unload(&module);
	free(text);
	return generate_digest(output, sizeof output);
}

/* Goal: each kept program gives what the GPU gave. */
TEST(programs_as_on_the_gpu, .timeout_ms = 300000)
{
	FILE *file = fopen(PTX_PROGRAMS, "r");
	unsigned long long seed, digest;
	unsigned count = 0, wrong = 0;
	char line[256];

	if (!file)
		SKIP("no golden results: scripts/ptx_golden.py writes them on a machine with a GPU");
	while (fgets(line, sizeof line, file)) {
		if (line[0] == '#')
			continue;
		ASSERT_EQ(2, sscanf(line, "%llu %llx", &seed, &digest));
		count++;
		if (run_seed(seed, NULL, 0) != digest && wrong++ < 12)
			printf("seed %llu differs\n", seed);
	}
	fclose(file);
	printf("%u programs, %u differ\n", count, wrong);
	ASSERT(count >= 200);
	ASSERT_EQ(0, wrong);
}

/* Goal: programs that nobody has seen give the same on all builds, however short the turns of the blocks are. */
TEST(builds_agree, .timeout_ms = 300000)
{
	static const char *const builds[] = {"plain", "avx2", "avx512"};
	uint64_t first = test_seed() % 1000000000;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t seed = first + i, expected = run_seed(seed, "plain", 0);

		for (unsigned k = 0; k < 3; k++)
			if (cn_ptx_calls.choose(builds[k]) && run_seed(seed, builds[k], 7 + k) != expected) {
				printf("seed %llu differs with %s\n", (unsigned long long)seed, builds[k]);
				ASSERT(!"all builds agree");
			}
	}
}

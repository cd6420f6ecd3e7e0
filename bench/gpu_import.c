/* SPDX-License-Identifier: MIT */
/*
 * How long a pool of another process takes to become usable: import it, and its first pointer.
 *
 *     gpu_import [--json FILE]
 *
 * Over the libcuda.so.1 that it finds: NVIDIA's pools, or under `cenote run` Cenote's, on a GPU or on the host device.
 *
 * One process exports pools with a block each, another imports them: the very first one, then the next ones without a
 * pause, then more of them with pauses, in which both processes sleep and their caches are lost. Then it destroys and
 * imports one pool again and again. It writes a word through the first of them, so that a mapping that is not there is
 * found out.
 */
#include "gpu.h"

enum { NEXT = 24, POOLS = 1 + 2 * NEXT, AGAIN = 24, BLOCK_BYTES = 1 << 20, NEXT_PAUSE_MS = 10, AGAIN_PAUSE_MS = 5 };

static const char *const rows[] = {"the very first pool", "the next pool, at once", "the next pool, after 10 ms",
				   "the same pool again, at once", "the same pool again, after 5 ms"};
enum { FIRST_ROW, NEXT_ROW, NEXT_PAUSED_ROW, AGAIN_ROW, AGAIN_PAUSED_ROW, ROWS };

/* Median and minimum of a row: the pool alone, and with its first pointer. */
struct answer {
	struct bench_result pool, both;
};

struct offer {
	int descriptor;
	CUmemPoolPtrExportData data;
};

static void pause_ms(unsigned ms)
{
	const struct timespec time = {.tv_nsec = ms * 1000000L};

	BENCH_MUST(nanosleep(&time, NULL));
}

/* ---- The importer ---- */

struct times {
	double pool[AGAIN], both[AGAIN];
};

static CUmemoryPool import(const struct offer *offer, struct times *times, unsigned at, CUdeviceptr *ret_block)
{
	CUmemPoolPtrExportData data = offer->data;
	uint64_t start_ns = bench_now_ns();
	CUmemoryPool pool = gpu_import(offer->descriptor);
	uint64_t middle_ns = bench_now_ns();

	CU(cuMemPoolImportPointer(ret_block, pool, &data));
	times->both[at] = (double)(bench_now_ns() - start_ns);
	times->pool[at] = (double)(middle_ns - start_ns);
	return pool;
}

static struct bench_result sum_up(double *each, unsigned count)
{
	qsort(each, count, sizeof *each, bench_compare);
	return (struct bench_result){each[count / 2], each[0]};
}

static struct answer sum_up_both(struct times *times, unsigned count)
{
	return (struct answer){sum_up(times->pool, count), sum_up(times->both, count)};
}

static struct answer import_each(const struct offer *offers, unsigned count, unsigned ms)
{
	struct times times;
	CUdeviceptr block;

	for (unsigned i = 0; i < count; i++) {
		if (ms)
			pause_ms(ms);
		import(&offers[i], &times, i, &block);
	}
	return sum_up_both(&times, count);
}

static struct answer import_again(const struct offer *offer, CUstream stream, unsigned ms)
{
	struct times times;

	for (unsigned i = 0; i < AGAIN; i++) {
		CUdeviceptr block;
		if (ms)
			pause_ms(ms);
		CUmemoryPool pool = import(offer, &times, i, &block);
		CU(cuMemFreeAsync(block, stream));
		CU(cuStreamSynchronize(stream));
		CU(cuMemPoolDestroy(pool));
	}
	return sum_up_both(&times, AGAIN);
}

static int run_importer(int sock)
{
	static struct offer offers[POOLS];
	struct answer answers[ROWS];
	struct times times;
	CUdeviceptr block;

	gpu_start();
	CUstream stream = gpu_stream();
	gpu_tell(sock, 'r');
	for (unsigned i = 0; i < POOLS; i++) {
		offers[i].descriptor = gpu_receive_descriptor(sock);
		gpu_get(sock, &offers[i].data, sizeof offers[i].data);
	}
	CUmemoryPool pool = import(&offers[0], &times, 0, &block);
	answers[FIRST_ROW] = sum_up_both(&times, 1);
	CU(cuMemsetD32Async(block, 1, 1, stream));
	CU(cuMemFreeAsync(block, stream));
	CU(cuStreamSynchronize(stream));
	answers[NEXT_ROW] = import_each(offers + 1, NEXT, 0);
	answers[NEXT_PAUSED_ROW] = import_each(offers + 1 + NEXT, NEXT, NEXT_PAUSE_MS);
	CU(cuMemPoolDestroy(pool));
	answers[AGAIN_ROW] = import_again(&offers[0], stream, 0);
	answers[AGAIN_PAUSED_ROW] = import_again(&offers[0], stream, AGAIN_PAUSE_MS);
	gpu_put(sock, answers, sizeof answers);
	return 0;
}

/* ---- The exporter ---- */

static void offer(int sock, CUstream stream)
{
	CUmemoryPool pool = gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	struct offer offer = {.descriptor = gpu_export(pool)};
	CUdeviceptr block;

	CU(cuMemAllocFromPoolAsync(&block, BLOCK_BYTES, pool, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemPoolExportPointer(&offer.data, block));
	gpu_send_descriptor(sock, offer.descriptor);
	close(offer.descriptor);
	gpu_put(sock, &offer.data, sizeof offer.data);
}

static void report(const struct answer *answers, const char *whose, const char *json)
{
	FILE *file = json ? fopen(json, "ae") : NULL;

	BENCH_MUST(json && !file);
	printf("%-10s %-34s %14s %14s %10s\n", whose, "microseconds, median", "the pool", "and a pointer", "least");
	for (unsigned i = 0; i < ROWS; i++) {
		printf("%-10s %-34s %14.1f %14.1f %10.1f\n", "", rows[i], answers[i].pool.median_ns / 1e3,
		       answers[i].both.median_ns / 1e3, answers[i].both.minimum_ns / 1e3);
		if (file)
			fprintf(file,
				"{\"whose\": \"%s\", \"name\": \"%s\", \"pool_ns\": %.0f, \"both_ns\": %.0f, "
				"\"least_ns\": %.0f}\n",
				whose, rows[i], answers[i].pool.median_ns, answers[i].both.median_ns,
				answers[i].both.minimum_ns);
	}
	if (file)
		BENCH_MUST(fclose(file));
}

int main(int argc, char **argv)
{
	static char role[] = "importer";
	struct answer answers[ROWS];
	int sock;

	if (gpu_has_role(argc, argv, role, &sock))
		return run_importer(sock);
	if (argc != 1 && (argc != 3 || strcmp(argv[1], "--json") != 0)) {
		fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
		return 2;
	}
	pid_t child = gpu_execute(NULL, role, NULL, &sock);
	gpu_start();
	CUstream stream = gpu_stream();
	gpu_expect(sock, 'r');
	for (unsigned i = 0; i < POOLS; i++)
		offer(sock, stream);
	gpu_get(sock, answers, sizeof answers);
	gpu_await(child);
	report(answers, gpu_cenote.last_error ? "cenote" : "driver", argc == 3 ? argv[2] : NULL);
	return 0;
}

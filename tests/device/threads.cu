/* SPDX-License-Identifier: MIT */
/*
 * Functions of a device by which threads meet: warp functions, atomics, barriers, cooperative groups, loads and stores.
 */
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

#define LANES 32
#define PART  0x00fff0f5u /* some lanes of a warp */

/* Results of a kernel of one block, a row of words a thread. */
template <class Kernel, class... Arguments>
static std::vector<word> rows(Kernel kernel, int threads, int words, Arguments... arguments)
{
	std::vector<word> result(threads * words);
	word *room;
	require(cudaMalloc(&room, result.size() * sizeof(word)), "memory");
	require(cudaMemset(room, 0, result.size() * sizeof(word)), "memory");
	kernel<<<1, threads>>>(room, arguments...);
	require(cudaGetLastError(), "launch");
	require(cudaMemcpy(result.data(), room, result.size() * sizeof(word), cudaMemcpyDeviceToHost), "a kernel");
	require(cudaFree(room), "free");
	return result;
}

__host__ __device__ static word value_of(int lane)
{
	return (word)(lane + 3) * 0x9e3779b97f4a7c15ull ^ 0x3ff0000000000000ull;
}

/*
 * ---- Shuffles -------------------------------------------------------------------------------------------------------
 */

template <class T> __global__ void shuffle(word *out, unsigned int mask, int by, int width)
{
	int lane = threadIdx.x;
	T value = of<T>(value_of(lane));
	if (mask >> lane & 1) {
		out[4 * lane] = bits_of(__shfl_sync(mask, value, by, width));
		out[4 * lane + 1] = bits_of(__shfl_up_sync(mask, value, (unsigned)by, width));
		out[4 * lane + 2] = bits_of(__shfl_down_sync(mask, value, (unsigned)by, width));
		out[4 * lane + 3] = bits_of(__shfl_xor_sync(mask, value, by, width));
	}
}

template <class T> static bool shuffles(void)
{
	bool ok = true;
	for (int width = 2; width <= 32; width *= 2) {
		for (int by = 0; by < width; by += 1 + by / 3) {
			std::vector<word> out = rows(shuffle<T>, LANES, 4, 0xffffffffu, by, width);
			for (int lane = 0; lane < LANES; lane++) {
				int first = lane / width * width, at = lane - first;
				int from[] = {first + by, at >= by ? lane - by : lane,
					      at + by < width ? lane + by : lane, first + (at ^ by)};
				for (int i = 0; i < 4; i++)
					ok &= out[4 * lane + i] == bits_of(of<T>(value_of(from[i])));
			}
		}
	}
	std::vector<word> out = rows(shuffle<T>, LANES, 4, PART, 4, 32);
	for (int lane = 0; lane < LANES; lane++)
		ok &= out[4 * lane] == (PART >> lane & 1 ? bits_of(of<T>(value_of(4))) : 0);
	return ok;
}

/*
 * ---- Votes, matches, reductions -------------------------------------------------------------------------------------
 */

__global__ void votes(word *out, unsigned int mask, unsigned int predicates)
{
	int lane = threadIdx.x, predicate = predicates >> lane & 1;
	if (mask >> lane & 1) {
		word *row = out + 16 * lane;
		int all_same, some_same;
		row[0] = __all_sync(mask, predicate);
		row[1] = __any_sync(mask, predicate);
		row[2] = __uni_sync(mask, predicate);
		row[3] = __ballot_sync(mask, predicate);
		row[4] = __match_any_sync(mask, lane / 3);
		row[5] = __match_any_sync(mask, (double)(lane % 2));
		row[6] = __match_all_sync(mask, 7ll, &all_same);
		row[7] = __match_all_sync(mask, (float)predicate, &some_same);
		row[8] = all_same * 2 + some_same;
		row[9] = __reduce_add_sync(mask, lane - 40);
		row[10] = __reduce_min_sync(mask, lane - 40);
		row[11] = __reduce_max_sync(mask, (unsigned)lane * 0x10000001u);
		row[12] = __reduce_and_sync(mask, 0xf0f0u | lane);
		row[13] = __reduce_or_sync(mask, 1u << lane);
		row[14] = __reduce_xor_sync(mask, (unsigned)lane * 77);
		row[15] = __fns(mask, 0, lane % 5 + 1);
		__syncwarp(mask);
	}
}

static bool votes_are_right(unsigned int mask, unsigned int predicates)
{
	std::vector<word> out = rows(votes, LANES, 16, mask, predicates);
	bool ok = true, all = (predicates & mask) == mask, any = predicates & mask;
	int sum = 0, least = 100;
	unsigned int most = 0, both = ~0u, either = 0, odd = 0;
	for (int lane = 0; lane < LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		unsigned int x = (unsigned)lane * 0x10000001u;
		sum += lane - 40, least = lane - 40 < least ? lane - 40 : least, most = x > most ? x : most;
		both &= 0xf0f0u | lane, either |= 1u << lane, odd ^= (unsigned)lane * 77;
	}
	for (int lane = 0; lane < LANES; lane++) {
		unsigned int thirds = 0, parity = 0, rest = mask;
		for (int other = 0; other < LANES; other++) {
			thirds |= (unsigned)(other / 3 == lane / 3) << other;
			parity |= (unsigned)(other % 2 == lane % 2) << other;
		}
		for (int i = 0; i < lane % 5 && rest; i++)
			rest &= rest - 1;
		word expected[] = {all,
				   any,
				   all || !any,
				   predicates & mask,
				   thirds & mask,
				   parity & mask,
				   mask,
				   all || !any ? mask : 0,
				   (word)2 + (all || !any),
				   (word)(unsigned)sum,
				   (word)(unsigned)least,
				   most,
				   both,
				   either,
				   odd,
				   rest ? (unsigned)__builtin_ctz(rest) : ~0u};
		for (int i = 0; i < 16 && mask >> lane & 1; i++) {
			word got = i == 9 || i == 10 ? (unsigned)out[16 * lane + i] : out[16 * lane + i];
			if (got != expected[i])
				printf("# lane %d, %d: %llx, not %llx\n", lane, i, got, expected[i]);
			ok &= got == expected[i];
		}
	}
	return ok;
}

/*
 * ---- Atomics --------------------------------------------------------------------------------------------------------
 */

/* What each thread found, and what was there in the end; the operations do not depend on their order. */
struct atomics {
	int add, sub, least, most, and_, or_, xor_;
	unsigned int uadd, usub, uleast, umost, increased, decreased, exchanged, compared, uand, uor, uxor;
	word wadd, wleast, wmost, wexchanged, wcompared, wand, wor, wxor;
	long long lleast, lmost;
	float fadd, fexchanged;
	double dadd;
	unsigned short half[2];
	word found;
};

#define EACH(scope)                                                                                                   \
	__global__ void atomic_words##scope(struct atomics *a)                                                        \
	{                                                                                                             \
		int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);                                                 \
		word found = 0;                                                                                       \
		found += (word)atomicAdd##scope(&a->add, i);                                                          \
		atomicSub##scope(&a->sub, i);                                                                         \
		atomicMin##scope(&a->least, 5 - i);                                                                   \
		atomicMax##scope(&a->most, i - 5);                                                                    \
		atomicAnd##scope(&a->and_, ~(i & 0x0ff0));                                                            \
		atomicOr##scope(&a->or_, i);                                                                          \
		atomicXor##scope(&a->xor_, i * 3);                                                                    \
		atomicAdd##scope(&a->uadd, (unsigned)i);                                                              \
		atomicSub##scope(&a->usub, (unsigned)i);                                                              \
		atomicMin##scope(&a->uleast, 0x80000000u + (unsigned)i);                                              \
		atomicMax##scope(&a->umost, 0x80000000u + (unsigned)i);                                               \
		atomicInc##scope(&a->increased, 99u);                                                                 \
		atomicDec##scope(&a->decreased, 99u);                                                                 \
		atomicExch##scope(&a->exchanged, 0x1234u);                                                            \
		for (unsigned old = a->compared, seen; (seen = atomicCAS##scope(&a->compared, old, old + 3)) != old;) \
			old = seen;                                                                                   \
		atomicAnd##scope(&a->uand, ~(1u << i % 32));                                                          \
		atomicOr##scope(&a->uor, 1u << i % 31);                                                               \
		atomicXor##scope(&a->uxor, (unsigned)i * 7);                                                          \
		atomicAdd##scope(&a->wadd, (word)i << 33);                                                            \
		atomicMin##scope(&a->wleast, ~(word)i);                                                               \
		atomicMax##scope(&a->wmost, (word)i << 40);                                                           \
		atomicExch##scope(&a->wexchanged, (word)0x123456789abcull);                                           \
		for (word old = a->wcompared, seen;                                                                   \
		     (seen = atomicCAS##scope(&a->wcompared, old, old + (1ull << 35))) != old;)                       \
			old = seen;                                                                                   \
		atomicAnd##scope(&a->wand, ~(1ull << i % 64));                                                        \
		atomicOr##scope(&a->wor, 1ull << i % 63);                                                             \
		atomicXor##scope(&a->wxor, (word)i << 20);                                                            \
		atomicMin##scope(&a->lleast, -(long long)i << 33);                                                    \
		atomicMax##scope(&a->lmost, (long long)i << 33);                                                      \
		atomicAdd##scope(&a->fadd, 0.5f);                                                                     \
		atomicExch##scope(&a->fexchanged, 2.5f);                                                              \
		atomicAdd##scope(&a->dadd, 0.25);                                                                     \
		for (unsigned short old = a->half[1], seen;                                                           \
		     (seen = atomicCAS##scope(&a->half[1], old, (unsigned short)(old + 5))) != old;)                  \
			old = seen;                                                                                   \
		atomicAdd(&a->found, found);                                                                          \
	}
EACH()
EACH(_block)
EACH(_system)

static bool atomics_are_right(void (*kernel)(atomics *), int blocks)
{
	const int threads = 256, count = blocks * threads;
	atomics start, a, *there;
	memset(&start, 0, sizeof start);
	start.and_ = -1, start.uand = ~0u, start.wand = ~0ull, start.least = 1000, start.uleast = ~0u,
	start.wleast = ~0ull;
	memcpy(&a, &start, sizeof a);
	require(cudaMalloc(&there, sizeof a), "memory");
	require(cudaMemcpy(there, &start, sizeof a, cudaMemcpyHostToDevice), "copy");
	void *arguments[] = {&there};
	require(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments), "launch");
	require(cudaMemcpy(&a, there, sizeof a, cudaMemcpyDeviceToHost), "atomics");
	require(cudaFree(there), "free");
	int sum = count * (count - 1) / 2, or_ = 0, xor_ = 0;
	unsigned int uxor = 0;
	word wxor = 0;
	for (int i = 0; i < count; i++)
		or_ |= i, xor_ ^= i * 3, uxor ^= (unsigned)i * 7, wxor ^= (word)i << 20;
	bool ok = a.add == sum && a.sub == -sum && a.least == 6 - count && a.most == count - 6 && a.or_ == or_;
	ok &= a.xor_ == xor_ && a.and_ == ~(or_ & 0x0ff0) && a.uadd == (unsigned)sum && a.usub == 0u - (unsigned)sum;
	ok &= a.uleast == 0x80000000u && a.umost == 0x80000000u + (unsigned)count - 1 &&
	      a.increased == (unsigned)count % 100;
	ok &= a.decreased == (100 - (unsigned)count % 100) % 100 && a.exchanged == 0x1234 && a.compared == 3u * count;
	ok &= !a.uand && a.uor == 0x7fffffffu && a.uxor == uxor && a.wadd == (word)sum << 33 &&
	      a.wleast == ~(word)(count - 1);
	ok &= a.wmost == (word)(count - 1) << 40 && a.wexchanged == 0x123456789abcull &&
	      a.wcompared == (word)count << 35;
	ok &= !a.wand && a.wor == 0x7fffffffffffffffull && a.wxor == wxor && a.lleast == -(long long)(count - 1) << 33;
	ok &= a.lmost == (long long)(count - 1) << 33 && a.fadd == 0.5f * count && a.fexchanged == 2.5f;
	ok &= a.dadd == 0.25 * count && !a.half[0] && a.half[1] == (unsigned short)(5 * count);
	return ok;
}

/*
 * ---- Barriers and cooperative groups --------------------------------------------------------------------------------
 */

__global__ void barriers(word *out)
{
	int i = threadIdx.x;
	__shared__ volatile int room[96];
	room[i] = i;
	__threadfence_block();
	out[4 * i] = __syncthreads_count(i % 3 == 0);
	out[4 * i + 1] = __syncthreads_and(room[95 - i] == 95 - i);
	out[4 * i + 2] = __syncthreads_or(i == 77);
	long long start = clock64();
	__nanosleep(1);
	__threadfence();
	__threadfence_system();
	out[4 * i + 3] = clock64() >= start && clock() != 0;
}

__device__ int sum_of(cg::thread_group group, int *room, int value)
{
	unsigned int rank = group.thread_rank();
	for (unsigned int half = group.size() / 2; half; half /= 2) {
		room[rank] = value;
		group.sync();
		if (rank < half)
			value += room[rank + half];
		group.sync();
	}
	return value;
}

#define GROUP_WORDS 18
__global__ void groups(word *out, int *total)
{
	__shared__ int room[128];
	__shared__ double copy[4];
	cg::thread_block block = cg::this_thread_block();
	cg::grid_group grid = cg::this_grid();
	cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
	auto four = cg::tiled_partition<4>(warp);
	int rank = (int)block.thread_rank();
	word *row = out + GROUP_WORDS * grid.thread_rank();
	struct {
		int a;
		double b;
	} large = {rank, rank + 0.5};
	row[0] = cg::reduce(warp, rank, cg::plus<int>());
	row[1] = cg::reduce(four, rank, cg::greater<int>());
	row[2] = cg::inclusive_scan(warp, 1);
	row[3] = cg::exclusive_scan(four, rank);
	row[4] = (word)(warp.shfl_down(large, 3).b * 2);
	row[5] = four.ballot(rank & 1);
	row[6] = four.match_any(rank / 2);
	row[7] = warp.any(rank == 64) * 2 + warp.all(rank < 64);
	row[8] = four.meta_group_rank() * 100 + four.meta_group_size();
	if (rank % 2) {
		cg::coalesced_group odd = cg::coalesced_threads();
		row[9] = odd.size() * 10000 + odd.thread_rank() * 100 + cg::reduce(odd, 1, cg::plus<int>());
		row[10] = odd.shfl(rank, 3);
	}
	warp.sync();
	row[11] = cg::binary_partition(warp, rank % 3 == 0).size();
	row[12] = cg::labeled_partition(warp, rank % 5).size();
	row[13] = sum_of(block, room, 1);
	cg::thread_group sixteen = cg::tiled_partition(block, 16);
	row[14] = sum_of(sixteen, room + rank / 16 * 16, 1);
	double from[4] = {1.5, 2.5, 3.5, 4.5};
	block.sync();
	cg::memcpy_async(block, copy, from, sizeof from);
	cg::wait(block);
	row[15] = (word)(copy[rank % 4] * 2);
	for (int round = 1; round <= 3; round++) {
		if (rank == 0)
			atomicAdd(total, 1);
		grid.sync();
		row[16] += atomicAdd(total, 0) == (int)grid.num_blocks() * round;
		grid.sync();
	}
	row[17] = grid.is_valid() + 10 * block.group_index().x + 100 * block.thread_index().x;
}

static bool groups_are_right(void)
{
	const int blocks = 3, threads = 128;
	std::vector<word> out(blocks * threads * GROUP_WORDS);
	word *room;
	int *total;
	require(cudaMalloc(&room, out.size() * sizeof(word) + 8), "memory");
	require(cudaMemset(room, 0, out.size() * sizeof(word) + 8), "memory");
	total = (int *)(room + out.size());
	void *arguments[] = {&room, &total};
	require(cudaLaunchCooperativeKernel(groups, dim3(blocks), dim3(threads), arguments), "cooperative launch");
	require(cudaMemcpy(out.data(), room, out.size() * sizeof(word), cudaMemcpyDeviceToHost), "groups");
	require(cudaFree(room), "free");
	bool ok = true;
	for (int i = 0; i < blocks * threads; i++) {
		int rank = i % threads, lane = rank % 32, first = rank - lane, thirds = 0, fifths = 0;
		for (int other = first; other < first + 32; other++) {
			thirds += (other % 3 == 0) == (rank % 3 == 0);
			fifths += other % 5 == rank % 5;
		}
		int below = 0;
		for (int other = rank / 4 * 4; other < rank; other++)
			below += other;
		bool odd = rank % 2;
		word expected[GROUP_WORDS] = {
			(word)(32 * first + 496),
			(word)(rank / 4 * 4 + 3),
			(word)lane + 1,
			(word)below,
			(word)(2 * (rank + (lane + 3 < 32 ? 3 : 0)) + 1),
			0xa,
			rank / 2 % 2 ? 0xcull : 0x3ull,
			(word)(2 * (first == 64) + (rank < 64)),
			(word)(rank / 4 * 100 + threads / 4),
			odd ? (word)(160000 + lane / 2 * 100 + 16) : 0,
			odd ? (word)(first + 7) : 0,
			(word)thirds,
			(word)fifths,
			out[i * GROUP_WORDS + 13],
			out[i * GROUP_WORDS + 14],
			(word)(2 * (rank % 4) + 3),
			3,
			(word)(1 + 10 * (i / threads) + 100 * rank),
		};
		/* The sums through shared memory are whole in the first thread of the group alone. */
		if (rank == 0)
			expected[13] = threads;
		if (rank % 16 == 0)
			expected[14] = 16;
		for (int word_ = 0; word_ < GROUP_WORDS; word_++) {
			if (out[i * GROUP_WORDS + word_] != expected[word_])
				printf("# thread %d, %d: %llu, not %llu\n", i, word_, out[i * GROUP_WORDS + word_],
				       expected[word_]);
			ok &= out[i * GROUP_WORDS + word_] == expected[word_];
		}
	}
	return ok;
}

/*
 * ---- Memory ---------------------------------------------------------------------------------------------------------
 */

template <class T> __global__ void copies(const T *from, T *to)
{
	to[0] = __ldg(from), to[1] = __ldca(from + 1), to[2] = __ldcg(from + 2), to[3] = __ldcs(from + 3);
	to[4] = __ldlu(from + 4), to[5] = __ldcv(from + 5);
	__stwb(to + 6, from[6]);
	__stcg(to + 7, from[7]);
	__stcs(to + 8, from[8]);
	__stwt(to + 9, from[9]);
}

template <class T> static bool copies_are_right(void)
{
	T values[10], back[10], *room;
	for (size_t i = 0; i < sizeof values; i++)
		((unsigned char *)values)[i] = (unsigned char)(i * 37 + 11);
	require(cudaMalloc(&room, 2 * sizeof values), "memory");
	require(cudaMemset(room, 0, 2 * sizeof values), "memory");
	require(cudaMemcpy(room, values, sizeof values, cudaMemcpyHostToDevice), "copy");
	copies<<<1, 1>>>(room, room + 10);
	require(cudaMemcpy(back, room + 10, sizeof back, cudaMemcpyDeviceToHost), "copies");
	require(cudaFree(room), "free");
	return !memcmp(values, back, sizeof back);
}

template <class... Types> static bool all_copies(void)
{
	bool ok = true;
	bool each[] = {copies_are_right<Types>()...};
	for (bool one : each)
		ok &= one;
	return ok;
}

__device__ int in_global = 6;
__global__ void spaces(word *out)
{
	__shared__ int in_shared;
	int in_local = 7, *global = &in_global;
	int *volatile local = &in_local;
	in_shared = 8;
	out[0] = __isGlobal(global) + 2 * __isShared(&in_shared) + 4 * __isLocal(local);
	out[1] = __isGlobal(&in_shared) + __isShared(local) + __isLocal(global);
	out[2] = *(int *)__cvta_shared_to_generic(__cvta_generic_to_shared(&in_shared)) +
		 *(int *)__cvta_global_to_generic(__cvta_generic_to_global(global));
	int *made = (int *)malloc(40), *made_new = new int[4];
	memset(made, 1, 40);
	memcpy(made_new, made, 16);
	memmove(made + 1, made, 36);
	out[3] = made[9] + made_new[3] - 2 * 0x01010101;
	free(made);
	delete[] made_new;
}

static bool spaces_are_right(void)
{
	std::vector<word> out = rows(spaces, 1, 4);
	return out[0] == 7 && out[1] == 0 && out[2] == 14 && out[3] == 0;
}

int main()
{
	report(shuffles<int>() && shuffles<unsigned int>() && shuffles<float>(), "shuffles of 32 bits");
	report(shuffles<long>() && shuffles<unsigned long>() && shuffles<long long>() && shuffles<word>() &&
		       shuffles<double>(),
	       "shuffles of 64 bits");
	report(votes_are_right(~0u, ~0u) && votes_are_right(~0u, 0) && votes_are_right(~0u, 0x12345678) &&
		       votes_are_right(PART, 0x12345678) && votes_are_right(PART, PART),
	       "votes, matches and reductions");
	report(atomics_are_right(atomic_words, 4), "atomics of a device");
	report(atomics_are_right(atomic_words_block, 1), "atomics of a block");
	report(atomics_are_right(atomic_words_system, 4), "atomics of the system");
	std::vector<word> out = rows(barriers, 96, 4);
	bool ok = true;
	for (int i = 0; i < 96; i++)
		ok &= out[4 * i] == 32 && out[4 * i + 1] && out[4 * i + 2] && out[4 * i + 3];
	report(ok, "barriers, fences, clocks");
	report(groups_are_right(), "cooperative groups");
	report(all_copies<char, signed char, unsigned char, short, unsigned short, int, unsigned int, long,
			  unsigned long, long long, word, float, double, char2, uchar2, short2, ushort2, int2, uint2,
			  longlong2, ulonglong2, float2, double2, char4, uchar4, short4, ushort4, int4, uint4,
			  float4>(),
	       "loads and stores by cache");
	report(spaces_are_right(), "spaces, heap, copies");
	printf("1..%d\n", test_count);
	return test_failures != 0;
}

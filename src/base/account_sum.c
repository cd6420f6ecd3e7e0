/* SPDX-License-Identifier: MIT */
/*
 * Reading an account: what all processes have.
 *
 * A header's sequence grows with each change, and is odd while entries are entered or left. A reader takes the newest
 * half whose check is right. Where neither is (it read while the process wrote twice), it reads again, a number of
 * times.
 *
 * An exact sum is that of one instant: the one at which the headers have been read. They are read again at the end, and
 * must be as they were. In between each process is asked for once, by its lock: one that lives then has lived at that
 * instant, too. One that is dead may have died since, so all is done again; and a life that was found to have ended is
 * not asked for any more.
 *
 * All headers are read before any entry. That is why nothing is ever missed: a process enters what it holds while the
 * maker is there. If the maker's header was read live, its bytes are counted. If not, the holder's entry was there
 * before the maker ended, and so before the entries were read.
 */
#include "base/account_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	READ_TRIES_MAX = 64,  /* of headers that are being written, with one reading of all */
	EXACT_TRIES_MAX = 64, /* sums, until nothing changes meanwhile */
	OUTSIDE_TRIES_MAX = 2,
	GATHERED_MAX = 65536, /* entries of all slots that are looked at */
};

static bool is_header(const struct cn_account_header *header, unsigned index, unsigned half)
{
	return header->magic == CN_ACCOUNT_MAGIC && header->version == CN_ACCOUNT_VERSION &&
	       cn_account_half(header->sequence) == half && header->device < CN_ACCOUNT_DEVICES &&
	       header->entry_count <= CN_ACCOUNT_ENTRIES && header->check == cn_account_check(header, index);
}

bool cn_account_pick(const struct cn_account_halves *halves, unsigned index, struct cn_account_header *ret_header)
{
	unsigned newer = halves->halves[1].sequence > halves->halves[0].sequence;

	for (unsigned i = 0; i < CN_ACCOUNT_HALVES; i++) {
		unsigned half = newer ^ i;
		if (is_header(&halves->halves[half], index, half)) {
			*ret_header = halves->halves[half];
			return true;
		}
	}
	return false;
}

static bool is_empty(const struct cn_account_halves *halves)
{
	static const struct cn_account_halves empty;

	return !memcmp(halves, &empty, sizeof empty);
}

/* A slot's header, or one of zeros. What others have damaged must not take long, however many they are. */
static void choose_header(struct cn_account *account, unsigned index, unsigned *tries_left)
{
	struct cn_account_halves *halves = &account->read[index];

	account->headers[index] = (struct cn_account_header){0};
	if (is_empty(halves))
		return;
	while (!cn_account_pick(halves, index, &account->headers[index])) {
		if (!*tries_left)
			return;
		--*tries_left;
		sched_yield();
		if (pread(account->fd, halves, sizeof *halves, cn_account_halves_at(index)) != sizeof *halves)
			return;
	}
}

/* Our own we know better than the file, which another process may have changed. */
static void insert_own_headers(struct cn_account *account)
{
	for (unsigned device = 0; device < CN_ACCOUNT_DEVICES; device++) {
		const struct cn_account_slot *slot = &account->slots[device];
		if (!slot->joined)
			continue;
		for (; account->header_count <= slot->index; account->header_count++)
			account->headers[account->header_count] = (struct cn_account_header){0};
		account->headers[slot->index] = slot->header;
	}
}

/* Does the process live, whose header this is? */
static bool is_live(struct cn_account *account, unsigned index, bool ask)
{
	const struct cn_account_header *header = &account->headers[index];

	/* What has nothing, and never shared, is the same to us dead or alive. */
	if (!header->made_bytes && !header->bid_bytes && !header->entry_count)
		return false;
	if (account->own[index])
		return true;
	if (account->ended_life[index] == header->life)
		return false;
	if (!ask || cn_account_is_locked(account, cn_account_life_lock(index, header->life), 1))
		return true;
	account->ended_life[index] = header->life;
	account->somebody_died = true;
	return false;
}

/* For how many slots the file is long enough. */
static unsigned count_slots(off_t bytes)
{
	if (bytes <= CN_ACCOUNT_HEADERS_BYTES)
		return 0;
	off_t regions = (bytes - CN_ACCOUNT_HEADERS_BYTES - 1) / CN_ACCOUNT_REGION_BYTES + 1;
	return regions < CN_ACCOUNT_SLOTS ? (unsigned)regions : CN_ACCOUNT_SLOTS;
}

bool cn_account_read_headers(struct cn_account *account, bool ask_who_lives)
{
	unsigned tries_left = READ_TRIES_MAX;
	off_t bytes;

	if (!cn_account_look(account, &bytes))
		return false;
	ssize_t got = pread(account->fd, account->again, count_slots(bytes) * sizeof *account->again, 0);
	if (got < 0)
		return false;
	account->header_count = (unsigned)((size_t)got / sizeof *account->again);
	for (unsigned i = 0; i < account->header_count; i++) {
		if (i < account->read_count && !memcmp(&account->read[i], &account->again[i], sizeof account->read[i]))
			continue; /* it has not changed: its header is chosen */
		account->read[i] = account->again[i];
		choose_header(account, i, &tries_left);
	}
	account->read_count = account->header_count;
	insert_own_headers(account);
	account->changing = account->somebody_died = false;
	for (unsigned i = 0; i < account->header_count; i++) {
		account->live[i] = is_live(account, i, ask_who_lives);
		account->changing |= account->live[i] && account->headers[i].sequence % 2;
	}
	return true;
}

/* Are the headers in the file as they were when they were read? */
static bool are_headers_the_same(struct cn_account *account)
{
	size_t bytes = account->read_count * sizeof *account->read;

	return pread(account->fd, account->again, bytes, 0) == (ssize_t)bytes &&
	       !memcmp(account->read, account->again, bytes);
}

static bool add_gathered(struct cn_account *account, struct cn_account_gathered gathered)
{
	if (account->gathered_count == account->gathered_room) {
		size_t room = account->gathered_room ? 2 * account->gathered_room : 256;
		struct cn_account_gathered *larger =
			room <= GATHERED_MAX ? realloc(account->gathered, room * sizeof *larger) : NULL;
		if (!larger)
			return false;
		account->gathered = larger;
		account->gathered_room = room;
	}
	account->gathered[account->gathered_count++] = gathered;
	return true;
}

/* A slot's entries; how many were read. */
static unsigned read_entries(const struct cn_account *account, unsigned index, struct cn_account_entry ret_entries[],
			     unsigned from, unsigned most)
{
	unsigned count = account->headers[index].entry_count;

	count = count < from ? 0 : count - from;
	count = count < most ? count : most;
	ssize_t bytes = pread(account->fd, ret_entries, count * sizeof *ret_entries,
			      cn_account_region(index) + (off_t)(from * sizeof *ret_entries));
	return bytes < 0 ? 0 : (unsigned)((size_t)bytes / sizeof *ret_entries);
}

bool cn_account_visit(struct cn_account *account, unsigned index, cn_account_visitor *visit, void *data)
{
	enum { AT_ONCE = 128 };
	struct cn_account_entry entries[AT_ONCE];
	unsigned count;

	for (unsigned from = 0; (count = read_entries(account, index, entries, from, AT_ONCE)); from += count)
		for (unsigned i = 0; i < count; i++)
			if (entries[i].file && !visit(account, index, &entries[i], data))
				return false;
	return true;
}

bool cn_account_gather(struct cn_account *account, unsigned index, const struct cn_account_entry *entry, void *data)
{
	bool made = entry->bytes & CN_ACCOUNT_MADE, live = account->live[index] && !(entry->bytes & CN_ACCOUNT_GONE);
	struct cn_account_gathered gathered = {
		.file = entry->file,
		.bytes = entry->bytes & ~(CN_ACCOUNT_MADE | CN_ACCOUNT_GONE),
		.kind = !made  ? CN_ACCOUNT_HELD_FILE
			: live ? CN_ACCOUNT_MADE_FILE
			       : CN_ACCOUNT_LEFT_FILE,
	};

	(void)data;
	return (!made && !live) || add_gathered(account, gathered);
}

static bool is_before(const struct cn_account_gathered *left, const struct cn_account_gathered *right)
{
	return left->file != right->file ? left->file < right->file : left->kind < right->kind;
}

/* Shell's: qsort() may want memory. */
static void sort(struct cn_account_gathered *entries, size_t count)
{
	for (size_t gap = count / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
		for (size_t i = gap; i < count; i++) {
			struct cn_account_gathered entry = entries[i];
			size_t at = i;
			for (; at >= gap && is_before(&entry, &entries[at - gap]); at -= gap)
				entries[at] = entries[at - gap];
			entries[at] = entry;
		}
}

/* The bytes of a file from its entries: `count` of one file, those that hold it first. */
static uint64_t orphaned_bytes(const struct cn_account_gathered *entries, size_t count)
{
	uint64_t held = 0, left = 0;

	for (size_t i = 0; i < count; i++) {
		if (entries[i].kind == CN_ACCOUNT_MADE_FILE)
			return 0; /* the maker counts it */
		uint64_t *bytes = entries[i].kind == CN_ACCOUNT_HELD_FILE ? &held : &left;
		*bytes = entries[i].bytes > *bytes ? entries[i].bytes : *bytes;
	}
	if (entries[0].kind != CN_ACCOUNT_HELD_FILE)
		return 0; /* no process has it */
	return left ? left : held;
}

static uint64_t sum_orphans(struct cn_account *account, unsigned device)
{
	uint64_t sum = 0;
	bool any_held = false;

	for (unsigned i = 0; i < account->header_count; i++)
		any_held |= account->live[i] && account->headers[i].device == device && account->headers[i].held_count;
	if (!any_held)
		return 0;
	account->gathered_count = 0;
	for (unsigned i = 0; i < account->header_count; i++)
		if (account->headers[i].device == device && account->headers[i].entry_count &&
		    !cn_account_visit(account, i, cn_account_gather, NULL))
			break;
	if (!account->gathered_count)
		return 0;
	sort(account->gathered, account->gathered_count);
	for (size_t from = 0, to; from < account->gathered_count; from = to) {
		for (to = from + 1;
		     to < account->gathered_count && account->gathered[to].file == account->gathered[from].file; to++)
			continue;
		sum = cn_account_add(sum, orphaned_bytes(account->gathered + from, to - from));
	}
	return sum;
}

/* Of the headers as they were last read. */
static struct cn_account_sum add_up(struct cn_account *account, unsigned device)
{
	struct cn_account_sum sum = {0};

	for (unsigned i = 0; i < account->header_count; i++) {
		if (!account->live[i] || account->headers[i].device != device)
			continue;
		sum.made = cn_account_add(sum.made, account->headers[i].made_bytes);
		sum.bid = cn_account_add(sum.bid, account->headers[i].bid_bytes);
	}
	sum.orphaned = sum_orphans(account, device);
	return sum;
}

/* Has nothing happened since the headers were read? */
static bool is_of_one_instant(struct cn_account *account)
{
	return !account->changing && !account->somebody_died && are_headers_the_same(account);
}

unsigned cn_account_user_count(const struct cn_account *account, unsigned device)
{
	unsigned count = 0;

	for (unsigned i = 0; i < account->header_count; i++)
		count += account->live[i] && account->headers[i].device == device && account->headers[i].made_bytes;
	return count;
}

bool cn_account_sum(struct cn_account *account, unsigned device, bool exact, struct cn_account_sum *ret_sum)
{
	for (unsigned tries = 0; tries < EXACT_TRIES_MAX; tries++) {
		if (!account->is_viewer && !cn_account_read_headers(account, exact))
			return false;
		*ret_sum = add_up(account, device);
		if (!exact || account->is_viewer || is_of_one_instant(account))
			break;
		if (account->changing)
			sched_yield();
	}
	return true;
}

bool cn_account_read_from_outside(struct cn_account *account)
{
	for (unsigned tries = 0; tries < OUTSIDE_TRIES_MAX; tries++) {
		if (!cn_account_read_headers(account, true))
			return false;
		if (is_of_one_instant(account))
			break;
	}
	return true;
}

/* SPDX-License-Identifier: MIT */
/*
 * An account: a process's slots, bids and entries. See account.h.
 *
 * The order that must not change: a bid is written before the others' headers are read, with a full barrier between.
 */
#include "base/account_internal.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	ASKED_MAX = 16,        /* slots of each sort that a process asks for before it takes a new one */
	ASKED_EVERY_NS = 4096, /* so often other slots are asked for */
};

/* ---- Slots ---- */

/*
 * Is a live process holding what this entry's dead owner has made, or this one about to? The entries that are held have
 * been gathered.
 */
static bool is_not_needed(struct cn_account *account, unsigned index, const struct cn_account_entry *entry, void *data)
{
	(void)index, (void)data;
	if (entry->bytes & CN_ACCOUNT_MADE && entry->file == account->entering)
		return false;
	for (size_t i = 0; entry->bytes & CN_ACCOUNT_MADE && i < account->gathered_count; i++)
		if (account->gathered[i].file == entry->file && account->gathered[i].kind == CN_ACCOUNT_HELD_FILE)
			return false;
	return true;
}

/*
 * May a slot without an owner have a new one? The headers have been read. What live processes hold is gathered with the
 * first slot that makes it necessary, for all that follow.
 */
static bool is_reusable(struct cn_account *account, unsigned index, bool *has_gathered)
{
	const struct cn_account_header *header = &account->headers[index];

	if (header->entry_count == header->held_count) /* it has made nothing that others could hold */
		return true;
	if (!*has_gathered)
		account->gathered_count = 0;
	for (unsigned i = 0; i < account->header_count && !*has_gathered; i++)
		if (account->live[i] && account->headers[i].held_count &&
		    !cn_account_visit(account, i, cn_account_gather, NULL))
			return false;
	*has_gathered = true;
	return cn_account_visit(account, index, is_not_needed, NULL);
}

/* Write the header into the other half. What was written before stays before it. */
static bool publish(struct cn_account *account, struct cn_account_slot *slot)
{
	slot->header.sequence += 2;
	slot->header.check = cn_account_check(&slot->header, slot->index);
	atomic_thread_fence(memory_order_release);
	return cn_account_store_header(account, slot->index, &slot->header);
}

/*
 * Begin a life of a slot that has no owner. The file must be as long as its entries are: others look there for slots.
 * False: another process has it, or needs what is in it.
 */
static bool claim(struct cn_account *account, unsigned index, unsigned device, bool *has_gathered,
		  struct cn_account_slot *ret_slot)
{
	static const struct cn_account_header none;
	const struct cn_account_header *header = index < account->header_count ? &account->headers[index] : &none;
	struct cn_account_halves halves = {0};
	struct cn_account_header now = {0};
	uint64_t life = header->life + 1;

	if (account->own[index] || cn_account_is_locked(account, cn_account_slot_lock(index), CN_ACCOUNT_LIVES) ||
	    (header->magic && !is_reusable(account, index, has_gathered)))
		return false;
	if (cn_account_lock(account->fd, F_WRLCK, cn_account_life_lock(index, life), 1))
		return false;
	*ret_slot = (struct cn_account_slot){
		.index = index,
		.header = {.magic = CN_ACCOUNT_MAGIC, .version = CN_ACCOUNT_VERSION, .life = life, .device = device},
	};
	/* Another process may have had it meanwhile, and ended; and the last one may have written until it did. */
	if (pread(account->fd, &halves, sizeof halves, cn_account_halves_at(index)) < 0 ||
	    (cn_account_pick(&halves, index, &now) && (now.life != life - 1 || now.sequence != header->sequence)) ||
	    !cn_account_grow(account, index))
		goto err_unlock;
	ret_slot->header.sequence = now.sequence / 2 * 2;
	if (publish(account, ret_slot))
		return true;

err_unlock:
	cn_account_lock(account->fd, F_UNLCK, cn_account_life_lock(index, life), 1);
	return false;
}

static bool take_slot(struct cn_account *account, unsigned index, unsigned device, bool *has_gathered)
{
	struct cn_account_slot slot;

	if (!claim(account, index, device, has_gathered, &slot))
		return false;
	account->slots[device] = slot;
	account->slots[device].joined = account->own[index] = true;
	return true;
}

/* What a killed process has left is the next one's to find: a slot that has nothing. */
static void empty_slot(struct cn_account *account, unsigned index, bool *has_gathered)
{
	struct cn_account_slot slot;

	if (claim(account, index, account->headers[index].device, has_gathered, &slot))
		cn_account_lock(account->fd, F_UNLCK, cn_account_life_lock(index, slot.header.life), 1);
}

static bool is_empty(const struct cn_account_header *header)
{
	return !header->made_bytes && !header->bid_bytes && !header->entry_count;
}

/*
 * Ask for slots that had an owner: so many at most of those that have nothing, and as many of the others, whose owners
 * may have been killed. The place to begin at changes, and what killed owners have left there is emptied: so it comes
 * back, however many slots there are.
 */
static bool take_used(struct cn_account *account, unsigned device, unsigned most, bool *has_gathered)
{
	unsigned count = account->header_count, empty_count = 0, full_count = 0;
	unsigned first = count > most ? (unsigned)(cn_clock_ns() / ASKED_EVERY_NS) % count : 0;
	bool taken = false;

	for (unsigned i = 0; i < count && !(taken && (count <= most || full_count == most)); i++) {
		unsigned index = (first + i) % count;
		bool empty = is_empty(&account->headers[index]);
		unsigned *asked = empty ? &empty_count : &full_count;
		if (account->own[index] || *asked == most || (taken && empty))
			continue;
		++*asked;
		if (taken)
			empty_slot(account, index, has_gathered);
		else
			taken = take_slot(account, index, device, has_gathered);
	}
	return taken;
}

/* One that no process has had; another process may be quicker. */
static bool take_new(struct cn_account *account, unsigned device, bool *has_gathered)
{
	unsigned count = account->header_count;

	for (unsigned i = count; i < CN_ACCOUNT_SLOTS && i < count + ASKED_MAX; i++)
		if (take_slot(account, i, device, has_gathered))
			return true;
	return false;
}

/*
 * To ask whose a slot is, the kernel goes through the locks of all. So few are asked for before a new one is taken, and
 * all of them only where there is none.
 */
bool cn_account_join(struct cn_account *account, unsigned device)
{
	bool has_gathered = false;

	if (account->slots[device].joined)
		return true;
	if (!cn_account_read_headers(account, false))
		return false;
	if (take_used(account, device, ASKED_MAX, &has_gathered) || take_new(account, device, &has_gathered) ||
	    take_used(account, device, CN_ACCOUNT_SLOTS / 2, &has_gathered))
		return true;
	has_gathered = false; /* of what processes hold that have died */
	return cn_account_read_headers(account, true) && take_used(account, device, CN_ACCOUNT_SLOTS, &has_gathered);
}

bool cn_account_bid(struct cn_account *account, unsigned device, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];

	slot->header.bid_bytes += bytes;
	bool published = publish(account, slot);
	atomic_thread_fence(memory_order_seq_cst);
	return published;
}

bool cn_account_settle(struct cn_account *account, unsigned device, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];

	slot->header.bid_bytes -= bytes;
	slot->header.made_bytes += bytes;
	return publish(account, slot);
}

bool cn_account_retract(struct cn_account *account, unsigned device, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];

	slot->header.bid_bytes -= bytes;
	return publish(account, slot);
}

bool cn_account_count(struct cn_account *account, unsigned device, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];

	slot->header.made_bytes += bytes;
	return publish(account, slot);
}

bool cn_account_give(struct cn_account *account, unsigned device, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];

	slot->header.made_bytes -= bytes;
	return publish(account, slot);
}

/* ---- Turns ---- */

bool cn_account_begin_turn(struct cn_account *account)
{
	off_t bytes;

	return cn_account_look(account, &bytes) && !cn_account_lock(account->fd, F_WRLCK, CN_ACCOUNT_LOCK_TURN, 1);
}

void cn_account_end_turn(struct cn_account *account)
{
	off_t bytes;

	if (cn_account_look(account, &bytes))
		cn_account_lock(account->fd, F_UNLCK, CN_ACCOUNT_LOCK_TURN, 1);
}

static bool has_bid(const struct cn_account *account, unsigned index, unsigned device)
{
	const struct cn_account_header *header = &account->headers[index];

	return account->live[index] && header->device == device && header->bid_bytes && !account->own[index];
}

void cn_account_note_bids(struct cn_account *account, unsigned device)
{
	bool known = cn_account_read_headers(account, true);

	for (unsigned i = 0; i < CN_ACCOUNT_SLOTS; i++) {
		account->noted[i] = known && i < account->header_count && has_bid(account, i, device);
		account->noted_sequences[i] = account->noted[i] ? account->headers[i].sequence : 0;
	}
}

uint64_t cn_account_noted_bids(struct cn_account *account, unsigned device)
{
	uint64_t sum = 0;

	if (!cn_account_read_headers(account, true))
		return 0;
	for (unsigned i = 0; i < account->header_count; i++) {
		account->noted[i] = account->noted[i] && has_bid(account, i, device) &&
				    account->headers[i].sequence == account->noted_sequences[i];
		if (account->noted[i])
			sum = cn_account_add(sum, account->headers[i].bid_bytes);
	}
	return sum;
}

/* ---- Entries ---- */

static off_t entry_at(const struct cn_account_slot *slot, unsigned index)
{
	return cn_account_region(slot->index) + (off_t)(index * sizeof *slot->entries);
}

static bool write_entry_bytes(struct cn_account *account, const struct cn_account_slot *slot, unsigned index)
{
	off_t at = entry_at(slot, index) + (off_t)offsetof(struct cn_account_entry, bytes);

	return cn_account_store(account, at, slot->entries[index].bytes);
}

/* Two stores: an entry that is there is whole. */
static bool write_entry(struct cn_account *account, const struct cn_account_slot *slot, unsigned index)
{
	off_t at = entry_at(slot, index) + (off_t)offsetof(struct cn_account_entry, file);
	uint64_t file = slot->entries[index].file;

	if (!file)
		return cn_account_store(account, at, 0);
	bool written = write_entry_bytes(account, slot, index);
	atomic_thread_fence(memory_order_release);
	return written && cn_account_store(account, at, file);
}

static unsigned is_held(const struct cn_account_entry *entry)
{
	return entry->file && !(entry->bytes & CN_ACCOUNT_MADE);
}

/* Change an entry, and what the header says of all: a reader sees both as they were before, or after. */
static bool replace_entry(struct cn_account *account, struct cn_account_slot *slot, unsigned index,
			  struct cn_account_entry entry, uint64_t given_bytes)
{
	const struct cn_account_entry old = slot->entries[index];

	slot->header.sequence++;
	bool published = publish(account, slot);
	slot->entries[index] = entry;
	published &= write_entry(account, slot, index);
	/* Only now: a process that had the slot before may have left something in its place. */
	if (slot->header.entry_count <= index)
		slot->header.entry_count = index + 1;
	slot->header.held_count += is_held(&entry) - is_held(&old);
	while (slot->header.entry_count && !slot->entries[slot->header.entry_count - 1].file)
		slot->header.entry_count--;
	slot->header.made_bytes -= given_bytes;
	slot->header.sequence--;
	return publish(account, slot) && published;
}

static unsigned enter(struct cn_account *account, unsigned device, struct cn_account_entry entry)
{
	struct cn_account_slot *slot = &account->slots[device];
	unsigned index = 0;

	if (!slot->entries)
		slot->entries = calloc(CN_ACCOUNT_ENTRIES, sizeof *slot->entries);
	if (!slot->entries)
		return 0;
	while (index < slot->header.entry_count && slot->entries[index].file)
		index++;
	if (index == CN_ACCOUNT_ENTRIES)
		return 0;
	replace_entry(account, slot, index, entry, 0);
	return index + 1;
}

unsigned cn_account_enter_made(struct cn_account *account, unsigned device, uint64_t file, uint64_t bytes)
{
	return enter(account, device, (struct cn_account_entry){.file = file, .bytes = bytes | CN_ACCOUNT_MADE});
}

struct search {
	uint64_t file;
	bool found;
	unsigned index, device;
	uint64_t bytes;
};

static bool search_made(struct cn_account *account, unsigned index, const struct cn_account_entry *entry, void *data)
{
	struct search *search = data;

	if (entry->file != search->file || !(entry->bytes & CN_ACCOUNT_MADE))
		return true;
	search->found = true;
	search->index = index;
	search->device = account->headers[index].device;
	search->bytes = entry->bytes & ~(CN_ACCOUNT_MADE | CN_ACCOUNT_GONE);
	return false;
}

static void search_slot(struct cn_account *account, unsigned index, struct search *search)
{
	if (index < account->header_count && account->headers[index].entry_count)
		cn_account_visit(account, index, search_made, search);
}

unsigned cn_account_enter_held(struct cn_account *account, uint64_t file, unsigned *ret_device)
{
	struct search search = {.file = file};

	if (!cn_account_read_headers(account, false))
		return 0;
	search_slot(account, account->last_maker, &search); /* mostly it is that again */
	for (unsigned i = 0; i < account->header_count && !search.found; i++)
		search_slot(account, i, &search);
	account->entering = file;
	bool joined = search.found && cn_account_join(account, search.device);
	account->entering = 0;
	if (!joined)
		return 0;
	account->last_maker = search.index;
	*ret_device = search.device;
	return enter(account, search.device, (struct cn_account_entry){.file = file, .bytes = search.bytes});
}

bool cn_account_change(struct cn_account *account, unsigned device, unsigned number, uint64_t bytes)
{
	struct cn_account_slot *slot = &account->slots[device];
	struct cn_account_entry *entry = &slot->entries[number - 1];

	entry->bytes = bytes | (entry->bytes & CN_ACCOUNT_MADE);
	return write_entry_bytes(account, slot, number - 1);
}

bool cn_account_leave(struct cn_account *account, unsigned device, unsigned number)
{
	return replace_entry(account, &account->slots[device], number - 1, (struct cn_account_entry){0}, 0);
}

bool cn_account_give_up(struct cn_account *account, unsigned device, unsigned number)
{
	struct cn_account_slot *slot = &account->slots[device];
	struct cn_account_entry entry = slot->entries[number - 1];
	unsigned *oldest = &slot->left[slot->left_count++ % CN_ACCOUNT_LEFT];
	bool done = !*oldest || cn_account_leave(account, device, *oldest);

	*oldest = number;
	uint64_t bytes = entry.bytes & ~CN_ACCOUNT_MADE;
	entry.bytes |= CN_ACCOUNT_GONE;
	return replace_entry(account, slot, number - 1, entry, bytes) && done;
}

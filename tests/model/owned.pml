/* SPDX-License-Identifier: MIT */
/*
 * Owned locks (src/base/owned_lock.c), on a processor whose stores are seen late.
 *
 * Three threads take a lock, each a few times. A store goes into the thread's own buffer, in order, and from there into
 * memory at any later time; the thread itself sees it at once. That is x86; other processors show stores out of order,
 * too, against which the C code has acquire and release, which are not checked here. An atomic instruction waits until
 * the buffer is empty. membarrier() empties those of all threads, one after the other.
 *
 * When a thread becomes the owner is left open here: whenever it has taken the word, it may. So all that the counting
 * of turns allows is among what is checked, and more. A word that a thread waits for is looked at again and again:
 * sleeping and waking are not here, since nobody is woken, and sleeps have a bound.
 *
 * Safety: one thread at a time has the lock, and sees what the one before it has written. Liveness, under weak
 * fairness: all threads come to their end.
 */

#include "bounds.inc"

#define THREADS 3
#define BUFFER 4 /* so many stores are under way: the owner makes two, and the section one */
hidden byte takes; /* of each thread, at most */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety: no membarrier() when the owner loses the lock
 * wrong 2 safety: NOBODY is the owner at once, before the membarrier()
 * wrong 3 safety: a thread that has the word does not look whether there is an owner by now
 * wrong 4 safety: whether the owner is inside is not looked at
 * wrong 5 safety: the owner does not look again whether it still is
 * wrong 6 safety: a thread that finds REVOKING goes on as if it were NOBODY
 * wrong 7 safety: a thread that has waited for the end of REVOKING does not look for an owner behind the word
 * wrong 8 liveness: a thread that finds an owner behind the word keeps the word
 * wrong 9 safety: all owners have one place in which they say that they are inside
 */
hidden byte wrong;

/* ---- Memory ---- */

#define WORD 0
#define OWNER 1
#define DATA 2
#define INSIDE(thread) (3 + (wrong == 9 -> 0 : thread)) /* 1: it has the lock as its owner, or is about to */
byte memory[3 + THREADS];

#define NOBODY 0
#define REVOKING 1
#define SELF (me + 2)

byte where_[THREADS * BUFFER], what[THREADS * BUFFER], count[THREADS];

inline pop(t)
{
	memory[where_[t * BUFFER]] = what[t * BUFFER];
	where_[t * BUFFER] = where_[t * BUFFER + 1];
	what[t * BUFFER] = what[t * BUFFER + 1];
	where_[t * BUFFER + 1] = where_[t * BUFFER + 2];
	what[t * BUFFER + 1] = what[t * BUFFER + 2];
	where_[t * BUFFER + 2] = where_[t * BUFFER + 3];
	what[t * BUFFER + 2] = what[t * BUFFER + 3];
	where_[t * BUFFER + 3] = 0;
	what[t * BUFFER + 3] = 0;
	count[t] = count[t] - 1
}

inline store(address, value)
{
	atomic {
		count[me] < BUFFER;
		where_[me * BUFFER + count[me]] = address;
		what[me * BUFFER + count[me]] = value;
		count[me] = count[me] + 1
	}
}

/* The newest of its own, else memory. */
#define own(i, address) (count[me] > i && where_[me * BUFFER + i] == address)
#define load(address) \
	(own(3, address) -> what[me * BUFFER + 3] : \
	 (own(2, address) -> what[me * BUFFER + 2] : \
	  (own(1, address) -> what[me * BUFFER + 1] : (own(0, address) -> what[me * BUFFER] : memory[address]))))

#define drained (count[me] == 0) /* an atomic instruction waits for that */

inline barrier()
{
	i = 0;
	do
	:: atomic { i < THREADS && count[i] > 0 -> pop(i) }
	:: atomic { i < THREADS && count[i] == 0 -> i++ }
	:: atomic { i == THREADS -> i = 0; break }
	od
}

/* ---- A thread ---- */

byte in_section, expected;
bool done[THREADS];

proctype Thread(byte me)
{
	byte left = takes, i, seen;
	bool waited;

again:
	if
	:: atomic { left == 0 -> done[me] = true; goto end }
	:: atomic { left > 0 -> left-- }
	fi;
	/* cn_owned_lock_try() */
	if
	:: load(OWNER) == SELF ->
		store(INSIDE(me), 1);
		if
		:: load(OWNER) == SELF || wrong == 5 -> goto section
		:: else -> store(INSIDE(me), 0)
		fi
	:: else
	fi;
take:	/* cn_owned_lock_take() */
	atomic { seen = load(OWNER); waited = false };
	if
	:: atomic { seen == NOBODY || (wrong == 6 && seen == REVOKING) -> seen = 0 }
	:: seen == REVOKING && wrong != 6 -> atomic { load(OWNER) != REVOKING -> waited = true }
	:: seen > REVOKING ->
		if
		:: atomic { drained && memory[OWNER] == seen -> memory[OWNER] = (wrong == 2 -> NOBODY : REVOKING) };
			if
			:: wrong != 1 -> barrier()
			:: else
			fi;
			(load(INSIDE(seen - 2)) == 0 || wrong == 4);
			atomic { drained; seen = 0 };
			if
			:: atomic { wrong != 2 -> memory[OWNER] = NOBODY }
			:: wrong == 2
			fi
		:: atomic { drained && memory[OWNER] != seen -> seen = 0 };
			atomic { load(OWNER) != REVOKING -> waited = true }
		fi
	fi;
	atomic { drained && memory[WORD] == 0 -> memory[WORD] = 1 };
	if
	:: load(OWNER) == NOBODY || wrong == 3 || (wrong == 7 && waited) || (wrong == 6 && load(OWNER) == REVOKING)
	:: else ->
		if
		:: wrong == 8
		:: else -> store(WORD, 0)
		fi;
		goto take
	fi;
	if
	:: store(OWNER, SELF) /* count_turn() */
	:: true
	fi;
section:
	atomic { in_section++; assert(in_section == 1); waited = false; seen = 0 };
	assert(load(DATA) == expected);
	store(DATA, (expected + 1) % 4);
	atomic { expected = (expected + 1) % 4; in_section-- };
	/* cn_owned_lock_drop() */
	if
	:: load(INSIDE(me)) -> store(INSIDE(me), 0)
	:: else -> store(WORD, 0)
	fi;
	goto again;
end:	skip
}

/* Stores reach memory. */
proctype Stores()
{
end:	do
	:: atomic { count[0] > 0 -> pop(0) }
	:: atomic { count[1] > 0 -> pop(1) }
	:: atomic { count[2] > 0 -> pop(2) }
	od
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			takes = bound("TAKES");
		};
		run Thread(0);
		run Thread(1);
		run Thread(2);
		run Stores()
	}
}

#ifdef LIVENESS
ltl all_end { <> (done[0] && done[1] && done[2]) }
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Events between processes: the ring of numbered cells (src/device/host/host_signal.c), and who tells of a death (event.c).
 *
 * Process 0 has made the event, 1 and 2 have opened it. 0 and 1 record it, in streams that come to the records in any
 * order, fail before, or hang for ever; 2 waits. Each record, cell and number is as in C, with a small ring. All loads,
 * stores and compare-and-swaps of the ring are sequentially consistent in C, so interleaving them is exact; a weaker
 * one would be one that changes places with its neighbour, which is wrong 4, 5 and 6. Wherever a process stands, it can
 * be killed there (`provided`).
 *
 * 0 and 1 can also lose their connection and live on: 0 has sent 1 away and watches for the end of its process, and 1
 * takes 0 for dead. Where the system does not let 0 watch, it takes 1 for dead; what 1 records from then on, and does
 * not come to before it dies, nobody hears of. That is here for safety alone (CUTS=3).
 *
 * A process that has opened the event may write nonsense into the count of sleepers (LIES). Then wake-ups are lost, and a
 * sleep ends by itself after a while. Where nobody lies it does not end here, so that no wake-up is lost unnoticed.
 *
 * Not here: the round's 30 bits do not wrap around; `latest` is tried for as long as it takes, not 64 times, since
 * nobody writes nonsense there, nor into cells (event_forge_test does); spinning, which only looks; pollers, who sleep and wake as threads do, on a word of
 * their own; a process that waits for its own records, which does not ask the ring.
 *
 * Safety: a wait that succeeds was for the latest record that had returned, or a later one, and that record is done. No
 * other record's end releases it, be it earlier, later or in the same cell. A wait fails only if the record's process
 * has died, is cut off or has failed in its stream, or the event's maker is dead. Liveness, under weak fairness: a wait
 * whose record has come to an end, one way or the other, ends.
 */

#include "bounds.inc"

#define CELLS 2
#define NUMBERS 12 /* no number is so high: each record is at most CELLS higher than the one before */
hidden byte records_of_0, records_of_1, waits;
hidden byte at_once; /* 1: there are also records that are done when they are made */
hidden byte cuts;    /* connections are lost between the living, and noticed by 1, 3: the maker, 2: both */
byte troubles; /* a process killed, a connection lost, a stream that fails */
byte lies;     /* about sleepers */
bool bounded;  /* a sleep ends by itself */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety TROUBLES=0 AT_ONCE=0: a cell is taken with a store, and not with a compare-and-swap
 * wrong 2 safety TROUBLES=0 AT_ONCE=0 RECORDS_OF_0=2: when all cells are pending, the next record takes one over
 * wrong 3 liveness TROUBLES=0 AT_ONCE=0 RECORDS_OF_0=2: the state of a record is that of its cell, whatever the round
 * wrong 4 liveness TROUBLES=0 AT_ONCE=0: the sleeper reads the wake word after its last look
 * wrong 5 liveness TROUBLES=0 AT_ONCE=0: the sleeper counts itself in after its last look
 * wrong 6 liveness TROUBLES=0 AT_ONCE=0: who marks a record looks for sleepers first
 * wrong 7 safety CUTS=3 AT_ONCE=0 RECORDS_OF_0=2: a record is marked with a store, though somebody may have buried it
 * wrong 8 liveness AT_ONCE=0 RECORDS_OF_0=0: the dead one's records are marked, and nobody is woken
 * wrong 9 safety TROUBLES=0 AT_ONCE=0: the latest number is stored, though it may be a later one by now
 * wrong 10 safety TROUBLES=0 AT_ONCE=0: the latest number is shown before its cell is pending
 * wrong 11 liveness AT_ONCE=0 RECORDS_OF_0=0 TROUBLES=2: an opener that has lost the event's maker goes on to rely on the others
 * wrong 12 safety CUTS=3 AT_ONCE=0 RECORDS_OF_0=2: the dead one's records are marked with a store
 * wrong 13 liveness CUTS=1 AT_ONCE=0 RECORDS_OF_0=0 TROUBLES=2: an opener that is sent away is forgotten
 * wrong 14 liveness LIES=1 TROUBLES=0 AT_ONCE=0: a sleep has no end but being woken
 */
hidden byte wrong;

/* ---- Shared memory: struct cn_signal_ring ---- */

#define DONE 0
#define PENDING 1
#define DEAD 2
#define make_word(number, recorder, state) (((number) / CELLS) * 16 + (recorder) * 4 + (state))
#define word_round(word) ((word) / 16)
#define word_recorder(word) (((word) / 4) % 4)
#define word_state(word) ((word) % 4)

byte cells[CELLS];
byte latest, sleepers;
bool read_wake, changed_wake; /* of the wake word it matters only whether it has changed since 2 has read it */

/* ---- The system, and what the processes have for themselves ---- */

bool runs[4] = true;
bool connected = true; /* 1 with 0; */
bool cut;              /* they live, and are not */
bool alone;            /* cn_signal.alone of process 2 */
bool asleep;           /* 2, on the futex */

/* ---- What is true, which nobody can see ---- */

#define NOBODY 3 /* lives for ever */
byte owner[NUMBERS] = NOBODY; /* whose record it is */
short submitted[2]; /* a bit for each number: the records that stand in the streams of 0 and of 1 */
bool reached[NUMBERS], failed[NUMBERS];
bool reused[NUMBERS]; /* the record was dead, and its cell is another's */
byte returned;        /* the highest number of a record that has returned */
byte waits_for;

#define settled(number) (reached[number] || failed[number] || !runs[owner[number]])

/* state_of(), as seen by process 2 */
#define is_other_round(word, number) (word_round(word) != (number) / CELLS && wrong != 3)
#define is_pending(word, number) (!is_other_round(word, number) && word_state(word) == PENDING && !alone)
#define is_dead(word, number) \
	(!is_other_round(word, number) && (word_state(word) == DEAD || (word_state(word) == PENDING && alone)))

/* ---- Recording ---- */

/* is_free() */
#define is_free(word, number, dead_too) \
	((word_state(word) == DONE || (word_state(word) == DEAD && dead_too) || (wrong == 2 && dead_too)) && \
	 (number) / CELLS > word_round(word))

/* take_number(): a load of the latest, then for each cell a load and a compare-and-swap. */
inline take_number(r, state)
{
	dead_too = false;
load:
	atomic {
		first = (latest < CELLS -> CELLS : latest + 1);
		number = first
	};
try:
	atomic {
		word = cells[number % CELLS];
		if
		:: is_free(word, number, dead_too)
		:: else -> goto next
		fi;
		if
		:: wrong == 10 && latest < number -> latest = number
		:: else
		fi
	};
	atomic {
		if
		:: cells[number % CELLS] == word || wrong == 1 ->
			cells[number % CELLS] = make_word(number, r, state);
			assert(owner[number] == NOBODY);
			owner[number] = r;
			reached[number] = (state == DONE);
			if
			:: word_state(word) == DEAD ->
				reused[word_round(word) * CELLS + number % CELLS] = true
			:: else
			fi;
			goto taken
		:: else
		fi
	};
next:
	atomic {
		number++;
		if
		:: number < first + CELLS -> goto try
		:: number == first + CELLS && !dead_too ->
			dead_too = true;
			goto load
		:: else -> /* CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES */
			number = 0;
			first = 0;
			word = 0;
			dead_too = false;
			pending = false;
			goto again
		fi
	}
}

/* A process's program: cn_host_signal_record(), and record_done() where there is nothing to wait for. */
proctype Recorder(byte r) provided (runs[r])
{
	byte number, first, word, seen, records = (r -> records_of_1 : records_of_0);
	bool dead_too, pending;

again:
	atomic {
		records > 0 ->
		records--;
		if
		:: pending = true
		:: at_once -> pending = false
		fi;
		if
		:: !pending -> number = latest
		:: else -> goto load
		fi
	};
	atomic { /* record_done() */
		word = cells[number % CELLS];
		if
		:: number && (word_round(word) != number / CELLS || word_state(word) == DONE) ->
			number = 0;
			word = 0;
			goto again
		:: else
		fi
	};
	take_number(r, (pending -> PENDING : DONE));
taken:
	atomic {
		submitted[r] = submitted[r] | (pending << number); /* cn_host_queue_submit() */
		word = 0;
		first = 0;
		dead_too = false;
		seen = latest /* set_latest(): an early load is the worst, since the compare-and-swap finds out */
	};
compare:
	atomic {
		if
		:: seen < number && latest != seen && wrong != 9 ->
			seen = latest;
			goto compare
		:: (seen < number && latest == seen) || wrong == 9 -> latest = number
		:: else
		fi;
		returned = (returned < number -> number : returned);
		number = 0;
		seen = 0;
		pending = false;
		goto again
	}
}

#define change_wake() changed_wake = read_wake

/* wake_all(): the word, and FUTEX_WAKE */
inline wake_all()
{
	change_wake();
	asleep = false
}

/* A process's streams: cn_host_signal_run() of a record, mark(). They come to it, fail before, or never come. */
proctype Stream(byte r) provided (runs[r])
{
	byte number;
	bool sleeps, fails;

again:
	atomic {
		submitted[r] != 0 ->
		do
		:: (submitted[r] >> number) & 1 -> break
		:: (submitted[r] >> (number + 1)) != 0 -> number++
		od;
		submitted[r] = submitted[r] & ~(1 << number);
		if
		:: true
		:: troubles -> troubles--; fails = true
#ifdef LIVENESS
		:: number = 0; goto again /* it hangs; without fairness it need not be said */
#endif
		fi;
		if
		:: wrong == 6 -> sleeps = (sleepers != 0)
		:: else
		fi
	};
	atomic {
		if
		:: fails -> failed[number] = true
		:: else -> reached[number] = true
		fi;
		if
		:: wrong == 7 || cells[number % CELLS] == make_word(number, r, PENDING) ->
			cells[number % CELLS] = make_word(number, r, (fails -> DEAD : DONE))
		:: else
		fi
	};
	atomic {
		if
		:: wrong == 6
		:: else -> sleeps = (sleepers != 0)
		fi;
		if
		:: sleeps -> change_wake() /* wake_all(): the word, */
		:: else
		fi;
		number = 0;
		fails = false;
		if
		:: sleeps -> sleeps = false
		:: else -> goto again
		fi
	};
	atomic {
		asleep = false; /* and FUTEX_WAKE */
		goto again
	}
}

/* ---- Deaths ---- */

/* A cell of cn_host_signal_bury() */
inline bury_cell(c, r)
{
	word = cells[c];
	atomic {
		if
		:: word_state(word) == PENDING && word_recorder(word) == r && (cells[c] == word || wrong == 12) ->
			cells[c] = word - PENDING + DEAD
		:: else
		fi;
		word = 0
	}
}

inline bury(r)
{
	bury_cell(0, r);
	bury_cell(1, r);
#if CELLS > 2
	bury_cell(2, r);
#endif
	if
	:: wrong != 8 -> wake_all()
	:: else
	fi
}

/* The service thread of the event's maker: drop_caller(), caller_died(), cn_shared_event_returned(). */
proctype MakersService() provided (runs[0])
{
	byte word;

	!connected;
	if
	:: cut && cuts != 3 && wrong != 13 -> !runs[1]
	:: else
	fi;
	bury(1)
}

/* That of 1, to whom the end of the connection is the maker's: cn_shared_event_orphaned(), bury_all(). */
proctype RecordersService() provided (runs[1])
{
	byte word;

	!connected || !runs[0];
	bury(0)
}

/* That of who waits: the same. */
proctype WaitersService() provided (runs[2])
{
	byte word;

	!runs[0];
	bury(0);
	alone = (wrong != 11);
	wake_all()
}

/* ---- Waiting ---- */

inline read_wake_word()
{
	d_step {
		read_wake = true;
		changed_wake = false
	}
}

/* cn_host_signal_wait() and what the queue does then, or cn_host_signal_sync(). */
proctype Waiter() provided (runs[2])
{
	byte number, waits_left = waits;

again:
	atomic {
		number = 0;
		waits_for = 0;
		waits_left > 0 ->
		waits_left--;
		number = latest;
		assert(number >= returned);
		if
		:: number == 0 -> goto again
		:: else -> waits_for = number
		fi
	};
await: /* await_record() */
	atomic {
		if
		:: is_pending(cells[number % CELLS], number)
		:: else -> goto ended
		fi;
		if
		:: wrong == 5
		:: else -> goto count
		fi
	};
	read_wake_word();
	atomic {
		if
		:: is_pending(cells[number % CELLS], number)
		:: else -> read_wake = false; goto await
		fi
	};
	atomic {
		sleepers++;
		goto sleep
	};
count:
	sleepers++;
	atomic {
		if
		:: wrong == 4 -> goto look
		:: else -> read_wake_word()
		fi
	};
look:
	atomic {
		if
		:: is_pending(cells[number % CELLS], number)
		:: else -> goto uncount
		fi
	};
sleep:
	atomic { /* FUTEX_WAIT */
		if
		:: !changed_wake || wrong == 4 -> asleep = true; read_wake = false
		:: else -> goto uncount
		fi
	};
uncount:
	atomic {
		!asleep ->
		sleepers--;
		read_wake = false;
		changed_wake = false;
		goto await
	};
ended: /* result_of() */
	atomic {
		if
		:: is_dead(cells[number % CELLS], number) ->
			assert(failed[number] || !runs[owner[number]] || !runs[0] || cut)
		:: else ->
			assert(reached[number] || reused[number])
		fi;
		goto again
	}
}

/* ---- The system ---- */

proctype System()
{
	do
	:: atomic { troubles && runs[0] -> troubles--; runs[0] = false }
	:: atomic { troubles && runs[1] -> troubles--; runs[1] = false }
	:: atomic { cuts && troubles && connected -> troubles--; connected = false; cut = true }
	:: troubles -> troubles = 0 /* no more */
	:: atomic { !runs[1] && connected -> connected = false }
	:: atomic { bounded && asleep -> asleep = false } /* FUTEX_WAIT is over */
	od
}

/* An opener of the event that neither records nor waits. */
proctype Liar()
{
	do
	:: atomic { lies -> lies--; sleepers = 0 }
	:: atomic { lies -> lies--; sleepers = 255 } /* one more makes 0 */
	od
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			now.troubles = bound("TROUBLES");
			records_of_0 = bound("RECORDS_OF_0");
			records_of_1 = bound("RECORDS_OF_1");
			waits = bound("WAITS");
			at_once = bound("AT_ONCE");
			cuts = bound("CUTS");
			now.lies = bound("LIES");
			now.bounded = now.lies && wrong != 14;
		};
		assert(CELLS + (records_of_0 + records_of_1) * CELLS <= NUMBERS);
		run Recorder(0);
		run Recorder(1);
		run Stream(0);
		run Stream(1);
		run MakersService();
		if
		:: cuts == 2 -> run RecordersService() /* else it does what WaitersService() does, and nothing more */
		:: else
		fi;
		run WaitersService();
		run Waiter();
		if
		:: lies -> run Liar()
		:: else
		fi;
		run System()
	}
}

#ifdef LIVENESS
ltl released { [] <> !(waits_for != 0 && settled(waits_for)) }
#endif

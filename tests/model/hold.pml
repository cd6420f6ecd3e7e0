/* SPDX-License-Identifier: MIT */
/*
 * Import against free: who holds a block, and when its exporter may give it out again.
 *
 * What is one step here is one load or store of shared memory, one system call, or something that nobody else can see.
 * All loads and stores that meet here are sequentially consistent in C (control.h), so interleaving them is exact; a
 * weaker store would be one that is done after the load behind it, which is wrong 1, 2 and 3. Sections under the
 * export's lock are serialised by `export_lock`. Those under an import's lock are serialised because one process here
 * does all of them: the calls of the importer's program and the notes that its streams come to. Wherever a process
 * stands, it can be killed there (`provided`).
 *
 * Not here: memory and its serials (parts.pml); joining, since a ledger is known to the exporter before the importer is
 * welcome; a peer whose process cannot be seen (no pidfd), for whom the ledger must do; more lives of
 * a slot, imports and troubles than the bounds say.
 *
 * An end is looked for in the ledgers at once, or put off and looked for with others: here the exporter does as it
 * likes. That what is put off is looked for in the end stands for the pool's asking when it needs memory.
 *
 * Two promises. Safety: what is given back to the pool, or imported, is so that nobody else has it. Liveness, under
 * weak fairness: what was freed and is not in use is given back in the end, whichever process was killed meanwhile.
 */

#include "bounds.inc"

#ifndef IMPORTERS
#define IMPORTERS 1
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
hidden byte lives, imports; /* of each slot; calls of each importer */
byte troubles; /* a process killed, an importer shut out, an import closed, a message that is not sent */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety: the importer loads the generation before it stores its bit
 * wrong 2 safety: the exporter looks at the ledgers before it stores the end
 * wrong 3 liveness: the importer looks whether the export has ended before its bit is out
 * wrong 4 liveness: an import that is refused takes its bit out and tells nobody
 * wrong 5 liveness: the job that says released is marked as done after it has sent
 * wrong 6 liveness: a message for which there was no room is not sent again
 * wrong 7 liveness: who leaves is not looked at again
 * wrong 8 safety: the end of a channel is the end of what was held
 * wrong 9 safety: on a GPU a final ledger is enough
 * wrong 10 liveness: when an importer is gone nobody looks again
 * wrong 11 safety: a slot's next life has the same generation
 * wrong 12 safety: a free of what was imported acts at once, and not when its stream comes to it
 * wrong 13 safety: what is pending is imported again without a look at the generation
 * wrong 14 liveness: what is put off is not looked for when somebody looks again, or needs memory
 */
hidden byte wrong;
bool gpu; /* cn_device_ops->use_ends_with_mapping is false: work outlives the mapping */

/* ---- Shared memory ---- */

#define PAIR(i, s) ((i) * SLOTS + (s))

byte generation[SLOTS];       /* cn_control_slot.generation */
bool bits[IMPORTERS * SLOTS]; /* cn_ledger.held */
byte held_count[IMPORTERS];   /* cn_ledger.held_count */

/* ---- The system ---- */

bool exporter_runs = true;
bool importer_runs[IMPORTERS] = true, maps[IMPORTERS] = true, gone[IMPORTERS];
bool near_end[IMPORTERS] = true; /* of the channel: the importer's; */
bool far_end[IMPORTERS] = true;  /* the exporter's */
chan channel[IMPORTERS] = [1] of { bit }; /* CN_MESSAGE_RELEASED */

/* ---- The exporter's own ---- */

bool export_lock;
byte births[SLOTS];
#define life(s) (wrong == 11 -> 1 : 2 * births[s] - 1) /* cn_export_slot.generation */
bool ended[SLOTS], deferred[SLOTS];
bool listed[IMPORTERS] = true, leaving[IMPORTERS], evicted[IMPORTERS];

/* ---- The importers' own ---- */

typedef held {
	byte generation, import_count, pending_count;
}
held ours[IMPORTERS * SLOTS]; /* cn_held */
bool over[IMPORTERS];         /* state is not CN_IMPORT_ALIVE */
bool closed[IMPORTERS], end_posted[IMPORTERS], release_posted[IMPORTERS], retry[IMPORTERS];

/* ---- What is true, which nobody can see ---- */

bool out[SLOTS];              /* the block is exported and not back in the pool */
bool freed[SLOTS];            /* its life has ended */
byte uses[IMPORTERS * SLOTS]; /* the generation whose block the importer's program or streams may touch; 0: none */

#define touches(i, s) (uses[PAIR(i, s)] != 0 && ((gpu && !gone[i]) || (!gpu && maps[i])))
#if IMPORTERS == 1
#define unused(s) (!touches(0, s))
#else
#define unused(s) (!touches(0, s) && !touches(1, s))
#endif

/* cn_importer_is_gone(). Each of its three questions has an answer that never changes back: so it is one step. */
#define is_gone(i) (gone[i] || (!maps[i] && (!gpu || wrong == 9 || held_count[i] == 0)))

/* ---- The exporter ---- */

/* One for whom there is something to do: a process must not decide for another and wait for him. */
#if IMPORTERS == 1
#define any(ready) ready(0)
#define choose(i, ready) ready(0) -> i = 0
#else
#define any(ready) (ready(0) || ready(1))
#define choose(i, ready) if :: ready(0) -> i = 0 :: ready(1) -> i = 1 fi
#endif

/* begin_life(): the block's place, its parts (parts.pml) and then the generation */
inline begin_life(s)
{
	births[s]++;
	out[s] = true;
	generation[s] = life(s)
}

/* cn_pool_free_deferred(), give_slot() */
inline give_back(s)
{
	assert(unused(s));
	out[s] = false;
	freed[s] = false
}

/*
 * is_held(): holds(), a load for each importer, and cn_importer_is_gone() where the bit is set. Together they are
 * one step: what is gone stays gone, so "held" was true at the load, and "not held" is true at the question.
 */
#define is_held_by(i, s) (listed[i] && bits[PAIR(i, s)] && !is_gone(i))

inline look_whether_held(s)
{
	is_held = is_held_by(0, s);
#if IMPORTERS > 1
	is_held = (is_held || is_held_by(1, s))
#endif
}

inline store_end(s)
{
	d_step {
		generation[s] = life(s) + 1;
		freed[s] = true
	}
}

/* The exporter's program and streams: cn_export_pointer(), and end_life() when a stream comes to the free. */
proctype Exporter() provided (exporter_runs)
{
	byte s;
	bool is_held;

again:
	if
	:: atomic { !export_lock && !out[0] && births[0] < lives -> begin_life(0); goto again }
	:: atomic { !export_lock && out[0] && !freed[0] -> export_lock = true }
	:: atomic { !export_lock && ended[0] && wrong != 14 -> export_lock = true; goto look }
#if SLOTS > 1
	:: atomic { !export_lock && !out[1] && births[1] < lives -> begin_life(1); goto again }
	:: atomic { !export_lock && out[1] && !freed[1] -> export_lock = true; s = 1 }
	:: atomic { !export_lock && ended[1] && wrong != 14 -> export_lock = true; s = 1; goto look }
#endif
	fi;
	/* end_life() */
	atomic {
		if
		:: wrong != 2 -> store_end(s)
		:: wrong != 2 -> /* put_off() */
			store_end(s);
			ended[s] = true;
			export_lock = false;
			s = 0;
			goto again
		:: else -> goto wrong_end
		fi
	};
look: /* is_held(), look_at_ended() */
	look_whether_held(s);
give:
	atomic {
		ended[s] = false;
		if
		:: is_held -> deferred[s] = true /* defer() */
		:: else -> give_back(s)
		fi;
		export_lock = false;
		s = 0;
		is_held = false;
		goto again
	};
wrong_end:
	look_whether_held(s);
	atomic {
		store_end(s);
		goto give
	}
}

/* cn_export_rescan(), a slot of it */
inline look_at_deferred(s)
{
	if
	:: deferred[s] || (ended[s] && wrong != 14) ->
		look_whether_held(s);
		atomic {
			ended[s] = false;
			deferred[s] = is_held; /* defer(), undefer() */
			if
			:: !is_held -> give_back(s)
			:: else
			fi;
			is_held = false
		}
	:: else
	fi
}

#if SLOTS == 1
#define nothing_deferred (!deferred[0] && !ended[0])
#else
#define nothing_deferred (!deferred[0] && !ended[0] && !deferred[1] && !ended[1])
#endif

/* forget(): who is gone for good is on no list, and all is looked through without him. */
inline forget(i)
{
	listed[i] = false; /* unlist() */
	far_end[i] = false;
	if
	:: wrong == 10 -> goto again
	:: else
	fi
}

/* leave() */
inline leave(i)
{
	if
	:: is_gone(i) || wrong == 8 -> forget(i)
	:: else ->
		far_end[i] = false; /* cn_service_unwatch() */
		leaving[i] = true
	fi
}

#define has_news(i) \
	(listed[i] && ((leaving[i] && wrong != 7) || \
		       (!leaving[i] && (len(channel[i]) != 0 || !near_end[i] || evicted[i]))))

/* The exporter's service thread. */
proctype ExporterService() provided (exporter_runs)
{
	byte i;
	bool is_held;

again:
	atomic {
		choose(i, has_news);
		if
		:: listed[i] && !leaving[i] && len(channel[i]) != 0 -> /* channel_ready(), serve() */
			channel[i]?_
		:: listed[i] && !leaving[i] && len(channel[i]) == 0 && !near_end[i] -> /* the channel has ended */
			!export_lock -> leave(i)
		:: listed[i] && !leaving[i] && evicted[i] -> /* cn_importers_evict() */
			!export_lock -> leave(i)
		:: listed[i] && leaving[i] && wrong != 7 -> /* look_if_gone() */
			!export_lock ->
			if
			:: is_gone(i) -> forget(i)
			:: else
			fi
		fi;
		i = 0
	};
	atomic { /* cn_export_rescan() */
		!export_lock ->
		if
		:: nothing_deferred -> goto again
		:: else -> export_lock = true
		fi
	};
	look_at_deferred(0);
#if SLOTS > 1
	look_at_deferred(1);
#endif
	atomic {
		export_lock = false;
		goto again
	}
}

/* ---- An importer ---- */

/* cn_import_tell_locked() */
inline tell(i)
{
	release_posted[i] = true
}

/* take_bit_out(): a store, then a load. */
inline take_bit_out(i, s, g, tells)
{
	d_step {
		if
		:: wrong == 3 -> seen = (generation[s] == g)
		:: else -> bits[PAIR(i, s)] = false
		fi
	};
	d_step {
		if
		:: wrong == 3 -> bits[PAIR(i, s)] = false
		:: else -> seen = (generation[s] == g)
		fi;
		if
		:: !seen && tells -> tell(i)
		:: else
		fi
	}
}

/* An export can be imported: it is what was named, and had not ended when that was asked for. */
inline imported(i, s, g)
{
	assert(!late && out[s] && life(s) == g);
	uses[PAIR(i, s)] = g;
	ours[PAIR(i, s)].generation = g;
	ours[PAIR(i, s)].import_count++
}

/* hold(): a store, then a load. What a success leads to is nobody else's to see. */
inline hold(i, s, g)
{
	d_step {
		if
		:: wrong == 1 -> seen = (generation[s] == g)
		:: else -> bits[PAIR(i, s)] = true
		fi
	};
	d_step {
		if
		:: wrong == 1 -> bits[PAIR(i, s)] = true
		:: else -> seen = (generation[s] == g)
		fi;
		if
		:: seen ->
			held_count[i]++; /* count_held() */
			imported(i, s, g)
		:: else
		fi
	}
}

#define mine ours[PAIR(i, s)]
#define can_do(s) (!rests || ours[PAIR(i, s)].pending_count > 0)
#if SLOTS == 1
#define choose_slot(s) can_do(0) -> s = 0
#else
#define choose_slot(s) if :: can_do(0) -> s = 0 :: can_do(1) -> s = 1 fi
#endif

/* The importer's program and streams. It may keep what it has for ever, and import what has ended long ago. */
proctype Importer(byte i) provided (importer_runs[i])
{
	byte s, g, calls = imports;
	bool late, seen, rests;

again:
	atomic {
		s = 0;
		g = 0;
		late = false;
		seen = false;
		choose_slot(s);
		if
		:: !rests && calls > 0 && !over[i] && !closed[i] && births[s] > 0 ->
			/* cn_import_pointer(), import_locked() */
			calls--;
			if /* which export's name? */
			:: g = births[s]
			:: births[s] > 1 -> g = births[s] - 1
			fi;
			late = (g != births[s] || freed[s]);
			g = (wrong == 11 -> 1 : 2 * g - 1);
			if
			:: mine.import_count && mine.generation == g ->
				late = false; /* nothing is asked: what has ended is imported once more */
				imported(i, s, g);
				goto again
			:: mine.import_count && mine.generation != g -> goto again
			:: !mine.import_count && mine.pending_count ->
				if
				:: mine.generation == g && (generation[s] == g || wrong == 13) -> imported(i, s, g)
				:: else
				fi;
				goto again
			:: else -> goto import
			fi
		:: !rests && mine.import_count > 0 -> /* cn_import_free(), begin_free() */
			mine.import_count--;
			if
			:: mine.import_count == 0 ->
				mine.pending_count++;
				if
				:: wrong == 12 -> bits[PAIR(i, s)] = false
				:: else
				fi
			:: else
			fi;
			goto again
		:: mine.pending_count > 0 -> /* release_reached() */
			mine.pending_count--;
			if
			:: mine.pending_count == 0 && mine.import_count == 0 ->
				uses[PAIR(i, s)] = 0; /* let_go() */
				g = mine.generation;
				mine.generation = 0;
				held_count[i]--;
				goto let_go
			:: else -> goto again
			fi
		:: !rests && !closed[i] && troubles -> /* cn_import_close() */
			troubles--;
			closed[i] = true;
			end_posted[i] = (held_count[i] == 0);
			goto again
		:: !rests -> /* the program calls nothing more; its streams go on */
			rests = true;
			goto again
		fi
	};
import:
	hold(i, s, g);
	atomic {
		if
		:: seen -> goto again
		:: else
		fi
	};
	take_bit_out(i, s, g, wrong != 4);
	atomic { goto again };
let_go:
	take_bit_out(i, s, g, true);
	atomic { /* cn_import_end_locked() */
		end_posted[i] = (closed[i] && held_count[i] == 0);
		goto again
	}
}

/* The importer's service thread. Jobs are done in the order in which they were posted. */
proctype ImporterService(byte i) provided (importer_runs[i])
{
again:
	if
	:: atomic { /* say_released(), channel_due() */
		release_posted[i] || retry[i] ->
		if
		:: retry[i] -> retry[i] = false
		:: !retry[i] && wrong != 5 -> release_posted[i] = false
		:: else
		fi
	   }
	:: atomic { near_end[i] && !far_end[i] -> /* lose_channel() */
		near_end[i] = false;
		over[i] = true;
		goto again
	   }
	:: atomic { end_posted[i] && !release_posted[i] -> /* take_apart() */
		maps[i] = false;
		goto closing
	   }
	fi;
	atomic { /* send_released() */
		if
		:: near_end[i] && far_end[i] && len(channel[i]) == 0 -> channel[i]!0
		:: near_end[i] && far_end[i] && len(channel[i]) != 0 -> retry[i] = (wrong != 6)
		:: near_end[i] && far_end[i] && troubles -> /* no room for it, whatever the reason */
			troubles--;
			retry[i] = (wrong != 6)
		:: else
		fi;
		if
		:: wrong != 5 -> goto again
		:: else
		fi
	};
	atomic {
		release_posted[i] = false;
		goto again
	};
closing:
	near_end[i] = false
}

/* ---- The system ---- */

#define can_have_trouble(i) (importer_runs[i] || !evicted[i])

/* Kills, and does what the system does for the dead: mapping and descriptors go, in any order, and then the process. */
proctype System()
{
	byte i;

	do
	:: atomic { troubles && exporter_runs -> troubles--; exporter_runs = false }
	:: atomic {
		troubles && any(can_have_trouble) ->
		choose(i, can_have_trouble);
		if
		:: importer_runs[i] -> importer_runs[i] = false; troubles--
		:: !evicted[i] -> evicted[i] = true; troubles-- /* cn_export_evict() */
		fi;
		i = 0
	   }
	:: troubles -> troubles = 0 /* no more */
	:: d_step { !exporter_runs && far_end[0] -> far_end[0] = false }
	:: d_step { !importer_runs[0] && maps[0] -> maps[0] = false }
	:: d_step { !importer_runs[0] && near_end[0] -> near_end[0] = false }
	:: d_step { !importer_runs[0] && !maps[0] && !near_end[0] && !gone[0] -> gone[0] = true }
#if IMPORTERS > 1
	:: d_step { !exporter_runs && far_end[1] -> far_end[1] = false }
	:: d_step { !importer_runs[1] && maps[1] -> maps[1] = false }
	:: d_step { !importer_runs[1] && near_end[1] -> near_end[1] = false }
	:: d_step { !importer_runs[1] && !maps[1] && !near_end[1] && !gone[1] -> gone[1] = true }
#endif
	od
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			now.troubles = bound("TROUBLES");
			lives = bound("LIVES");
			imports = bound("IMPORTS");
		};
		if :: gpu = false :: gpu = true fi;
		run Exporter();
		run ExporterService();
		run Importer(0);
		run ImporterService(0);
#if IMPORTERS > 1
		run Importer(1);
		run ImporterService(1);
#endif
		run System()
	}
}

#ifdef LIVENESS
#define leaked(s) (exporter_runs && out[s] && freed[s] && unused(s))
#if SLOTS == 1
ltl given_back { [] <> !leaked(0) }
#else
ltl given_back { [] <> !leaked(0) && [] <> !leaked(1) }
#endif
#endif

/* SPDX-License-Identifier: MIT */
/*
 * The memory of a shared pool: parts that lose their memory and get other memory, and an importer that must have mapped
 * what a block lies in, and must let go of what is lost (control.h, export.c, importers.c, import_parts.c).
 *
 * Two parts; one slot, whose blocks lie in one of the parts or in both. One importer, with a thread that imports and
 * frees, and its service thread. What is one step here is one load or store of shared memory, one message, or something
 * that nobody else can see. The words and the note are sequentially consistent in C, where they are not read behind a
 * generation that was loaded so; interleaving is exact. The exporter can be killed wherever it stands (`provided`).
 *
 * Taken from hold.pml: a bit that is out is seen to be out in the end, so here the exporter looks when it likes. Not
 * here: joining; several threads that ask, of which `asking` lets one do so at a time.
 *
 * Safety: what was imported lies in the memory that is mapped, from then on until it is let go of; no part is asked for
 * twice in one import; a block that lives is never refused for want of its memory; nothing is unmapped that is held.
 * Liveness, under weak fairness: what has lost its memory, or its exporter, and of which nothing is held, is unmapped.
 */

#include "bounds.inc"

#define PARTS 2
hidden byte lives, imports, trims; /* of the slot; calls of the importer; of the pool */
byte troubles;                     /* the exporter killed */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety TROUBLES=0: what is mapped is not compared with what is shown
 * wrong 2 safety TROUBLES=0: the serials are written after the generation
 * wrong 3 safety TROUBLES=0: the serials are read before the generation
 * wrong 4 safety TROUBLES=0: memory is taken from a part in which a freed block is still held
 * wrong 5 liveness TRIMS=2: the importer notes after its look which message it has looked into
 * wrong 6 liveness TRIMS=2: the exporter reads that note before it has cleared the words
 * wrong 7 liveness TRIMS=2: the exporter's job is marked as done after it has looked at the words
 * wrong 8 safety TROUBLES=1 LIVES=1 IMPORTS=1 TRIMS=0: what is held is unmapped with the rest
 * wrong 9 liveness TROUBLES=0: a look that was put off while a thread was busy is forgotten
 * wrong 10 liveness TROUBLES=1 LIVES=1 IMPORTS=1 TRIMS=0: an importer that has lost the exporter keeps what it has mapped
 * wrong 11 safety TROUBLES=0: a word is compared and cleared without the export's lock
 * wrong 12 liveness TROUBLES=0: other memory comes to a part before it was said that the first has gone
 */
hidden byte wrong;

/* ---- Shared memory ---- */

byte generation, begin, end; /* cn_control_slot, the place in parts */
byte serials[PARTS];         /* cn_control.serials */
bool shown;                  /* cn_ledger.held */
byte parts_seen;             /* cn_ledger.parts_seen */

/* ---- The channel ---- */

mtype = { PART, LOST };
bool exporter_runs = true;
bool connected = true;
chan questions = [1] of { byte };           /* CN_MESSAGE_PART: a part */
chan answers = [2] of { mtype, byte, byte }; /* PART: a part and its serial, 0: refused; LOST: CN_MESSAGE_PARTS */

/* ---- The exporter's own ---- */

bool export_lock;
byte births;
bool out, freed;          /* the block is exported; its life has ended */
byte memory[PARTS];       /* cn_pool_serial(): what is there; 0: nothing */
byte last_serial[PARTS];
bool lent[PARTS];         /* an importer may have it */
byte moving = PARTS;      /* is being trimmed: the heap hands out nothing there */
bool parts_posted;
byte parts_told;

#define lies_in(p) (out && begin <= (p) && (p) <= end)
#define life (2 * births - 1)

/* ---- The importer's own ---- */

bool import_lock, asking, reading, busy, over;
bool drop_wanted, drop_posted;
byte mapped[PARTS]; /* cn_mapped.serial; 0: not mapped */
bool held[PARTS];   /* cn_mapped.hold_count */

/* ---- The exporter ---- */

inline show_part(p)
{
	if
	:: begin <= p && p <= end -> serials[p] = memory[p]
	:: else
	fi
}

inline commit(p)
{
	if
	:: begin <= p && p <= end && !memory[p] ->
		last_serial[p]++;
		memory[p] = last_serial[p];
		lent[p] = false
	:: else
	fi
}

inline give_back()
{
	out = false;
	freed = false
}

/* The exporter's program and streams. */
proctype Exporter() provided (exporter_runs)
{
again:
	if
	:: atomic { /* an allocation, cn_cuda_arena_commit(), and cn_export_pointer(), begin_life() */
		!out && births < lives && !export_lock ->
		if
		:: (moving != 0 || wrong == 12) -> begin = 0; end = 0
		:: (moving != 1 || wrong == 12) -> begin = 1; end = 1
		:: (moving == PARTS || wrong == 12) -> begin = 0; end = 1
		fi;
		births++;
		out = true;
		commit(0);
		commit(1);
		export_lock = true;
		if
		:: wrong == 2 -> generation = life
		:: else
		fi
	   };
	   atomic { show_part(0) };
	   atomic { show_part(1) };
	   atomic {
		generation = life;
		export_lock = false;
		goto again
	   }
	:: atomic { /* end_life() */
		out && !freed && !export_lock && generation == life ->
		export_lock = true;
		freed = true;
		generation = life + 1
	   };
	   atomic { /* is_held(); else deferred, and ExporterService looks again */
		if
		:: !shown -> give_back()
		:: else
		fi;
		export_lock = false;
		goto again
	   }
	fi
}

/* The pool is trimmed: cn_cuda_arena_decommit(), lose_part(). */
proctype Trimmer() provided (exporter_runs)
{
	byte p, left = trims;

again:
	atomic {
		left > 0 && ((memory[0] && !lies_in(0)) || (memory[1] && !lies_in(1)) || (wrong == 4 && freed)) ->
		if
		:: memory[0] && (!lies_in(0) || (wrong == 4 && freed)) -> p = 0
		:: memory[1] && (!lies_in(1) || (wrong == 4 && freed)) -> p = 1
		:: else -> goto again
		fi;
		left--;
		moving = p;
		memory[p] = 0
	};
	atomic {
		!export_lock ->
		if
		:: lent[p] -> parts_posted = true
		:: else
		fi;
		moving = PARTS;
		p = 0;
		goto again
	}
}

/* A word of hide_parts() */
inline hide_part(p)
{
	atomic {
		!export_lock || wrong == 11 ->
		changed = (serials[p] != 0 && serials[p] != memory[p]);
		if
		:: changed && wrong != 11 -> serials[p] = 0
		:: else
		fi
	};
	atomic {
		if
		:: changed && wrong == 11 -> serials[p] = 0
		:: else
		fi;
		changed = false
	}
}

/* tell_parts() */
inline tell_parts()
{
	if
	:: tells ->
		parts_told++;
		answers!LOST(parts_told, 0)
	:: else
	fi
}

/* The exporter's service thread. */
proctype ExporterService() provided (exporter_runs)
{
	byte p;
	bool changed, tells;

again:
	if
	:: atomic { /* cn_export_rescan() */
		out && freed && !export_lock && !shown ->
		give_back();
		goto again
	   }
	:: atomic { /* send_part(), cn_cuda_arena_part() */
		questions?p ->
		if
		:: memory[p] -> lent[p] = true
		:: else
		fi;
		answers!PART(p, memory[p]);
		p = 0;
		goto again
	   }
	:: atomic { /* hide_parts() */
		parts_posted ->
		if
		:: wrong != 7 -> parts_posted = false
		:: else
		fi;
		if
		:: wrong == 6 -> tells = (parts_seen == parts_told)
		:: else
		fi
	   }
	fi;
	hide_part(0);
	hide_part(1);
	atomic { /* cn_importers_tell_parts() */
		if
		:: wrong != 6 -> tells = (parts_seen == parts_told)
		:: else
		fi;
		tell_parts();
		tells = false;
		if
		:: wrong == 7
		:: else -> goto again
		fi
	};
	atomic {
		parts_posted = false;
		goto again
	}
}

/* ---- The importer ---- */

/* cn_import_want_drop_locked() */
inline want_drop()
{
	drop_wanted = true;
	drop_posted = !busy
}

/* unmap(): false: something in it is held. The table is changed under the lock; `asking` is held. */
inline unmap(p)
{
	!import_lock ->
	if
	:: !held[p] || wrong == 8 -> mapped[p] = 0
	:: else
	fi
}

/* cn_import_hear(), look_at_parts() */
inline hear(number)
{
	if
	:: wrong != 5 -> parts_seen = number
	:: else -> unseen = number
	fi
}

/* has_parts() of a block's first part that is not mapped as it is shown; a part is a step. */
inline look_at_part(p)
{
	if
	:: from <= p && p <= to && missing == PARTS && (!mapped[p] || (mapped[p] != serials[p] && wrong != 1)) ->
		missing = p
	:: else
	fi
}

/* The importer's thread: cn_import_pointer(), and release_reached() when a stream comes to the free. */
proctype Importer()
{
	byte g, from, to, missing, p, serial, asks, calls = imports;
	bool vain;

again:
	atomic {
		calls > 0 && !over && births > 0 && !import_lock ->
		calls--;
		import_lock = true;
		if
		:: g = births
		:: births > 1 -> g = births - 1
		fi;
		g = 2 * g - 1;
		asks = 0
	};
hold: /* hold(): a store, a load; the place and the serials behind it */
	atomic {
		missing = PARTS;
		if
		:: wrong == 3 ->
			from = begin;
			to = end;
			look_at_part(0);
			look_at_part(1)
		:: else
		fi
	};
	shown = true;
	atomic {
		if
		:: generation != g -> goto refused
		:: else ->
			if
			:: wrong == 3 -> goto looked
			:: else
			fi;
			from = begin;
			to = end
		fi
	};
	atomic { look_at_part(0) };
	atomic { look_at_part(1) };
looked:
	atomic {
		if
		:: missing != PARTS && vain ->
			assert(!exporter_runs); /* nobody takes the memory of a block that lives */
			goto refused
		:: missing != PARTS && !vain -> goto map
		:: else
		fi;
		/* hold_parts() */
		assert(out && life == g);
		assert(!(from == 0) || mapped[0] == memory[0]);
		assert(!(to == 1) || mapped[1] == memory[1]);
		held[0] = (from == 0);
		held[1] = (to == 1);
		import_lock = false;
		if
		:: busy -> busy = false; drop_posted = (drop_wanted && wrong != 9) /* cn_import_unbusy_locked() */
		:: else
		fi
	};
	atomic { /* release_reached(), let_go() */
		!import_lock ->
		assert(!held[0] || (mapped[0] && mapped[0] == memory[0]));
		assert(!held[1] || (mapped[1] && mapped[1] == memory[1]));
		held[0] = false;
		held[1] = false;
		if
		:: over -> want_drop() /* leave_parts() */
		:: else
		fi;
		from = 0;
		to = 0
	};
	atomic {
		shown = false;
		g = 0;
		asks = 0;
		vain = false;
		missing = 0;
		goto again
	};
refused:
	atomic {
		shown = false;
		import_lock = false;
		if
		:: busy -> busy = false; drop_posted = (drop_wanted && wrong != 9)
		:: else
		fi;
		g = 0;
		asks = 0;
		vain = false;
		missing = 0;
		from = 0;
		to = 0;
		goto again
	};
map: /* import_mapping(), cn_import_map() */
	atomic {
		shown = false; /* take_bit_out() */
		busy = true;
		import_lock = false;
		from = 0;
		to = 0
	};
	atomic {
		!asking && !reading ->
		asking = true;
		reading = true;
		if
		:: connected && exporter_runs -> /* ask_part() */
			questions!missing;
			asks++;
			assert(asks <= PARTS)
		:: else ->
			vain = true;
			goto asked
		fi
	};
await: /* cn_import_ask() */
	atomic {
		if
		:: answers?PART(p, serial) -> goto answered
		:: answers?LOST(p, serial) ->
			parts_seen = p;
			p = 0
		:: !exporter_runs && len(answers) == 0 ->
			vain = true;
			goto asked
		fi
	};
	atomic {
		!import_lock ->
		want_drop();
		goto await
	};
answered: /* take_part() */
	atomic {
		if
		:: serial == 0 -> vain = true /* refused */
		:: serial != serials[p] -> serial = 0 /* the block is not what it was */
		:: else
		fi
	};
	atomic {
		if
		:: serial && mapped[p] ->
			assert(!held[p]);
			unmap(p)
		:: else
		fi
	};
	atomic {
		!import_lock ->
		if
		:: serial -> mapped[p] = serial /* view_map() */
		:: else
		fi
	};
asked:
	atomic {
		asking = false;
		reading = false;
		p = 0;
		serial = 0
	};
	atomic {
		!import_lock ->
		import_lock = true;
		if
		:: over -> goto refused
		:: else -> goto hold
		fi
	}
}

/* cn_import_drop_parts(): a part of it. `asking` is held. */
inline drop_part(p)
{
	atomic {
		if
		:: mapped[p] && (over || serials[p] != mapped[p]) -> /* is_useless() */
			useless = true
		:: else
		fi
	};
	atomic {
		if
		:: useless ->
			useless = false;
			unmap(p)
		:: else
		fi
	}
}

/* The importer's service thread. */
proctype ImporterService()
{
	byte number, unseen;
	bool useless;

again:
	if
	:: atomic { /* channel_ready() */
		!reading && nempty(answers) ->
		if
		:: answers?LOST(number, _) -> hear(number)
		:: answers?PART(_, _) -> goto again /* too late */
		fi;
		number = 0
	   };
	   atomic { !import_lock -> want_drop(); goto again }
	:: atomic { /* lose_channel() */
		!reading && !exporter_runs && connected && empty(answers) && !import_lock ->
		connected = false;
		over = true;
		if
		:: wrong != 10 -> want_drop()
		:: else
		fi;
		goto again
	   }
	:: atomic { /* cn_import_drop_parts() */
		drop_posted && !import_lock ->
		drop_posted = false;
		if
		:: busy || asking -> goto again
		:: else
		fi;
		drop_wanted = false;
		asking = true
	   }
	fi;
	drop_part(0);
	drop_part(1);
	atomic {
		asking = false;
		if
		:: unseen -> parts_seen = unseen; unseen = 0
		:: else
		fi;
		goto again
	}
}

/* ---- The system ---- */

proctype System()
{
	if
	:: atomic { troubles -> troubles = 0; exporter_runs = false }
	:: troubles = 0
	fi
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			now.troubles = bound("TROUBLES");
			lives = bound("LIVES");
			imports = bound("IMPORTS");
			trims = bound("TRIMS");
		};
		run Exporter();
		run Trimmer();
		run ExporterService();
		run Importer();
		run ImporterService();
		run System()
	}
}

#ifdef LIVENESS
#define is_kept(p) (mapped[p] != 0 && !held[p] && (!exporter_runs || mapped[p] != memory[p]))
ltl unmapped { [] <> !is_kept(0) && [] <> !is_kept(1) }
#endif

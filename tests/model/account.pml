/* SPDX-License-Identifier: MIT */
/*
 * One account for one device: how processes take bytes of it (src/base/account.h, src/device/host/host_account.c).
 *
 * A step is one system call, or the store of a header's check, or something that no other process can see: a header is
 * written at one instant, and read at one, since a reader whose check fails takes the header before it. A sum in which
 * nothing changed meanwhile, and no process was found to have died, is one instant, too. Wherever a process stands it
 * can be killed there (`provided`); what it had no longer counts, and its turn ends.
 *
 * Process 0 has made a file of one unit, which process 1 may hold. They and process 2
 * take one or two units of three, so many times, and give back what they have.
 *
 * Not here: slots and which process gets them; a process that is stopped, for which the others do not wait for ever:
 * that they count what it has bid, and refuse what may be there, is no harm to what is promised; files in messages,
 * which no process holds while their maker dies.
 *
 * Safety: what live processes have made, and the file while a live one holds it, is never more than there is; and a
 * process is refused only if what it wants was not there at some instant. Liveness, under weak fairness: every process
 * that is not killed comes to its end, however many want the same.
 */

#include "bounds.inc"

#ifndef PROCESSES
#define PROCESSES 3
#endif
#define CAPACITY 3
hidden byte takes, takes_of_maker;
byte troubles; /* a process killed */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety: a process adds up before it bids
 * wrong 2 safety: in turn, a process does not wait for bids that were there before
 * wrong 3 safety TAKES_OF_MAKER=1 TROUBLES=0: in turn, a process notes the others' bids before it bids
 * wrong 4 liveness: a turn does not end with its process
 * wrong 5 safety: a process that sees too many bids is refused, and does not try again in turn
 * wrong 6 safety: entries are read before headers
 */
hidden byte wrong;

/* ---- The file of the account ---- */

bool runs[PROCESSES] = true; /* the lock of its slot */
byte made[PROCESSES], bid[PROCESSES], bids[PROCESSES];
bool lists_file; /* process 0, which counts it */
bool held;       /* by process 1 */
bool turn;
byte turn_owner;
bool done[PROCESSES];

#define orphans() (held && runs[1] && !(lists_file && runs[0]))
#define used()    (runs[0] * made[0] + runs[1] * made[1] + runs[2] * made[2] + orphans())

/* ---- Taking ---- */

#define place_bid() bid[me] = want; bids[me]++

/* Its own it knows; each other header is read at an instant, and then the entries. */
inline add_up()
{
	atomic {
		total = made[me] + want;
		maker_seen = (me == 0 && lists_file);
		holder_seen = (wrong == 6 && held && runs[1]);
		i = 0
	};
	do
	:: i < PROCESSES -> atomic {
		if
		:: i != me && runs[i] ->
			total = total + made[i] + bid[i];
			maker_seen = maker_seen || (i == 0 && lists_file)
		:: else
		fi;
		i++
	   }
	:: else -> break
	od;
	atomic {
		total = total + ((wrong == 6 -> holder_seen : held && runs[1]) && !maker_seen);
		maker_seen = false;
		holder_seen = false;
		i = 0
	}
}

inline settle()
{
	atomic {
		made[me] = made[me] + bid[me];
		bid[me] = 0;
		assert(used() <= CAPACITY)
	}
}

/* In turn: bid, wait for those that had bid before, decide. */
inline take_in_turn()
{
	atomic { !turn -> turn = true; turn_owner = me };
	if
	:: wrong != 3 -> atomic { place_bid() }
	:: else
	fi;
	do
	:: i < PROCESSES -> atomic { noted[i] = (i != me && bid[i] && runs[i] -> bids[i] : 0); i++ }
	:: else -> break
	od;
	if
	:: wrong == 3 -> atomic { place_bid() }
	:: else
	fi;
	atomic { i = 0 };
	do
	:: i < PROCESSES -> atomic {
		!noted[i] || wrong == 2 || !runs[i] || !bid[i] || bids[i] != noted[i] ->
		noted[i] = 0;
		i++
	   }
	:: else -> break
	od;
	atomic { contended = (used() + want <= CAPACITY); i = 0 }; /* a sum in which nothing changed */
	if
	:: contended -> settle()
	:: else -> bid[me] = 0
	fi;
	turn = false
}

inline take()
{
	if
	:: wrong != 1 -> atomic { place_bid() }; add_up()
	:: else -> add_up(); atomic { place_bid() }
	fi;
	if
	:: total <= CAPACITY -> atomic { total = 0; contended = false }; settle()
	:: else ->
		atomic { /* a sum in which nothing changed */
			total = 0;
			contended = (used() + want <= CAPACITY);
			assert(wrong != 5 || !contended)
		};
		bid[me] = 0;
		if
		:: contended -> take_in_turn()
		:: else
		fi
	fi;
	atomic { want = 0; contended = false }
}

proctype Process(byte me) provided (runs[me])
{
	byte left = (me == 0 -> takes_of_maker : takes), want, total, i;
	byte noted[PROCESSES];
	bool maker_seen, holder_seen, contended;

	do
	:: atomic { left -> left--; want = 1 }; take()
	:: atomic { left -> left--; want = 2 }; take()
	:: atomic { me == 0 && lists_file -> lists_file = false; made[0] = made[0] - 1 }
	:: atomic { left && made[me] > (me == 0 && lists_file) -> made[me] = (me == 0 && lists_file) }
	:: atomic { me == 1 && held -> held = false }
	:: atomic { !left -> done[me] = true; break }
	od
}

/* Process 1 gets the file while its maker has it. */
proctype Import() provided (runs[1])
{
	if
	:: atomic { runs[0] && lists_file && !done[1] -> held = true }
	:: true
	fi
}

/* ---- The system ---- */

proctype System()
{
	byte victim;

	do
	:: troubles -> atomic {
		if
		:: victim = 0
		:: victim = 1
		:: victim = 2
		fi;
		troubles--;
		runs[victim] = false;
		if
		:: turn && turn_owner == victim && wrong != 4 -> turn = false
		:: else
		fi
	   }
	:: true -> break
	od
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			now.troubles = bound("TROUBLES");
			takes = bound("TAKES");
			takes_of_maker = bound("TAKES_OF_MAKER");
		};
		lists_file = true;
		made[0] = 1;
		run Process(0);
		run Process(1);
		run Process(2);
		run Import();
		run System()
	}
}

#ifdef LIVENESS
#define ends(p) (done[p] || !runs[p])
ltl all_end { <> (ends(0) && ends(1) && ends(2)) }
#endif

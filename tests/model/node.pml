/* SPDX-License-Identifier: MIT */
/*
 * A holder on another node: when may a block be given out again whose importer, connection or daemon is lost?
 *
 *	program ── session, lane ──► importer's daemon ══ connection ══► exporter's daemon ── bit ──► exporter
 *	                             (near)                             (far)
 *
 * One step is one message, one system call, one change of the ledger, or something that no other process can see. A
 * daemon is one thread, which does one event after the other. Where the order of what it does for an event matters,
 * each part is a step. A process can be killed before any step, and a daemon is started again, or not.
 *
 * The transport (imexd.h) writes the bytes of a frame by itself: from the time when the frame has come until it says
 * that they have come, or until its channel is closed. A CLOSE may come in between. A device that writes does all of
 * that; tls, which takes one frame after the other, does less. A connection can be `ill`, by a cut cable or by silence,
 * or be closed by one side. What was sent before may then be delivered at any later time, or never, and each side
 * notices for itself. Meanwhile there may be a new connection, which has messages of its own.
 *
 * One request is under way from node to node (CN_IMEXD_REQUESTS_MAX is 1 here), so its number is always the same. The
 * others wait in the importer's daemon. The exporter's daemon numbers what it opens, from 1 again after each start.
 *
 * Taken from hold.pml: to hold a block, a bit and a look at the generation, is one step; the exporter sees when a
 * process that has set a bit is gone. Not here: the pool to which the block belongs; the table of lent files; waits for
 * values; frames that break the protocol; an exporter that hangs or is killed; what a PUT reads in a program's memory.
 *
 * Safety: a block is given out again only when no operation on it is under way in its exporter's daemon. An operation
 * touches the life of the block that the program has opened. Nothing of a connection is used in a later one. A
 * program's memory is not written after its copy has ended, well or not. Liveness, under weak fairness: a block that
 * was freed is given back, whichever process or connection was lost, unless the program has it and nothing is lost;
 * and every operation ends.
 */

#include "bounds.inc"

#define CONNECTIONS_MAX 3
#define SESSIONS_MAX 2
#define OPENS_MAX 3
hidden byte lives, connections_max, sessions_max;
byte troubles; /* a process killed, a connection ill, an answer after its deadline, a message for which is no room */

/*
 * What can be made wrong, to see that it is noticed:
 * wrong 1 safety: what a connection holds is let go before its channel is closed
 * wrong 2 safety: a program is told that a node is lost before the channel is closed
 * wrong 3 safety: bytes that are coming have no reference, and a close lets the block go
 * wrong 4 safety: bytes that are being sent have no reference, and a close lets the block go
 * wrong 5 safety: an operation on what was opened in an earlier connection is sent
 * wrong 6 safety: a close of what was opened in an earlier connection is sent
 * wrong 7 safety: the lane of a session that has ended is closed while a job is under way
 * wrong 8 safety: a program is told that a copy is done before its bytes have come
 * wrong 9 safety: a copy of which one piece has failed does not wait for the others
 * wrong 10 safety: what was fetched for a connection is the answer in a later one
 * wrong 11 liveness: what was fetched for a connection that has ended, or after the deadline, is not let go
 * wrong 12 liveness OPENS=1 SESSIONS=1: what was opened for a program that is gone meanwhile is not closed
 * wrong 13 liveness OPENS=1 SESSIONS=1: the end of a session closes nothing
 * wrong 14 liveness: the end of a connection closes nothing
 * wrong 15 liveness: a node that connects again does not end the connection that it had
 * wrong 16 liveness OPENS=1 SESSIONS=1: the exporter's daemon does not notice silence
 * wrong 17 liveness: the importer's daemon does not notice silence
 * wrong 18 liveness OPENS=1 SESSIONS=1: the bit of a daemon that is gone counts
 * wrong 19 liveness OPENS=1 SESSIONS=1: a lane with a job under way is not closed after it
 * wrong 20 liveness TROUBLES=2: with a connection what is under way ends, but not what waits
 * wrong 21 liveness OPENS=1 SESSIONS=1: a close for which there was no room is not sent again
 */
hidden byte wrong;

/* ---- The exporter and its block ---- */

byte life; /* counts lives of the slot */
bool out, freed;
byte holds; /* of the exporter's daemon: its bit is set unless this is 0. Each record's references, together */

/* ---- Connections, from 1; 0: none ---- */

byte connections;
bool near_end[CONNECTIONS_MAX], far_end[CONNECTIONS_MAX]; /* of the importer's daemon, of the exporter's */
bool ill[CONNECTIONS_MAX];
bool exporter_connects; /* its node has the lower number */

mtype = { HELLO, OPEN, PUT, GET, CLOSE, DONE, REFUSED };
chan to_far[CONNECTIONS_MAX] = [4] of { mtype, byte, byte };        /* number or life; opened in which connection */
chan to_near[CONNECTIONS_MAX] = [2] of { mtype, mtype, byte, byte }; /* outcome, number, asked in which connection */

#define near_end_of(c) near_end[(c) - 1]
#define far_end_of(c) far_end[(c) - 1]
#define ill_of(c) ill[(c) - 1]
#define to_far_of(c) to_far[(c) - 1]
#define to_near_of(c) to_near[(c) - 1]

/* ---- The exporter's daemon ---- */

bool far_runs = true;
byte far_link;           /* its connection */
bool far_closed;         /* its channel was closed: what the node had open is next */
byte opened[OPENS_MAX];  /* cn_imexd_node.served: a life, by number; 0: none */
byte serial;
byte coming, going;      /* the life to which bytes of a PUT go, of which bytes for a GET are read; 0: none */
byte fetch_for[2];       /* a fetch: for which connection; 0: none */
#define ANSWERED (CONNECTIONS_MAX + 1) /* in its place: the deadline has passed */
byte fetch_life[2];      /* what is asked for; 0: its thread has not found it */
bool fetched[2];         /* its thread has ended */

/* ---- The importer's daemon ---- */

bool near_runs = true;
byte near_link;
bool near_up, near_closed;
mtype asked;             /* cn_imexd_node.asked; 0: none */
byte asked_by;           /* a session */
byte landing;            /* bytes of a GET's answer go to the memory of this session's program; 0: none */
chan waiting = [3] of { mtype, byte };
byte import_life[SESSIONS_MAX]; /* the connection of an import; 0: none */
byte import_number[SESSIONS_MAX];
bool import_open[SESSIONS_MAX];

/* ---- Sessions, from 1, and their lanes ---- */

byte sessions;
bool session_near[SESSIONS_MAX], session_far[SESSIONS_MAX]; /* ends of the session: the program's, the daemon's */
bool lane_near[SESSIONS_MAX], lane_far[SESSIONS_MAX];       /* of its lane; */
bool lane_read[SESSIONS_MAX];                               /* the daemon reads it: it has not hung up */
bool lane_busy[SESSIONS_MAX];
chan said[SESSIONS_MAX] = [2] of { mtype, byte };           /* over the session: OPEN, CLOSE */
mtype request[SESSIONS_MAX], reply[SESSIONS_MAX], opening_reply[SESSIONS_MAX]; /* 0: none */

#define at(array, s) array[(s) - 1]

/* ---- The program ---- */

mtype doing;           /* OPEN, PUT or GET, for which it waits; 0: none */
byte session, import;  /* the session; that to which the import belongs; 0: none */
byte opens, operations;
bool unclosed; /* there was no room for a CLOSE */
bool rests;
bool killed[SESSIONS_MAX]; /* what is true: the memory of the program that has this session is nobody's */

/* ---- The exporter ---- */

proctype Exporter()
{
	do
	:: d_step { !out && life < lives -> life++; out = true }
	:: d_step { out && !freed -> freed = true }
	:: d_step { out && freed && !holds ->
		assert(!coming && !going);
		out = false;
		freed = false
	   }
	od
}

/* ---- Messages between the daemons: what a closed end is sent is lost ---- */

inline send_far(kind, number, from)
{
	if
	:: far_end_of(near_link) ->
		assert(nfull(to_far_of(near_link)));
		to_far_of(near_link)!kind, number, from
	:: else
	fi
}

inline send_near(outcome, number, from)
{
	if
	:: near_end_of(far_link) ->
		assert(nfull(to_near_of(far_link)));
		to_near_of(far_link)!DONE, outcome, number, from
	:: else
	fi
}

inline drain_far(c)
{
	do
	:: len(to_far_of(c)) -> to_far_of(c)?_, _, _
	:: else -> break
	od
}

inline drain_near(c)
{
	do
	:: len(to_near_of(c)) -> to_near_of(c)?_, _, _, _
	:: else -> break
	od
}

/* Both sides say HELLO at once; each is up when it has the other's. */
inline connect()
{
	connections++;
	near_end_of(connections) = true;
	far_end_of(connections) = true;
	to_far_of(connections)!HELLO, 0, 0;
	to_near_of(connections)!HELLO, 0, 0, 0
}

/* A connection that this side does not have yet, and over which the other has said HELLO. */
#define calls_far(c) (connections >= (c) && far_end_of(c) && far_link != (c) && len(to_far_of(c)))
#define calls_near(c) (connections >= (c) && near_end_of(c) && near_link != (c) && len(to_near_of(c)))
#define called_far (calls_far(1) || calls_far(2) || calls_far(3))
#define called_near (calls_near(1) || calls_near(2) || calls_near(3))

#define choose_caller(c, calls) if :: calls(1) -> c = 1 :: calls(2) -> c = 2 :: calls(3) -> c = 3 fi

/* ---- The exporter's daemon ---- */

#define far_ends \
	((wrong != 16 && (ill_of(far_link) || !near_end_of(far_link))) || \
	 (wrong != 15 && !exporter_connects && called_far))

/* cn_imexd_link_drop(), and answer_sent() with `lost` */
inline let_transport_go()
{
	if
	:: coming && wrong != 3 -> holds--
	:: else
	fi;
	if
	:: going && wrong != 4 -> holds--
	:: else
	fi
}

/* cn_imexd_serve_lost() */
inline serve_lost()
{
	for (n : 0 .. OPENS_MAX - 1) {
		if
		:: opened[n] && wrong != 14 -> holds--
		:: else
		fi;
		opened[n] = 0
	};
	n = 0
}

/* close_channel() */
inline close_far()
{
	far_end_of(far_link) = false;
	drain_far(far_link);
	coming = 0;
	going = 0;
	far_link = 0
}

/* cn_imexd_serve_frame() */
inline serve_frame()
{
	if
	:: kind == OPEN -> /* cn_imexd_fetch() */
		f = (fetch_for[0] -> 1 : 0);
		assert(!fetch_for[f]);
		fetch_for[f] = far_link;
		fetch_life[f] = number
	:: kind == CLOSE -> /* close_memory() */
		assert(from == far_link);
		if
		:: opened[number - 1] ->
			opened[number - 1] = 0;
			holds--
		:: else
		fi
	:: kind == PUT || kind == GET ->
		assert(from == far_link);
		if
		:: opened[number - 1] -> /* find() */
			assert(out && life == opened[number - 1]);
			if
			:: kind == PUT ->
				coming = opened[number - 1];
				holds = (wrong != 3 -> holds + 1 : holds)
			:: else -> /* answer_with() */
				going = opened[number - 1];
				holds = (wrong != 4 -> holds + 1 : holds)
			fi
		:: else -> send_near(REFUSED, 0, far_link)
		fi
	:: kind == HELLO
	fi
}

/* cn_import_hold(), in a thread; fetch_now() does the same */
inline run_fetch(f)
{
	fetched[f] = true;
	if
	:: fetch_life[f] == life && out && !freed -> holds++
	:: else -> fetch_life[f] = 0
	fi
}

#define is_late(f) (troubles && fetch_for[f] && fetch_for[f] == far_link && !fetched[f])

inline give_up_fetch(f)
{
	troubles--;
	fetch_for[f] = ANSWERED;
	send_near(REFUSED, 0, far_link)
}

/* answer() of imexd_fetch.c */
inline answer_fetch(f)
{
	if
	:: fetch_for[f] == ANSWERED || !far_link || (fetch_for[f] != far_link && wrong != 10) ->
		if
		:: fetch_life[f] && wrong != 11 -> holds-- /* cn_imexd_drop() */
		:: else
		fi
	:: else ->
		if
		:: fetch_life[f] -> /* cn_imexd_serve_opened() */
			opened[serial] = fetch_life[f];
			serial++;
			send_near(DONE, serial, fetch_for[f])
		:: else -> send_near(REFUSED, 0, fetch_for[f])
		fi
	fi;
	fetch_for[f] = 0;
	fetch_life[f] = 0;
	fetched[f] = false
}

/* The next frame. An OPEN may have to wait for a thread, a PUT for the bytes of another: a CLOSE overtakes those. */
#define may_take \
	(len(to_far_of(far_link)) && (!coming || to_far_of(far_link)?[CLOSE, _, _]) && \
	 !(fetch_for[0] && fetch_for[1] && to_far_of(far_link)?[OPEN, _, _]))

proctype ExportersDaemon() provided (far_runs)
{
	mtype kind;
	byte number, from, n, f, c;

	do
	:: atomic { !far_closed && far_link && may_take -> /* cn_imexd_link_begin() */
		to_far_of(far_link)?kind, number, from;
		serve_frame();
		kind = 0; number = 0; from = 0; f = 0
	   }
	:: atomic { !far_closed && coming -> /* cn_imexd_link_finish(), cn_imexd_serve_bytes() */
		coming = 0;
		holds = (wrong != 3 -> holds - 1 : holds);
		send_near(DONE, 0, far_link)
	   }
	:: atomic { !far_closed && going -> /* answer_sent() */
		going = 0;
		holds = (wrong != 4 -> holds - 1 : holds);
		send_near(DONE, 0, far_link)
	   }
	:: d_step { fetch_for[0] && !fetched[0] -> run_fetch(0) }
	:: d_step { fetch_for[1] && !fetched[1] -> run_fetch(1) }
	:: atomic { !far_closed && (fetched[0] || fetched[1]) -> /* cn_imexd_fetched() */
		if
		:: fetched[0]
		:: fetched[1] -> f = 1
		fi;
		answer_fetch(f);
		f = 0
	   }
	:: atomic { !far_closed && (is_late(0) || is_late(1)) -> /* cn_imexd_fetch_tend() */
		f = (is_late(0) -> 0 : 1);
		give_up_fetch(f);
		f = 0
	   }
	:: atomic { !far_closed && far_link && far_ends -> /* end(): cn_imexd_transport.close, */
		let_transport_go();
		if
		:: wrong == 1 -> serve_lost()
		:: else -> close_far()
		fi;
		far_closed = true
	   }
	:: atomic { far_closed -> /* and then cn_imexd_serve_lost() */
		if
		:: wrong == 1 -> close_far()
		:: else -> serve_lost()
		fi;
		far_closed = false
	   }
	:: atomic { exporter_connects && !far_closed && !far_link && connections < connections_max && near_runs ->
		connect(); /* connect_to() */
		far_link = connections
	   }
	:: atomic { !exporter_connects && !far_closed && (!far_link || wrong == 15) && called_far -> /* greeted() */
		choose_caller(c, calls_far);
		to_far_of(c)?_, _, _;
		far_link = c;
		c = 0
	   }
	od
}

/* ---- The importer's daemon ---- */

#define near_ends \
	((wrong != 17 && (ill_of(near_link) || !far_end_of(near_link))) || \
	 (wrong != 15 && exporter_connects && called_near))

inline close_near()
{
	near_end_of(near_link) = false;
	drain_near(near_link);
	landing = 0;
	near_link = 0;
	near_up = false
}

inline forget_import(s)
{
	at(import_life, s) = 0;
	at(import_number, s) = 0;
	at(import_open, s) = false
}

/* tell_closed(), forget_import() */
inline close_import(s)
{
	if
	:: near_up && (at(import_life, s) == near_link || wrong == 6) ->
		send_far(CLOSE, at(import_number, s), at(import_life, s))
	:: else
	fi;
	forget_import(s)
}

/* finish(): a job has ended. What a closed end is told is lost; its end is read in a step of its own. */
inline finish(k, s, outcome)
{
	if
	:: k == OPEN ->
		at(opening_reply, s) = (at(session_far, s) && at(session_near, s) -> outcome : 0)
	:: else ->
		at(lane_busy, s) = false;
		if
		:: at(lane_read, s) -> at(reply, s) = (at(lane_near, s) -> outcome : 0)
		:: else -> at(lane_far, s) = (wrong == 19 -> at(lane_far, s) : false) /* late_fd */
		fi
	fi
}

/* hang_up() of a lane */
inline hang_up(s)
{
	at(lane_read, s) = false;
	at(request, s) = 0;
	at(lane_far, s) = at(lane_busy, s) && wrong != 7
}

/* lose() */
inline lose(k, s)
{
	finish(k, s, REFUSED);
	if
	:: k == OPEN -> forget_import(s)
	:: else
	fi
}

/* cn_imexd_program_answer(), cn_imexd_program_answered() */
inline answered(outcome, number, from)
{
	assert(asked && from == near_link);
	s = asked_by;
	if
	:: asked == GET && outcome == DONE ->
		assert(doing == GET && import == s || at(killed, s)); /* its memory may be written */
		landing = s;
		if
		:: wrong == 8 -> finish(GET, s, DONE)
		:: else
		fi
	:: else ->
		finish(asked, s, outcome);
		if
		:: asked == OPEN && outcome == DONE -> /* opened() */
			at(import_number, s) = number;
			at(import_open, s) = true;
			if
			:: !at(session_far, s) && wrong != 12 -> close_import(s)
			:: !at(session_far, s) && wrong == 12 -> forget_import(s)
			:: else
			fi
		:: asked == OPEN && outcome != DONE -> forget_import(s)
		:: else
		fi;
		asked = 0;
		asked_by = 0
	fi
}

/* is_wanted() */
#define is_wanted(k, s) (at(session_far, s) && (k == OPEN || (at(lane_read, s) && at(import_open, s))))

/* operate() */
inline operate(s)
{
	k = at(request, s);
	at(request, s) = 0;
	if
	:: !at(import_open, s) || !near_up || (at(import_life, s) != near_link && wrong != 5) ->
		at(reply, s) = (at(lane_near, s) -> REFUSED : 0)
	:: else -> /* begin_job() */
		at(lane_busy, s) = true;
		assert(nfull(waiting));
		waiting!k, s
	fi
}

/* serve() of imexd_program.c */
inline serve_program(s)
{
	at(said, s)?k, number;
	if
	:: k == OPEN && near_up -> /* open_block() */
		at(import_life, s) = near_link;
		at(import_number, s) = number; /* not yet: the life that it names */
		assert(nfull(waiting));
		waiting!OPEN, s
	:: k == OPEN && !near_up -> at(opening_reply, s) = (at(session_near, s) -> REFUSED : 0)
	:: k == CLOSE && at(import_open, s) -> close_import(s)
	:: k == CLOSE && !at(import_open, s)
	fi
}

/* end_session() */
inline end_session(s)
{
	at(session_far, s) = false;
	if
	:: at(import_open, s) && wrong != 13 -> close_import(s)
	:: at(import_open, s) && wrong == 13 -> forget_import(s)
	:: else
	fi;
	if
	:: at(lane_read, s) -> hang_up(s)
	:: else
	fi
}

#define says(s) (at(session_far, s) && len(at(said, s)))
#define has_ended(s) (at(session_far, s) && !at(session_near, s) && !len(at(said, s)))
#define asks(s) (at(lane_read, s) && at(request, s))
#define has_hung_up(s) (at(lane_read, s) && !at(lane_near, s) && !at(request, s))
#define is_ready(s) (says(s) || asks(s) || has_ended(s) || has_hung_up(s))
#define any_session(does) (does(1) || does(2))
#define choose_session(s, does) if :: does(1) -> s = 1 :: does(2) -> s = 2 fi

proctype ImportersDaemon() provided (near_runs)
{
	mtype kind, k, outcome;
	byte number, from, s, c;

	do
	:: atomic { !near_closed && near_link && !landing && len(to_near_of(near_link)) ->
		to_near_of(near_link)?kind, outcome, number, from;
		if
		:: kind == HELLO -> near_up = true
		:: else -> answered(outcome, number, from)
		fi;
		kind = 0; outcome = 0; number = 0; from = 0; s = 0
	   }
	:: atomic { !near_closed && landing -> /* the bytes have come: cn_imexd_program_answered() */
		if
		:: wrong != 8 -> finish(GET, landing, DONE)
		:: else
		fi;
		landing = 0;
		asked = 0;
		asked_by = 0
	   }
	:: atomic { !near_closed && near_up && !asked && len(waiting) -> /* start_jobs() */
		waiting?k, s;
		if
		:: is_wanted(k, s) ->
			asked = k;
			asked_by = s;
			send_far(k, at(import_number, s), at(import_life, s))
		:: else -> lose(k, s)
		fi;
		k = 0; s = 0
	   }
	:: atomic { !near_closed && any_session(is_ready) -> /* lane_ready() */
		choose_session(s, is_ready);
		if
		:: says(s) -> serve_program(s)
		:: asks(s) -> operate(s)
		:: has_ended(s) -> end_session(s)
		:: has_hung_up(s) -> hang_up(s)
		fi;
		k = 0; number = 0; s = 0
	   }
	:: atomic { !near_closed && near_link && near_ends -> /* end(): cn_imexd_transport.close, */
		if
		:: wrong == 2 && asked -> lose(asked, asked_by)
		:: else -> close_near()
		fi;
		near_closed = true
	   }
	:: atomic { near_closed -> /* and then cn_imexd_program_lost(), a job after the other */
		if
		:: wrong == 2 && near_link ->
			close_near();
			asked = 0;
			asked_by = 0
		:: asked && !(wrong == 2 && near_link) ->
			lose(asked, asked_by);
			asked = 0;
			asked_by = 0
		:: !asked && len(waiting) && !(wrong == 2 && near_link) ->
			waiting?k, s;
			if
			:: wrong != 20 -> lose(k, s)
			:: else
			fi;
			k = 0; s = 0
		:: else -> near_closed = false
		fi
	   }
	:: atomic { !exporter_connects && !near_closed && !near_link && connections < connections_max && far_runs ->
		connect();
		near_link = connections
	   }
	:: atomic { exporter_connects && !near_closed && (!near_link || wrong == 15) && called_near -> /* greeted() */
		choose_caller(c, calls_near);
		to_near_of(c)?_, _, _, _;
		near_link = c;
		near_up = true;
		c = 0
	   }
	od
}

/* ---- The program ---- */

inline operation_ended()
{
	assert(landing != import);
	doing = 0
}

/* end_session_asking() */
inline leave_session()
{
	at(session_near, session) = false;
	at(opening_reply, session) = 0;
	session = 0;
	unclosed = false
}

/* close_locked() */
inline tell()
{
	if
	:: at(session_far, session) ->
		assert(nfull(at(said, session)));
		at(said, session)!CLOSE, 0
	:: else
	fi
}

proctype Program()
{
	do
	:: atomic { !rests && !session && sessions < sessions_max && near_runs -> /* enter_asking(), make_lane() */
		sessions++;
		session = sessions;
		at(session_near, session) = true;
		at(session_far, session) = true;
		at(lane_near, session) = true;
		at(lane_far, session) = true;
		at(lane_read, session) = true
	   }
	:: atomic { !rests && session && at(session_far, session) && !doing && !import && !unclosed && opens && life ->
		opens--; /* cn_node_open_block() */
		doing = OPEN;
		assert(nfull(at(said, session)));
		at(said, session)!OPEN, life
	   }
	:: atomic { doing == OPEN && at(opening_reply, session) ->
		if
		:: at(opening_reply, session) == DONE -> import = session
		:: else
		fi;
		at(opening_reply, session) = 0;
		doing = 0
	   }
	:: atomic { session && !at(session_far, session) && !at(opening_reply, session) -> /* the daemon has gone */
		if
		:: doing == OPEN -> doing = 0
		:: else
		fi;
		leave_session()
	   }
	:: atomic { session && troubles -> /* ask_here_asking(): an answer takes too long, of this or another */
		troubles--;
		if
		:: doing == OPEN -> doing = 0
		:: else
		fi;
		leave_session()
	   }
	:: atomic { !rests && !doing && import && import == session && operations && at(lane_near, session) ->
		if /* post() */
		:: doing = PUT
		:: doing = GET
		fi;
		operations--;
		if
		:: at(lane_far, session) -> at(request, session) = doing
		:: else -> doing = 0
		fi
	   }
	:: atomic { (doing == PUT || doing == GET) && at(reply, import) -> /* take_answer() */
		at(reply, import) = 0;
		operation_ended()
	   }
	:: atomic { (doing == PUT || doing == GET) && !at(lane_far, import) && !at(reply, import) ->
		at(lane_near, import) = false;
		operation_ended()
	   }
	:: atomic { doing == PUT && troubles -> /* it lies in a slot: the operation has a deadline */
		troubles--;
		at(lane_near, import) = false; /* free_lane() */
		at(reply, import) = 0;
		operation_ended()
	   }
	:: atomic { doing == GET && wrong == 9 -> /* without settle() */
		at(lane_near, import) = false;
		operation_ended()
	   }
	:: atomic { !rests && !doing && import -> /* close_memory() */
		if
		:: import == session && at(session_far, session) -> tell()
		:: import == session && troubles -> troubles--; unclosed = true
		:: else
		fi;
		import = 0
	   }
	:: atomic { unclosed && wrong != 21 -> /* tell_due() */
		tell();
		unclosed = false
	   }
	:: atomic { !rests && !doing -> rests = true } /* it keeps what it has */
	od
}

/* ---- The system ---- */

/* What the system does for a dead daemon of the importer's: its mappings go before its sockets. */
inline kill_importers_daemon()
{
	near_runs = false;
	for (i : 1 .. CONNECTIONS_MAX) {
		near_end_of(i) = false;
		drain_near(i)
	};
	for (i : 1 .. SESSIONS_MAX) {
		at(session_far, i) = false;
		at(lane_far, i) = false;
		at(lane_read, i) = false;
		at(lane_busy, i) = false;
		at(request, i) = 0;
		forget_import(i);
		do
		:: len(at(said, i)) -> at(said, i)?_, _
		:: else -> break
		od
	};
	do
	:: len(waiting) -> waiting?_, _
	:: else -> break
	od;
	near_link = 0;
	near_up = false;
	near_closed = false;
	asked = 0;
	asked_by = 0;
	landing = 0;
	i = 0
}

/* Its bit is in the ledger until the exporter sees that it is gone. */
inline kill_exporters_daemon()
{
	far_runs = false;
	for (i : 1 .. CONNECTIONS_MAX) {
		far_end_of(i) = false;
		drain_far(i)
	};
	for (i : 0 .. OPENS_MAX - 1) {
		opened[i] = 0
	};
	for (i : 0 .. 1) {
		fetch_for[i] = 0;
		fetch_life[i] = 0;
		fetched[i] = false
	};
	far_link = 0;
	far_closed = false;
	serial = 0;
	coming = 0;
	going = 0;
	i = 0
}

inline kill_program()
{
	for (i : 1 .. SESSIONS_MAX) {
		at(session_near, i) = false;
		at(lane_near, i) = false;
		at(reply, i) = 0;
		at(opening_reply, i) = 0;
		at(killed, i) = (i <= sessions)
	};
	doing = 0;
	session = 0;
	import = 0;
	unclosed = false;
	i = 0
}

bool bit_is_gone; /* of a daemon that was killed */
bool left_alone;  /* no more trouble, and nobody starts a daemon any more */

proctype System()
{
	byte i;

	do
	:: d_step { troubles && near_runs -> troubles--; kill_importers_daemon() }
	:: d_step { troubles && far_runs -> troubles--; bit_is_gone = false; kill_exporters_daemon() }
	:: d_step { troubles && session -> troubles--; kill_program() }
	:: d_step { troubles && connections && !ill_of(connections) -> troubles--; ill_of(connections) = true }
	:: d_step { !far_runs && !bit_is_gone ->
		bit_is_gone = true;
		holds = (wrong == 18 -> holds : 0)
	   }
	:: d_step { !left_alone && !near_runs -> near_runs = true }
	:: d_step { !left_alone && !far_runs && bit_is_gone -> far_runs = true }
	:: d_step { !left_alone -> left_alone = true; troubles = 0 }
	od
}

init
{
	atomic {
		c_code {
			wrong = bound("WRONG");
			now.troubles = bound("TROUBLES");
			lives = bound("LIVES");
			now.opens = bound("OPENS");
			now.operations = bound("OPERATIONS");
			connections_max = bound("CONNECTIONS");
			sessions_max = bound("SESSIONS");
		};
		if :: exporter_connects = false :: exporter_connects = true fi;
		connect();
		near_link = 1;
		far_link = 1;
		run Exporter();
		run ExportersDaemon();
		run ImportersDaemon();
		run Program();
		run System()
	}
}

#ifdef LIVENESS
/* The program has it, and nothing is lost between it and the exporter. */
#define is_wanted_still \
	(import && import == session && at(import_open, import) && at(import_life, import) == near_link && \
	 near_link == far_link)
#define leaked (out && freed && !is_wanted_still)
ltl given_back_and_ended { [] <> !leaked && [] <> !doing }
#endif

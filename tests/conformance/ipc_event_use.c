/* SPDX-License-Identifier: MIT */
/*
 * Chapter "ipc_event_use": which wait is for which record of an event that two processes have, and what is left of it
 * when one of them destroys it or ends. Scripts of two processes; ipc_event.h says how they read.
 */
#define _GNU_SOURCE
#include "ipc_event.h"

CHAPTER(ipc_event_use);

/* ---- Records and waits ---- */

EXPORTER_IS_PEER(fresh, "share, opener query, opener synchronize, opener elapsed, opener wait1, opener done1, "
			"exporter query, exporter synchronize, exporter elapsed, exporter wait1, exporter done1")

EXPORTER_IS_PEER(recorded_first, "exporter record0, exporter flush0, share, opener query, opener synchronize, "
				 "opener wait1, opener done1, opener elapsed")

EXPORTER_IS_PEER(pending_first, "exporter close0, exporter record0, share, opener pending, opener elapsed, "
				"opener wait1, opener held1, exporter open0, opener done1, opener query")

/* Between export and import. */
EXPORTER_IS_PEER(pending_between, "export, exporter close0, exporter record0, opener import, opener pending, "
				  "opener wait1, opener held1, exporter open0, opener done1, opener query")

EXPORTER_IS_PEER(
	exporter_records,
	"share, exporter close0, exporter record0, opener pending, exporter pending, "
	"opener wait1, opener held1, opener start, opener running, exporter wait1, exporter held1, exporter open0, "
	"opener done1, opener finished, opener query, exporter done1, exporter query, opener elapsed")

EXPORTER_IS_PEER(
	opener_records,
	"share, opener close0, opener record0, exporter pending, opener pending, "
	"exporter wait1, exporter held1, exporter start, exporter running, opener wait1, opener held1, opener open0, "
	"exporter done1, exporter finished, exporter query, opener done1, opener query, exporter elapsed")

EXPORTER_IS_PEER(blocking_synchronization,
		 "exporter make_blocking, share, exporter close0, exporter record0, "
		 "opener start, opener running, exporter start, exporter running, exporter open0, opener finished, "
		 "exporter finished")

/* To and fro: each waits for the other's last record and records its own. */
EXPORTER_IS_PEER(to_and_fro,
		 "share, exporter close0, exporter record0, opener wait1, opener record1, "
		 "exporter wait1, exporter record1, opener wait2, opener held2, exporter open0, opener done2, "
		 "opener query, exporter query, exporter done1")

/* A pending record, then one by the other process that is complete at once. */
EXPORTER_IS_PEER(
	record_overtakes,
	"share, exporter close0, exporter record0, opener record1, opener done1, "
	"opener ready, exporter ready, exporter wait1, exporter done1, opener wait2, opener done2, exporter open0, "
	"exporter flush0, exporter ready, opener ready")

EXPORTER_IS_PEER(
	opener_is_overtaken,
	"share, opener close0, opener record0, exporter record1, exporter done1, "
	"exporter ready, opener ready, opener wait1, opener done1, exporter wait2, exporter done2, opener open0, "
	"opener flush0, opener ready, exporter ready")

/* Both pending: the later record counts for what comes after it, the earlier for the waits that stand. */
EXPORTER_IS_PEER(
	both_pending,
	"share, exporter close0, exporter record0, opener wait1, opener close0, opener record0, "
	"exporter wait1, opener held1, exporter open0, opener done1, opener pending, exporter pending, exporter held1, "
	"opener open0, exporter done1, exporter query, opener query")

EXPORTER_IS_PEER(
	both_pending_later_first,
	"share, exporter close0, exporter record0, opener wait1, opener close0, "
	"opener record0, opener open0, opener flush0, opener held1, opener ready, exporter ready, exporter open0, "
	"opener done1, opener query, exporter query")

/* The exporter records again while a wait of the opener stands. */
EXPORTER_IS_PEER(
	again_pending,
	"share, exporter close0, exporter record0, opener wait1, exporter close1, "
	"exporter record1, exporter open0, exporter flush0, opener held1, opener pending, opener wait2, opener held2, "
	"exporter open1, opener done1, opener done2, opener query")

EXPORTER_IS_PEER(
	again_complete,
	"share, exporter close0, exporter record0, opener wait1, opener start, opener running, "
	"exporter record2, exporter flush2, opener held1, opener running, opener query, opener wait2, opener done2, "
	"exporter open0, opener done1, opener finished, opener ready")

EXPORTER_IS_PEER(again_same_stream,
		 "share, exporter close0, exporter record0, opener wait1, exporter record0, "
		 "opener wait2, opener held1, exporter open0, opener done1, opener done2, opener query")

/* The same within the exporter, for comparison with an event that never left. */
EXPORTER_IS_PEER(again_at_exporter, "share, exporter close0, exporter record0, exporter wait1, exporter record2, "
				    "exporter flush2, exporter held1, exporter query, exporter open0, exporter done1")

EXPORTER_IS_PEER(wait_before_record, "share, opener wait1, opener done1, exporter close0, exporter record0, "
				     "opener done1, opener wait1, opener held1, exporter open0, opener done1")

/* What a wait that is itself behind a gate waits for: the record at the time of the call, or at its turn. */
EXPORTER_IS_PEER(gated_wait_before_record, "share, opener close1, opener wait1, exporter close0, exporter record0, "
					   "opener open1, opener held1, exporter open0, opener done1")

EXPORTER_IS_PEER(gated_wait_between_records,
		 "share, exporter close0, exporter record0, opener close1, opener wait1, "
		 "exporter record2, exporter flush2, opener open1, opener held1, exporter open0, opener done1")

EXPORTER_IS_PEER(gated_wait_after_complete,
		 "share, exporter record0, exporter flush0, opener close1, opener wait1, "
		 "exporter close0, exporter record0, opener open1, opener held1, exporter open0, opener done1")

EXPORTER_IS_PEER(external_flags,
		 "share, exporter record_external0, exporter flush0, opener wait_external1, "
		 "opener done1, opener record_external0, opener flush0, exporter wait_external1, exporter done1, "
		 "exporter close0, exporter record_external0, opener pending, opener wait_external1, opener held1, "
		 "exporter open0, opener done1")

EXPORTER_IS_PEER(null_stream, "share, exporter close7, exporter record7, opener pending, opener wait7, opener held7, "
			      "exporter open7, opener done7, opener record7, opener flush7, exporter ready")

EXPORTER_IS_PEER(legacy_stream, "share, exporter close8, exporter record8, opener pending, opener wait8, opener held8, "
				"exporter open8, opener done8, opener record8, opener flush8, exporter ready")

EXPORTER_IS_PEER(per_thread_stream,
		 "share, exporter close9, exporter record9, opener pending, opener wait9, "
		 "opener held9, exporter open9, opener done9, opener record9, opener flush9, exporter ready")

EXPORTER_IS_PEER(stream_is_gone, "share, exporter close0, exporter record0, opener wait1, exporter drop_stream0, "
				 "opener pending, opener held1, exporter open0, opener ready, opener done1")

/* An opened event's own handle, opened where the event was made. */
EXPORTER_IS_PEER(
	export_again,
	"share, opener export, opener send, exporter import, exporter query, opener close0, "
	"opener record0, exporter pending, opener open0, exporter ready, opener query, exporter destroy, opener query, "
	"opener record1, opener flush1")

/* ---- One of the two lets go ---- */

EXPORTER_IS_PEER(destroyed_before_open, "export, exporter destroy, opener import, opener query, opener record0, "
					"opener flush0, opener wait1, opener done1, opener destroy")

EXPORTER_IS_PEER(
	destroyed_by_exporter,
	"share, exporter destroy, opener query, opener synchronize, opener record0, "
	"opener flush0, opener query, opener wait1, opener done1, opener export, opener destroy, opener destroy, "
	"exporter destroy")

EXPORTER_IS_PEER(
	destroyed_by_opener,
	"share, opener destroy, exporter query, exporter record0, exporter flush0, "
	"exporter query, opener import, opener query, opener destroy, opener query, opener record0, opener wait1, "
	"opener synchronize, opener export, opener destroy")

EXPORTER_IS_PEER(exporter_destroys_its_record,
		 "share, exporter close0, exporter record0, opener wait1, opener start, "
		 "exporter destroy, opener held1, opener running, opener pending, exporter open0, opener done1, "
		 "opener finished, "
		 "opener ready, opener record2, opener flush2, opener query, opener destroy")

EXPORTER_IS_PEER(
	exporter_destroys_openers_record,
	"share, opener close0, opener record0, exporter wait1, "
	"exporter destroy, exporter held1, opener pending, opener open0, exporter done1, opener ready, opener destroy")

EXPORTER_IS_PEER(opener_destroys_its_record,
		 "share, opener close0, opener record0, exporter wait1, opener destroy, "
		 "exporter held1, exporter pending, opener open0, exporter done1, exporter ready, exporter record2, "
		 "exporter flush2, exporter query, exporter destroy")

EXPORTER_IS_PEER(opener_destroys_its_wait,
		 "share, exporter close0, exporter record0, opener wait1, opener destroy, "
		 "opener held1, exporter open0, opener done1, exporter record0, exporter flush0, exporter query")

EXPORTER_IS_PEER_ALONE(context_before_open,
		       "export, exporter drop_context, opener import, opener query, opener record0, "
		       "opener flush0, opener destroy")

EXPORTER_IS_PEER_ALONE(context_of_exporter,
		       "share, exporter drop_context, opener query, opener record0, opener flush0, "
		       "opener query, opener wait1, opener done1, opener destroy")

EXPORTER_IS_PEER_ALONE(context_of_opener,
		       "share, opener drop_context, exporter query, exporter record0, exporter flush0, "
		       "exporter query, opener query, opener destroy")

EXPORTER_IS_PEER_ALONE(
	context_of_pending_exporter,
	"share, exporter close0, exporter record0, opener wait1, opener start, "
	"exporter start_drop, exporter running, opener pending, opener held1, opener running, exporter open0, "
	"exporter finished, opener done1, opener finished, opener ready")

/* ---- One of the two ends ---- */

EXPORTER_IS_PEER(left_before_open,
		 "export, exporter leave, opener import, opener query, opener record0, opener flush0, "
		 "opener query, opener destroy")

EXPORTER_IS_PEER(killed_before_open, "export, exporter killed, opener import, opener query, opener record0, "
				     "opener flush0, opener query, opener destroy")

EXPORTER_IS_PEER(
	left_idle,
	"share, exporter record0, exporter flush0, exporter leave, opener query, "
	"opener synchronize, opener wait1, opener done1, opener record0, opener flush0, opener query, opener export, "
	"opener import, opener destroy")

EXPORTER_IS_PEER(
	killed_idle,
	"share, exporter record0, exporter flush0, exporter killed, opener query, "
	"opener synchronize, opener wait1, opener done1, opener record0, opener flush0, opener query, opener export, "
	"opener import, opener destroy")

EXPORTER_IS_PEER(
	left_pending,
	"share, exporter close0, exporter record0, opener wait1, opener start, exporter leave, "
	"opener query, opener held1, opener running, opener wait2, opener held2, opener record3, opener flush3, "
	"opener query, opener destroy")

EXPORTER_IS_PEER(
	killed_pending,
	"share, exporter close0, exporter record0, opener wait1, opener start, "
	"exporter killed, opener query, opener held1, opener running, opener wait2, opener held2, opener record3, "
	"opener flush3, opener query, opener destroy")

EXPORTER_IS_PEER(killed_pending_synchronize, "share, exporter close0, exporter record0, exporter killed, "
					     "opener synchronize, opener query, opener elapsed")

EXPORTER_IS_PEER(killed_pending_flush, "share, exporter close0, exporter record0, opener wait1, exporter killed, "
				       "opener flush1, opener query")

EXPORTER_IS_PEER(
	killed_with_wait,
	"share, opener close0, opener record0, exporter wait1, exporter killed, "
	"opener pending, opener open0, opener flush0, opener query, opener record1, opener flush1, opener destroy")

OPENER_IS_PEER(opener_left_idle, "share, opener record0, opener flush0, opener leave, exporter query, "
				 "exporter record0, exporter flush0, exporter query, exporter export, exporter destroy")

OPENER_IS_PEER(opener_left_pending,
	       "share, opener close0, opener record0, exporter wait1, exporter start, "
	       "opener leave, exporter query, exporter held1, exporter running, exporter wait2, exporter held2, "
	       "exporter record3, exporter flush3, exporter query, exporter destroy")

OPENER_IS_PEER(opener_killed_pending,
	       "share, opener close0, opener record0, exporter wait1, exporter start, "
	       "opener killed, exporter query, exporter held1, exporter running, exporter wait2, exporter held2, "
	       "exporter record3, exporter flush3, exporter query, exporter destroy")

OPENER_IS_PEER(opener_killed_with_wait,
	       "share, exporter close0, exporter record0, opener wait1, opener killed, "
	       "exporter pending, exporter open0, exporter flush0, exporter query, exporter record1, exporter flush1, "
	       "exporter destroy")

/* A record that a later one of the survivor replaced: is the dead one's still waited for? */
EXPORTER_IS_PEER(killed_overtaken, "share, exporter close0, exporter record0, opener record1, opener flush1, "
				   "exporter killed, opener query, opener wait2, opener done2, opener destroy")

/* ---- Many records ---- */

/* How many of the calls succeed; a record by one side is followed by a wait of the other where that is asked for. */
static int repeat(struct script *script, bool exporter, int at, int count, bool with_waits)
{
	int good = 0;

	for (int i = 0; i < count; i++) {
		good += script_act(script, exporter, VERB_record, at) == CUDA_SUCCESS;
		if (with_waits)
			good += script_act(script, !exporter, VERB_wait, 1) == CUDA_SUCCESS;
	}
	return good;
}

static void ask_pending_records(struct script *script, const char *name, bool exporter, int count, bool with_waits)
{
	NEED(script_act(script, exporter, VERB_close, 0));
	SAY(ask_name("%s_good", name), "%d", repeat(script, exporter, 0, count, with_waits));
	ASK(ask_name("%s_pending", name), script_act(script, !exporter, VERB_pending, 0));
	ASK(ask_name("%s_wait", name), script_act(script, !exporter, VERB_wait, 1));
	ASK(ask_name("%s_held", name), script_act(script, !exporter, VERB_held, 1));
	NEED(script_act(script, exporter, VERB_open, 0));
	ASK(ask_name("%s_done", name), script_act(script, !exporter, VERB_done, 1));
	ASK(ask_name("%s_ready", name), script_act(script, !exporter, VERB_ready, 0));
}

/* One record is waited for and stays pending while `count` others come and complete. */
static void ask_overtaken(struct script *script, const char *name, bool exporter, int count)
{
	NEED(script_act(script, exporter, VERB_close, 0));
	NEED(script_act(script, exporter, VERB_record, 0));
	NEED(script_act(script, !exporter, VERB_wait, 1));
	SAY(ask_name("%s_good", name), "%d", repeat(script, exporter, 2, count, false));
	ASK(ask_name("%s_flush", name), script_act(script, exporter, VERB_flush, 2));
	ASK(ask_name("%s_query", name), script_act(script, !exporter, VERB_query, 0));
	ASK(ask_name("%s_held", name), script_act(script, !exporter, VERB_held, 1));
	NEED(script_act(script, exporter, VERB_open, 0));
	ASK(ask_name("%s_done", name), script_act(script, !exporter, VERB_done, 1));
}

static void ask_many(const char *name, int count)
{
	struct script script = script_start(name, true);

	script_export(&script);
	NEED(act(VERB_import, 0));
	ask_pending_records(&script, ask_name("%d_by_exporter", count), true, count, false);
	ask_pending_records(&script, ask_name("%d_by_opener", count), false, count, false);
	ask_pending_records(&script, ask_name("%d_each_waited_for", count), true, count, true);
	ask_overtaken(&script, ask_name("%d_after_one", count), true, count);
	ask_overtaken(&script, ask_name("%d_after_openers_one", count), false, count);
	script_end(&script);
}

GROUP(records_70)
{
	ask_many("records_70", 70);
}

GROUP(records_200)
{
	ask_many("records_200", 200);
}

/* SPDX-License-Identifier: MIT */
/*
 * Asking many processes at the same time, for the survey.
 */
#ifndef CN_SHARE_REPORT_SURVEY_ASK_H
#define CN_SHARE_REPORT_SURVEY_ASK_H

#include "share/peer/peer.h"
#include "share/report/status.h"
#include "share/wire/look.h"

/* A holder's PID, as this process sees it and as the holder sees itself; 0: unknown. */
struct cn_survey_pids {
	int here, there;
};

/* A process that is asked. */
struct cn_survey_call {
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct cn_peer *peer; /* NULL: it cannot be reached, or the conversation has ended */
	struct ucred who;     /* pid 0: not visible here */
	bool reached, answered, stopped;
	bool has_status;
	struct cn_status status;     /* if it has one, */
	struct cn_survey_pids *pids; /* and for each record the holder's PIDs */
	/* private from here on */
	uint64_t request;
	uint32_t next; /* the record whose holder is to be found next */
};

enum { CN_SURVEY_CALLS_MAX = 256 };

/*
 * Ask all these processes of a directory, of which only the names are set, and read their status files. Returns when
 * all have answered that are not stopped, or the time has come (CLOCK_MONOTONIC). The caller ends each with
 * cn_survey_call_end().
 */
void cn_survey_ask(const struct cn_look *look, struct cn_survey_call *calls, unsigned count, uint64_t end_ns);
void cn_survey_call_end(struct cn_survey_call *call);

/* Connect to one process, for further questions. False: it is gone, or is not the directory's owner's. */
bool cn_survey_connect(const struct cn_look *look, struct cn_survey_call *call);

#endif
